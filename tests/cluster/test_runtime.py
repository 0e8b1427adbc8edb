"""The controller runtime against an API server: the same cases on every backend."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from corral.kube import KubeClient, Obj
from corral.kube.connection.transport import ClientSettings
from corral.kube.resources import CONFIGMAPS, DEPLOYMENTS, EVENTS, LEASES
from corral.runtime import (
    CONTROLLER_UID_INDEX,
    BackoffSettings,
    Change,
    ChildWriter,
    ConsistencyStore,
    ElectionSettings,
    EventRecorder,
    Informer,
    LeaderElector,
    Manager,
    ReflectorSettings,
    Result,
    Scope,
    add_finalizer,
    index_by_controller_uid,
    is_being_deleted,
    key_of,
    owner_by_uid,
    remove_finalizer,
    set_condition,
    version_of,
    write_status,
)
from tests.backends import EmbeddedBackend

QUICK = BackoffSettings(first=0.02, cap=0.2)


@pytest.fixture
async def client(kubeconfig: str) -> AsyncIterator[KubeClient]:
    async with KubeClient.from_kubeconfig(kubeconfig) as client:
        yield client


async def until(condition: Callable[[], Any], limit: float = 30) -> None:
    async with asyncio.timeout(limit):
        while not condition():  # noqa: ASYNC110 - what is waited for happens in a server
            await asyncio.sleep(0.01)


@asynccontextmanager
async def running(informer: Informer) -> AsyncIterator[Informer]:
    task = asyncio.create_task(informer.run())
    try:
        async with asyncio.timeout(30):
            await informer.wait_synced()
        yield informer
        assert not task.done()
    finally:
        task.cancel()
        await asyncio.wait({task})


def configmap(name: str, **data: str) -> Obj:
    return {"metadata": {"name": name, "labels": {"case": "runtime"}}, "data": data}


def scope(namespace: str) -> Scope:
    return Scope(CONFIGMAPS, namespace, label_selector="case=runtime")


async def create_many(client: KubeClient, namespace: str, names: list[str]) -> None:
    for start in range(0, len(names), 50):
        batch = names[start : start + 50]
        await asyncio.gather(
            *(client.create(CONFIGMAPS, configmap(n), namespace=namespace) for n in batch)
        )


class Tally:
    """Follows the story an informer tells, and fails if it makes no sense."""

    def __init__(self) -> None:
        self.objects: dict[str, Obj] = {}
        self.problems: list[str] = []
        self.unknown = 0

    def __call__(self, change: Change) -> None:
        known = change.key in self.objects
        if known == (change.type == "added"):
            self.problems.append(f"{change.type} {change.key} though known is {known}")
        if change.type == "deleted":
            self.objects.pop(change.key, None)
            self.unknown += change.final_state_unknown
        else:
            self.objects[change.key] = change.object

    async def agrees(self, client: KubeClient, namespace: str) -> None:
        """Wait until what was told is what the server has."""
        found = await client.list_all(CONFIGMAPS, namespace, label_selector="case=runtime")
        wanted = {key_of(obj): version_of(obj) for obj in found["items"]}
        await until(lambda: {k: version_of(o) for k, o in self.objects.items()} == wanted)
        assert self.problems == []


class Proxy:
    """Passes connections on to the server, until it is told to break them."""

    def __init__(self, target: str) -> None:
        parts = urlsplit(target)
        self._host, self._port = parts.hostname, parts.port
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.refusing = False
        self.connections = 0

    async def __aenter__(self) -> Proxy:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.url = f"https://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        self.cut()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def cut(self) -> None:
        for writer in self._writers:
            writer.transport.abort()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.refusing:
            writer.transport.abort()
            return
        self.connections += 1
        back, forth = await asyncio.open_connection(self._host, self._port)
        self._writers |= {writer, forth}
        for source, sink in ((reader, forth), (back, writer)):
            task = asyncio.create_task(self._copy(source, sink))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _copy(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(2**16):
                sink.write(data)
                await sink.drain()
        except OSError:
            pass  # cut
        finally:
            self._writers.discard(sink)
            sink.close()


@asynccontextmanager
async def behind_proxy(client: KubeClient) -> AsyncIterator[tuple[Proxy, KubeClient]]:
    async with Proxy(client.config.server) as proxy:
        config = replace(client.config, server=proxy.url)
        settings = ClientSettings(max_retries=0)
        async with KubeClient(config, settings=settings) as proxied:
            yield proxy, proxied


# --- informers -----------------------------------------------------------------------------------


@pytest.mark.parametrize("watch_list", [False, True], ids=["list", "watch-list"])
async def test_informer_sees_everything(
    client: KubeClient, namespace: str, watch_list: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="corral.runtime")
    names = [f"obj-{n:03}" for n in range(500)]
    await create_many(client, namespace, names[:250])
    tally = Tally()
    settings = ReflectorSettings(watch_list=watch_list, page_size=100)
    informer = Informer(client, scope(namespace), settings=settings)
    informer.add_handler(tally)
    async with running(informer):
        await create_many(client, namespace, names[250:])
        for name in names[:500:50]:
            await client.delete(CONFIGMAPS, name, namespace=namespace)
            other = f"{name[:-1]}1"
            patch = {"data": {"touched": "yes"}}
            await client.patch(CONFIGMAPS, other, namespace=namespace, patch=patch)
        await tally.agrees(client, namespace)
        assert len(informer.store) == 490 and informer.lists == 1
        assert not any("managedFields" in obj["metadata"] for obj in informer.store)
        assert [r.message for r in caplog.records if "listing" in r.message] == []


async def test_informer_resumes_lost_watches(client: KubeClient, namespace: str) -> None:
    tally = Tally()
    async with behind_proxy(client) as (proxy, proxied):
        informer = Informer(proxied, scope(namespace), settings=ReflectorSettings(backoff=QUICK))
        informer.add_handler(tally)
        async with running(informer):
            for turn in range(3):
                name = f"turn-{turn}"
                await client.create(CONFIGMAPS, configmap(name), namespace=namespace)
                await client.create(CONFIGMAPS, configmap(f"{name}-b"), namespace=namespace)
                await until(lambda name=name: f"{namespace}/{name}-b" in informer.store)
                proxy.cut()
                await client.delete(CONFIGMAPS, name, namespace=namespace)
                await tally.agrees(client, namespace)
            assert informer.lists == 1 and tally.unknown == 0
            assert proxy.connections >= 4


async def test_deletes_in_a_gap_are_found_by_the_next_list(
    client: KubeClient, namespace: str
) -> None:
    await create_many(client, namespace, ["kept", "gone", "made-again"])
    tally = Tally()
    settings = ReflectorSettings(relist_after=1.0, backoff=QUICK)
    async with behind_proxy(client) as (proxy, proxied):
        informer = Informer(proxied, scope(namespace), settings=settings)
        informer.add_handler(tally)
        async with running(informer):
            proxy.refusing = True
            proxy.cut()
            for name in ("gone", "made-again"):
                await client.delete(CONFIGMAPS, name, namespace=namespace)
            await create_many(client, namespace, ["made-again", "new"])
            lists = informer.lists
            await until(lambda: informer.age() > 2.0)
            proxy.refusing = False
            await until(lambda: informer.lists > lists)
            await tally.agrees(client, namespace)
            assert tally.unknown == 2


async def test_informer_survives_a_killed_server(tmp_path: Path) -> None:
    backend = EmbeddedBackend(tmp_path, controllers=False)
    backend.start()
    tally = Tally()
    try:
        async with KubeClient.from_kubeconfig(str(backend.kubeconfig)) as client:
            await create_many(client, "default", [f"a-{n}" for n in range(5)])
            settings = ReflectorSettings(backoff=QUICK)
            informer = Informer(client, scope("default"), settings=settings)
            informer.add_handler(tally)
            async with running(informer):
                for turn in range(2):
                    await asyncio.to_thread(backend.stop)
                    await asyncio.to_thread(backend.start)
                    await client.delete(CONFIGMAPS, f"a-{turn}", namespace="default")
                    await create_many(client, "default", [f"b-{turn}"])
                    await tally.agrees(client, "default")
                assert len(informer.store) == 5
    finally:
        backend.stop()


# --- controllers ---------------------------------------------------------------------------------


class Fleet:
    """A controller that keeps as many children of random names as an object says."""

    def __init__(self, client: KubeClient, namespace: str) -> None:
        self.manager = Manager(client)
        self.owners = self.manager.informer(CONFIGMAPS, namespace, label_selector="role=owner")
        self.children = self.manager.informer(CONFIGMAPS, namespace, label_selector="role=child")
        self.children.add_index(CONTROLLER_UID_INDEX, index_by_controller_uid)
        self.consistency = ConsistencyStore({CONFIGMAPS: self.children})
        self.writer = ChildWriter(client, field_manager="fleet", consistency=self.consistency)
        self.busy: Counter[str] = Counter()
        self.overlaps = 0
        self.failures = 0
        self.rng = random.Random(7)
        controller = self.manager.controller("fleet", self.reconcile, workers=8)
        controller.watch(self.owners)
        controller.watch(self.children, owner_by_uid(self.owners))

    async def reconcile(self, key: str) -> Result | None:
        self.busy[key] += 1
        try:
            self.overlaps += self.busy[key] > 1
            return await self._reconcile(key)
        finally:
            self.busy[key] -= 1

    async def _reconcile(self, key: str) -> Result | None:
        owner = self.owners.store.get(key)
        if owner is None:
            return None
        self.consistency.ensure_ready(key)
        wanted = int(owner["data"]["children"])
        mine = self.children.store.by_index(CONTROLLER_UID_INDEX, owner["metadata"]["uid"])
        missing = wanted - len(mine)
        if missing > 0:
            child = {"metadata": {"generateName": "child-", "labels": {"role": "child"}}}
            await self.writer.create(owner, CONFIGMAPS, child)
            if self.rng.random() < 0.2:
                self.failures += 1
                raise RuntimeError("after the write")
            return Result(requeue_after=0.001) if missing > 1 else None
        return None


async def test_controller_neither_loses_nor_doubles(client: KubeClient, namespace: str) -> None:
    fleet = Fleet(client, namespace)
    owners = 20
    for n in range(owners):
        owner = configmap(f"owner-{n}", children="2")
        owner["metadata"]["labels"] = {"role": "owner"}
        await client.create(CONFIGMAPS, owner, namespace=namespace)
    task = asyncio.create_task(fleet.manager.run())
    try:
        await until(lambda: fleet.manager.ready)
        for n in range(owners):
            patch = {"data": {"children": str(1 + n % 5)}}
            await client.patch(CONFIGMAPS, f"owner-{n}", namespace=namespace, patch=patch)
            await client.patch(
                CONFIGMAPS, f"owner-{n}", namespace=namespace, patch={"data": {"touched": "yes"}}
            )
        wanted = {f"owner-{n}": 1 + n % 5 for n in range(owners)}

        def enough() -> bool:
            found = Counter(
                child["metadata"]["ownerReferences"][0]["name"] for child in fleet.children.store
            )
            return all(found[name] >= count for name, count in wanted.items())

        await until(enough)
    finally:
        fleet.manager.stop()
        await task
    found = Counter()
    async for child in client.list(CONFIGMAPS, namespace, label_selector="role=child"):
        found[child["metadata"]["ownerReferences"][0]["name"]] += 1
    # An owner may have had two before it was told to have one.
    assert all(max(count, 2) >= found[name] >= count for name, count in wanted.items()), found
    assert fleet.overlaps == 0 and fleet.failures > 0


async def test_finalizers_status_and_apply(client: KubeClient, namespace: str) -> None:
    owner = await client.create(CONFIGMAPS, configmap("owner"), namespace=namespace)
    owner = await add_finalizer(client, CONFIGMAPS, owner, finalizer="corral.test/case")
    writer = ChildWriter(client, field_manager="case")
    labels = {"app": "web"}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "main", "image": "example.test/app:1"}]},
    }
    spec = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
    child = {"metadata": {"name": "web", "namespace": namespace}, "spec": spec}
    applied = await writer.apply(owner, DEPLOYMENTS, dict(child))
    again = await writer.apply(owner, DEPLOYMENTS, dict(child))
    assert applied["metadata"]["uid"] == again["metadata"]["uid"]
    assert again["metadata"]["ownerReferences"][0]["controller"] is True

    read = await client.get(DEPLOYMENTS, "web", namespace=namespace)
    conditions = list((read.get("status") or {}).get("conditions") or ())
    assert set_condition(
        conditions, "CaseReady", status="True", reason="Written", now="2024-01-01T00:00:00Z"
    )
    status = {**(read.get("status") or {}), "conditions": conditions}
    written = await write_status(client, DEPLOYMENTS, read, status, guarded=False)
    assert any(c["type"] == "CaseReady" for c in written["status"]["conditions"])

    await client.delete(CONFIGMAPS, "owner", namespace=namespace)
    owner = await client.get(CONFIGMAPS, "owner", namespace=namespace)
    assert is_being_deleted(owner)
    await remove_finalizer(client, CONFIGMAPS, owner, finalizer="corral.test/case")
    found = await client.list_all(CONFIGMAPS, namespace, label_selector="case=runtime")
    assert found["items"] == []


# --- leadership and events -----------------------------------------------------------------------


class Candidate:
    """An elector whose work notes when it leads."""

    def __init__(
        self, client: KubeClient, namespace: str, identity: str, log: list[str], *, release: bool
    ) -> None:
        self.log, self.identity = log, identity
        self.elector = LeaderElector(
            client,
            name="case",
            namespace=namespace,
            identity=identity,
            settings=ElectionSettings(lease_duration=2, renew_deadline=1.5, retry_period=0.1),
            release_on_cancel=release,
        )
        self.task = asyncio.create_task(self.elector.run(self.work))

    async def work(self) -> None:
        self.log.append(f"{self.identity} begins")
        try:
            await asyncio.Event().wait()
        finally:
            self.log.append(f"{self.identity} ends")

    async def end(self) -> None:
        self.task.cancel()
        await asyncio.wait({self.task})


async def test_leadership_is_handed_over(client: KubeClient, namespace: str) -> None:
    log: list[str] = []
    first = Candidate(client, namespace, "first", log, release=True)
    await until(lambda: log == ["first begins"])
    second = Candidate(client, namespace, "second", log, release=False)
    await until(lambda: second.elector.leader == "first")
    await first.end()
    lease = await client.get(LEASES, "case", namespace=namespace)
    assert log[1] == "first ends" and lease["spec"].get("holderIdentity") != "first"
    await until(lambda: "second begins" in log, limit=1.5)

    third = Candidate(client, namespace, "third", log, release=True)
    await until(lambda: third.elector.leader == "second")
    await second.end()  # as if it had died: the lease is left to run out
    await until(lambda: "third begins" in log)
    lease = await client.get(LEASES, "case", namespace=namespace)
    assert lease["spec"]["holderIdentity"] == "third"
    assert lease["spec"]["leaseTransitions"] == 2
    await third.end()
    expected = [
        f"{who} {what}" for who in ("first", "second", "third") for what in ("begins", "ends")
    ]
    assert log == expected


async def test_events_are_counted(client: KubeClient, namespace: str) -> None:
    about = await client.create(CONFIGMAPS, configmap("about"), namespace=namespace)
    recorder = EventRecorder(client, "case-controller", host="here")
    task = asyncio.create_task(recorder.run())
    try:
        for _ in range(3):
            recorder.normal(about, "Started", "it runs")
        for n in range(11):
            recorder.warning(about, "Broken", f"failure {n}")
        async with asyncio.timeout(30):
            await recorder.flush()
    finally:
        task.cancel()
        await asyncio.wait({task})
    found = {}
    selector = "involvedObject.name=about"
    async for event in client.list(EVENTS, namespace, field_selector=selector):
        found[event["message"]] = event
    assert found["it runs"]["count"] == 3 and found["it runs"]["type"] == "Normal"
    combined = found["(combined from similar events): failure 10"]
    assert combined["count"] == 2 and len(found) == 1 + 9 + 1
    assert combined["source"] == {"component": "case-controller", "host": "here"}
