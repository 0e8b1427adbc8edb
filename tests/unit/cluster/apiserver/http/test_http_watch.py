"""A server that forgets fast: what watches and pages answer when the past is gone."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from pathlib import Path

import aiohttp
import orjson
import pytest

from corral.cluster.apiserver.auth.users import UserInfo
from corral.cluster.apiserver.crud.kind import Kind
from corral.cluster.apiserver.fairness.watches import WatchLimit
from corral.cluster.apiserver.http.watch import transition
from corral.cluster.apiserver.server import ApiServer, Config
from corral.cluster.apiserver.store import ADDED, DELETED, MODIFIED, Entry, Event, Limits
from corral.kube import KubeClient, errors
from corral.kube.resources import CONFIGMAPS


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[KubeClient]:
    server = ApiServer(Config(data_dir=tmp_path))
    server.store._limits = Limits(min_events=0, max_events=20)
    await server.start()
    async with KubeClient.from_kubeconfig(str(server.kubeconfig)) as client:
        yield client
    await server.stop()


async def fill(client: KubeClient, count: int = 30) -> str:
    """Make the server forget; the version before."""
    page = await client.list_all(CONFIGMAPS, "default")
    for n in range(count):
        await client.create(
            CONFIGMAPS, {"metadata": {"generateName": "m-"}, "data": {"n": str(n)}},
            namespace="default",
        )  # fmt: skip
    version: str = page["metadata"]["resourceVersion"]
    return version


async def test_forgotten_version_is_an_event(client: KubeClient) -> None:
    version = await fill(client)
    path = f"/api/v1/namespaces/default/configmaps?watch=1&resourceVersion={version}"
    line = orjson.loads(await client.request("GET", path))
    assert line["type"] == "ERROR"
    status = line["object"]
    assert (status["code"], status["reason"]) == (410, "Expired")
    assert status["message"].startswith(f"too old resource version: {version} (")
    async with aclosing(client.watch(CONFIGMAPS, "default", resource_version=version)) as events:
        with pytest.raises(errors.Gone):
            await anext(events)


async def test_newest_version_is_never_forgotten(client: KubeClient) -> None:
    await fill(client)
    page = await client.list_all(CONFIGMAPS, "default")
    version = page["metadata"]["resourceVersion"]
    async with (
        asyncio.timeout(10),
        aclosing(client.watch(CONFIGMAPS, "default", resource_version=version)) as events,
    ):
        made = await client.create(CONFIGMAPS, {"metadata": {"name": "next"}}, namespace="default")
        event = await anext(events)
    assert (event.type, event.object) == ("ADDED", made)


async def test_lists_restart_when_a_page_expires(client: KubeClient) -> None:
    await fill(client, 10)
    path = "/api/v1/namespaces/default/configmaps"
    first = orjson.loads(await client.request("GET", f"{path}?limit=4"))
    await fill(client)
    token = first["metadata"]["continue"]
    with pytest.raises(errors.Gone) as caught:
        await client.request("GET", path, query=[("limit", "4"), ("continue", token)])
    assert caught.value.status["reason"] == "Expired"


CONTROLLER = UserInfo("system:kube-controller-manager", groups=("system:authenticated",))


@asynccontextmanager
async def watching(
    tmp_path: Path, count: int
) -> AsyncIterator[tuple[ApiServer, KubeClient, list[aiohttp.ClientResponse]]]:
    """A server where a flow may have three watches, and one whose flow asks for some."""
    server = ApiServer(Config(data_dir=tmp_path, users={"controller": CONTROLLER}))
    await server.start()
    server.verbs._watches = WatchLimit(3)
    tls = ssl.create_default_context(cafile=str(server.pki.ca.cert_file))
    base = f"https://127.0.0.1:{server.port}/api/v1/namespaces/default/configmaps"
    headers = {"Authorization": "Bearer controller"}
    try:
        async with (
            AsyncExitStack() as stack,
            KubeClient.from_kubeconfig(str(server.kubeconfig)) as client,
            aiohttp.ClientSession(headers=headers) as session,
        ):
            version = (await client.list_all(CONFIGMAPS, "default"))["metadata"]["resourceVersion"]
            url = f"{base}?watch=1&resourceVersion={version}"
            opened = [session.get(url, ssl=tls) for _ in range(count)]
            yield server, client, [await stack.enter_async_context(one) for one in opened]
    finally:
        await server.stop()


async def test_one_watch_more_than_a_flow_may_have_is_refused(tmp_path: Path) -> None:
    async with watching(tmp_path, 4) as (_, _, answers):
        assert [answer.status for answer in answers] == [200, 200, 200, 429]
        assert answers[3].headers["Retry-After"] == "1"
        status = await answers[3].json()
    assert status["reason"] == "TooManyRequests"
    assert status["message"].startswith(f"too many watches of {CONTROLLER.name}: at most 3 are")


async def test_an_event_is_encoded_once_for_all_who_watch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with watching(tmp_path, 3) as (server, client, answers):
        encoded: list[str] = []
        encode = server.registry.encode_out

        def counted(kind: Kind, entry: Entry) -> bytes:
            encoded.append(entry.name)
            return encode(kind, entry)

        monkeypatch.setattr(server.registry, "encode_out", counted)
        await client.create(CONFIGMAPS, {"metadata": {"name": "seen"}}, namespace="default")
        lines = [orjson.loads(await answer.content.readline()) for answer in answers]
    assert [line["object"]["metadata"]["name"] for line in lines] == ["seen"] * 3
    assert encoded.count("seen") == 1


def version(rv: int, labels: dict[str, str]) -> Entry:
    return Entry("/t", "k", b"{}", rv=rv, create_rv=1, meta={"name": "k", "labels": labels})


IN, OUT = {"in": "yes"}, {"in": "no"}


@pytest.mark.parametrize(
    ("type_", "before", "after", "wanted"),
    [
        (ADDED, None, IN, ADDED),
        (ADDED, None, OUT, ""),
        (MODIFIED, IN, IN, MODIFIED),
        (MODIFIED, OUT, IN, ADDED),
        (MODIFIED, IN, OUT, DELETED),
        (MODIFIED, OUT, OUT, ""),
        (DELETED, IN, IN, DELETED),
        (DELETED, OUT, OUT, ""),
    ],
)
def test_transitions(
    type_: str, before: dict[str, str] | None, after: dict[str, str], wanted: str
) -> None:
    event = Event(type_, version(2, after), None if before is None else version(1, before))
    assert transition(event, lambda entry: entry.labels == IN) == wanted
