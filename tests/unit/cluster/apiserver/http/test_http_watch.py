"""A server that forgets fast: what watches and pages answer when the past is gone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import orjson
import pytest

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
