"""Lists and watches: selectors, pages, versions, bookmarks, streaming lists."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any

import orjson
import pytest

from corral.kube import (
    KubeClient,
    Obj,
    WatchEvent,
    WatchRequest,
    errors,
    is_initial_events_end,
    watch_events,
)
from corral.kube.resources import CONFIGMAPS, NAMESPACES, PODS
from tests.backends import Backend

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
METADATA = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json"


@pytest.fixture
async def client(kubeconfig: str) -> AsyncIterator[KubeClient]:
    async with KubeClient.from_kubeconfig(kubeconfig) as client:
        yield client


class Maps:
    """The ConfigMaps of one namespace."""

    def __init__(self, client: KubeClient, namespace: str) -> None:
        self.client = client
        self.namespace = namespace

    async def make(self, name: str, labels: dict[str, str] | None = None, **data: str) -> Obj:
        obj = {"metadata": {"name": name, "labels": labels or {}}, "data": data}
        return await self.client.create(CONFIGMAPS, obj, namespace=self.namespace)

    async def change(self, name: str, patch: Obj) -> Obj:
        return await self.client.patch(CONFIGMAPS, name, patch=patch, namespace=self.namespace)

    async def label(self, name: str, **labels: str | None) -> Obj:
        return await self.change(name, {"metadata": {"labels": labels}})

    async def delete(self, name: str) -> None:
        await self.client.delete(CONFIGMAPS, name, namespace=self.namespace)

    async def version(self) -> str:
        """The version of a list of now, by which later events are told from earlier ones."""
        page = await self.client.list_all(CONFIGMAPS, self.namespace)
        version: str = page["metadata"]["resourceVersion"]
        return version

    def watch(self, **options: Any) -> AsyncGenerator[WatchEvent, None]:
        return watch_events(
            self.client.transport, WatchRequest(CONFIGMAPS, self.namespace, **options)
        )

    async def take(self, count: int, **options: Any) -> list[WatchEvent]:
        """The first events of a watch."""
        taken: list[WatchEvent] = []
        async with asyncio.timeout(20), aclosing(self.watch(**options)) as events:
            async for event in events:
                taken.append(event)
                if len(taken) == count:
                    break
        return taken


@pytest.fixture
async def maps(client: KubeClient, namespace: str) -> Maps:
    return Maps(client, namespace)


def told(events: list[WatchEvent]) -> list[tuple[str, str]]:
    return [(e.type, e.object["metadata"]["name"]) for e in events]


# -- watching -----------------------------------------------------------------------------------


async def test_watch_replays_from_a_version_in_order(maps: Maps) -> None:
    await maps.make("before")
    version = await maps.version()
    await maps.make("a", x="1")
    await maps.change("a", {"data": {"x": "2"}})
    await maps.make("b")
    await maps.delete("a")
    events = await maps.take(4, resource_version=version)
    assert told(events) == [("ADDED", "a"), ("MODIFIED", "a"), ("ADDED", "b"), ("DELETED", "a")]
    assert [e.object.get("data") for e in events[:2]] == [{"x": "1"}, {"x": "2"}]
    versions = [int(e.object["metadata"]["resourceVersion"]) for e in events]
    assert versions == sorted(set(versions)) and versions[0] > int(version)
    assert events[3].object["data"] == {"x": "2"}
    assert all(e.object["kind"] == "ConfigMap" for e in events)


async def test_watch_without_a_version_begins_with_the_state(maps: Maps) -> None:
    for name in ("a", "b"):
        await maps.make(name)
    events = await maps.take(3, field_selector="metadata.name!=x")
    assert {e.type for e in events} == {"ADDED"}
    assert {e.object["metadata"]["name"] for e in events} == {"a", "b", "kube-root-ca.crt"}


async def test_label_selector_makes_events_of_what_comes_and_goes(maps: Maps) -> None:
    version = await maps.version()
    await maps.make("a", {"colour": "blue"})
    await maps.make("b", {"colour": "red"})
    await maps.label("a", colour="red")
    await maps.label("a", size="big")
    await maps.label("b", colour="blue")
    await maps.label("b", size="big")
    await maps.delete("b")
    await maps.delete("a")
    events = await maps.take(5, resource_version=version, label_selector="colour=red")
    assert told(events) == [
        ("ADDED", "b"), ("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "b"), ("DELETED", "a"),
    ]  # fmt: skip
    left = events[3].object
    assert left["metadata"]["labels"] == {"colour": "red"}


async def test_watch_of_one_object_by_name(maps: Maps) -> None:
    version = await maps.version()
    for name in ("a", "b"):
        await maps.make(name)
        await maps.change(name, {"data": {"x": "1"}})
    await maps.delete("b")
    events = await maps.take(3, resource_version=version, field_selector="metadata.name=b")
    assert told(events) == [("ADDED", "b"), ("MODIFIED", "b"), ("DELETED", "b")]


async def test_watch_of_a_cluster_scoped_object_by_name(client: KubeClient, namespace: str) -> None:
    request = WatchRequest(NAMESPACES, field_selector=f"metadata.name={namespace}")
    async with asyncio.timeout(20), aclosing(watch_events(client.transport, request)) as events:
        first = await anext(events)
        assert told([first]) == [("ADDED", namespace)]
        await client.patch(NAMESPACES, namespace, patch={"metadata": {"labels": {"x": "y"}}})
        async for event in events:
            if event.object["metadata"].get("labels", {}).get("x") == "y":
                assert event.type == "MODIFIED"
                break


async def test_field_selector_on_status_makes_events(client: KubeClient, maps: Maps) -> None:
    spec = {
        "containers": [{"name": "main", "image": "example.test/a:1"}],
        "schedulerName": "nobody",  # who would write to its status
    }
    pod = {"metadata": {"name": "p"}, "spec": spec}
    page = await client.list_all(PODS, maps.namespace)
    await client.create(PODS, pod, namespace=maps.namespace)
    for phase in ("Running", "Succeeded"):
        await client.patch(
            PODS, "p", patch={"status": {"phase": phase}}, subresource="status",
            namespace=maps.namespace,
        )  # fmt: skip
    request = WatchRequest(
        PODS, maps.namespace, resource_version=page["metadata"]["resourceVersion"],
        field_selector="status.phase=Running",
    )  # fmt: skip
    async with asyncio.timeout(20), aclosing(watch_events(client.transport, request)) as events:
        assert [(await anext(events)).type for _ in range(2)] == ["ADDED", "DELETED"]


async def test_two_namespaces_do_not_mix(maps: Maps, client: KubeClient) -> None:
    version = await maps.version()
    await client.create(
        CONFIGMAPS, {"metadata": {"generateName": "elsewhere-"}}, namespace="default"
    )
    await maps.make("here")
    (event,) = await maps.take(1, resource_version=version)
    assert told([event]) == [("ADDED", "here")]


async def test_watch_ends_when_its_time_is_over(maps: Maps) -> None:
    version = await maps.version()
    async with asyncio.timeout(20):
        events = [e async for e in maps.watch(resource_version=version, timeout_seconds=1)]
    assert {e.type for e in events} <= {"BOOKMARK"}


async def test_bookmarks_carry_a_version_to_resume_from(maps: Maps, backend: Backend) -> None:
    if backend.name == "real":
        pytest.skip("the real server sends bookmarks once a minute")
    await maps.make("a")
    async with asyncio.timeout(20):
        events = [
            e async for e in maps.watch(
                resource_version=await maps.version(), timeout_seconds=1, bookmarks=True
            )
        ]  # fmt: skip
    assert events, "the last seconds of a watch bring a bookmark"
    last = events[-1]
    assert last.type == "BOOKMARK"
    assert last.object["kind"] == "ConfigMap" and last.object["apiVersion"] == "v1"
    version = last.object["metadata"]["resourceVersion"]
    await maps.make("b")
    (event,) = await maps.take(1, resource_version=version)
    assert told([event]) == [("ADDED", "b")]


async def test_streaming_list(maps: Maps) -> None:
    for name in ("a", "b", "c"):
        await maps.make(name, {"listed": "yes"})
    options = {"label_selector": "listed=yes", "send_initial_events": True}
    async with asyncio.timeout(20), aclosing(maps.watch(**options)) as events:
        first = [await anext(events) for _ in range(4)]
        assert sorted(told(first[:3])) == [("ADDED", "a"), ("ADDED", "b"), ("ADDED", "c")]
        end = first[3]
        assert is_initial_events_end(end)
        version = end.object["metadata"]["resourceVersion"]
        assert int(version) >= max(int(e.object["metadata"]["resourceVersion"]) for e in first[:3])
        await maps.make("d", {"listed": "yes"})
        assert told([await anext(events)]) == [("ADDED", "d")]


@pytest.mark.parametrize(
    ("query", "complaint"),
    [
        ("watch=1&sendInitialEvents=true", "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"),  # noqa: E501
        ("watch=1&resourceVersionMatch=NotOlderThan", "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"),  # noqa: E501
        ("sendInitialEvents=true", "sendInitialEvents is forbidden for list"),
        ("resourceVersionMatch=Exact", "resourceVersionMatch is forbidden unless resourceVersion is provided"),  # noqa: E501
        ("resourceVersionMatch=Near&resourceVersion=1", 'Unsupported value: "Near"'),
        ("resourceVersionMatch=Exact&resourceVersion=0", 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'),  # noqa: E501
    ],
)  # fmt: skip
async def test_options_that_contradict(
    client: KubeClient, namespace: str, query: str, complaint: str
) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps?{query}"
    with pytest.raises(errors.Invalid) as caught:
        await client.request("GET", path)
    assert complaint in caught.value.message
    assert caught.value.message.startswith("ListOptions.meta.k8s.io ")


async def test_too_old_version_is_gone(maps: Maps, backend: Backend) -> None:
    if backend.name == "real":
        pytest.skip("a young etcd has forgotten nothing yet")
    with pytest.raises(errors.Gone) as caught:
        await maps.take(1, resource_version="1")
    assert caught.value.message.startswith("too old resource version: 1 (")
    assert caught.value.status["reason"] == "Expired"


@pytest.mark.parametrize("version", ["nonsense", "-1"])
async def test_version_that_is_none(maps: Maps, version: str) -> None:
    with pytest.raises(errors.ApiError) as caught:
        await maps.take(1, resource_version=version)
    assert caught.value.status_code == 500
    assert caught.value.message == (
        f'resourceVersion: Invalid value: "{version}": '
        f'strconv.ParseUint: parsing "{version}": invalid syntax'
    )
    with pytest.raises(errors.BadRequest) as refused:
        await page(maps, resourceVersion=version)
    assert refused.value.message == f"invalid resource version: {caught.value.message}"


async def test_watch_from_a_version_to_come(maps: Maps) -> None:
    made = await maps.make("a")
    future = int(made["metadata"]["resourceVersion"]) + 20
    watching = asyncio.create_task(maps.take(1, resource_version=str(future)))
    await asyncio.sleep(0)
    for n in range(40):
        await maps.change("a", {"data": {"n": str(n)}})
    (event,) = await watching
    assert int(event.object["metadata"]["resourceVersion"]) > future


async def test_streaming_list_of_a_version_that_does_not_come(maps: Maps) -> None:
    future = str(int(await maps.version()) + 1_000_000)
    with pytest.raises(errors.ApiError) as caught:
        await maps.take(1, resource_version=future, send_initial_events=True)
    assert caught.value.status_code == 504
    assert caught.value.message.startswith(f"Timeout: Too large resource version: {future}, ")


async def test_table_watch(maps: Maps) -> None:
    version = await maps.version()
    await maps.make("a", x="1")
    await maps.make("b")
    events = await maps.take(2, resource_version=version, accept=TABLE)
    first, second = (e.object for e in events)
    assert [e.type for e in events] == ["ADDED", "ADDED"]
    assert first["kind"] == "Table" and first["apiVersion"] == "meta.k8s.io/v1"
    assert [c["name"] for c in first["columnDefinitions"]] == ["Name", "Data", "Age"]
    assert first["rows"][0]["cells"][:2] == ["a", 1]
    assert first["rows"][0]["object"]["kind"] == "PartialObjectMetadata"
    assert not second.get("columnDefinitions")
    assert second["rows"][0]["cells"][:2] == ["b", 0]


async def test_metadata_watch(maps: Maps) -> None:
    version = await maps.version()
    made = await maps.make("a", x="1")
    (event,) = await maps.take(1, resource_version=version, accept=METADATA)
    assert event.object["kind"] == "PartialObjectMetadata"
    assert event.object["apiVersion"] == "meta.k8s.io/v1"
    assert event.object["metadata"]["uid"] == made["metadata"]["uid"]
    assert "data" not in event.object


async def test_many_watches_see_the_same(maps: Maps) -> None:
    version = await maps.version()
    watches = [
        asyncio.create_task(maps.take(20, resource_version=version, label_selector=selector))
        for selector in ("", "", "", "all=yes")
    ]
    await asyncio.gather(*(maps.make(f"m{n}", {"all": "yes"}) for n in range(20)))
    results = await asyncio.gather(*watches)
    assert all(result == results[0] for result in results)
    assert len({e.object["metadata"]["name"] for e in results[0]}) == 20


# -- lists ----------------------------------------------------------------------------------------


async def page(maps: Maps, **query: str) -> Obj:
    path = f"/api/v1/namespaces/{maps.namespace}/configmaps"
    read: Obj = orjson.loads(await maps.client.request("GET", path, query=list(query.items())))
    return read


def names(listed: Obj) -> list[str]:
    return [o["metadata"]["name"] for o in listed["items"]]


async def test_pages_are_of_one_version(maps: Maps) -> None:
    for n in range(7):
        await maps.make(f"m{n}", {"n": str(n)})
    first = await page(maps, limit="3")
    assert names(first) == ["kube-root-ca.crt", "m0", "m1"]
    assert first["metadata"]["remainingItemCount"] == 5
    version = first["metadata"]["resourceVersion"]
    await maps.delete("m3")
    await maps.change("m4", {"data": {"changed": "yes"}})
    await maps.make("m9")
    second = await page(maps, limit="3", **{"continue": first["metadata"]["continue"]})
    assert names(second) == ["m2", "m3", "m4"]
    assert second["metadata"]["resourceVersion"] == version
    assert "data" not in second["items"][2]
    third = await page(maps, limit="3", **{"continue": second["metadata"]["continue"]})
    assert names(third) == ["m5", "m6"]
    assert "continue" not in third["metadata"]
    assert "remainingItemCount" not in third["metadata"]


async def test_pages_with_a_selector_do_not_count_what_is_left(maps: Maps) -> None:
    for n in range(5):
        await maps.make(f"m{n}", {"odd": str(n % 2)})
    first = await page(maps, limit="2", labelSelector="odd=0")
    assert names(first) == ["m0", "m2"]
    assert "remainingItemCount" not in first["metadata"]
    rest = await page(
        maps, limit="2", labelSelector="odd=0", **{"continue": first["metadata"]["continue"]}
    )
    assert names(rest) == ["m4"]


@pytest.mark.parametrize("token", ["nonsense", "e30"])
async def test_continue_token_that_is_none(maps: Maps, token: str) -> None:
    with pytest.raises(errors.BadRequest) as caught:
        await page(maps, limit="1", **{"continue": token})
    assert "continue key is not valid" in caught.value.message


async def test_version_beside_a_continue_token(maps: Maps) -> None:
    await maps.make("a")
    first = await page(maps, limit="1")
    token = first["metadata"]["continue"]
    with pytest.raises(errors.BadRequest) as caught:
        await page(maps, limit="1", resourceVersion="5", **{"continue": token})
    assert caught.value.message == (
        "specifying resource version is not allowed when using continue"
    )


async def test_exact_version_is_the_past(maps: Maps) -> None:
    made = await maps.make("a", x="1")
    version = made["metadata"]["resourceVersion"]
    await maps.change("a", {"data": {"x": "2"}})
    newest = (await maps.make("b"))["metadata"]["resourceVersion"]
    past = await page(maps, resourceVersion=version, resourceVersionMatch="Exact")
    assert past["metadata"]["resourceVersion"] == version
    assert names(past) == ["a", "kube-root-ca.crt"]
    assert past["items"][0]["data"] == {"x": "1"}
    now = await page(maps, resourceVersion=newest, resourceVersionMatch="NotOlderThan")
    assert names(now) == ["a", "b", "kube-root-ca.crt"]


async def test_version_of_the_future(maps: Maps) -> None:
    future = str(int(await maps.version()) + 1_000_000)
    with pytest.raises(errors.ApiError) as caught:
        await page(maps, resourceVersion=future, resourceVersionMatch="NotOlderThan")
    assert caught.value.status_code == 504 and caught.value.reason == "Timeout"
    assert "Too large resource version" in caught.value.message
    assert caught.value.details["causes"][0]["reason"] == "ResourceVersionTooLarge"


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        ("app=web", ["a"]),
        ("app!=web", ["b", "c", "kube-root-ca.crt"]),
        ("app in (web,db)", ["a", "b"]),
        ("app notin (web),app", ["b"]),
        ("!app,tier", ["c"]),
        ("tier>1", ["c"]),
        ("app=web,tier=1", ["a"]),
        ("app=none", []),
    ],
)
async def test_label_selectors(maps: Maps, selector: str, found: list[str]) -> None:
    await maps.make("a", {"app": "web", "tier": "1"})
    await maps.make("b", {"app": "db"})
    await maps.make("c", {"tier": "3"})
    assert names(await page(maps, labelSelector=selector)) == found


@pytest.mark.parametrize(
    ("query", "complaint"),
    [
        ({"labelSelector": "x=a b"}, "found 'b', expected: ',' or 'end of string'"),
        ({"labelSelector": "x in (a"}, "unable to parse requirement: found '', expected: ',' or ')'"),  # noqa: E501
        ({"fieldSelector": "a"}, "invalid selector: 'a'; can't understand 'a'"),
        ({"fieldSelector": "data.x=1"}, '"data.x" is not a known field selector: only "metadata.name", "metadata.namespace"'),  # noqa: E501
        ({"fieldSelector": r"metadata.name=a\b"}, r"invalid field selector: invalid escape sequence: \b"),  # noqa: E501
    ],
)  # fmt: skip
async def test_bad_selectors(maps: Maps, query: dict[str, str], complaint: str) -> None:
    with pytest.raises(errors.BadRequest) as caught:
        await page(maps, **query)
    assert caught.value.message == complaint


async def test_list_over_all_namespaces(maps: Maps, client: KubeClient) -> None:
    await maps.make("needle", {"hay": maps.namespace})
    found = await client.list_all(CONFIGMAPS, None, label_selector=f"hay={maps.namespace}")
    assert [o["metadata"]["namespace"] for o in found["items"]] == [maps.namespace]
    by_field = await client.list_all(
        CONFIGMAPS, None, field_selector=f"metadata.namespace={maps.namespace},metadata.name=needle"
    )
    assert names(by_field) == ["needle"]
