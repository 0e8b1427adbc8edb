from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from prometheus_client import CollectorRegistry
from runtime_fakes import FakeCluster, fake_cluster, now, obj, refusal, until, virtual

from corral.kube.client import KubeClient
from corral.kube.resources import CONFIGMAPS
from corral.runtime import (
    CacheSyncTimeout,
    LeaderElector,
    LeadershipLost,
    Manager,
    ManagerSettings,
    MeteredClient,
    RuntimeMetrics,
    health_app,
)


class Setup:
    def __init__(self, client: KubeClient, **options: Any) -> None:
        self.manager = Manager(client, clock=now, **options)
        self.seen: list[str] = []
        self.slow = 0.0
        informer = self.manager.informer(CONFIGMAPS, "ns")
        self.controller = self.manager.controller("test", self.reconcile)
        self.controller.watch(informer)

    async def reconcile(self, key: str) -> None:
        if self.slow:
            await asyncio.sleep(self.slow)
        self.seen.append(key)


def elector(client: KubeClient, identity: str) -> LeaderElector:
    return LeaderElector(
        client, name="lock", namespace="ns", identity=identity, clock=now, wall=now,
        rng=lambda: 0.5,
    )  # fmt: skip


@virtual
async def test_everything_runs_and_stops_in_order() -> None:
    async with fake_cluster() as (cluster, client):
        cluster.put(obj("a"))
        setup = Setup(client)
        manager, ended = setup.manager, []
        recorder = manager.recorder("test")

        async def beside() -> None:
            try:
                await asyncio.sleep(10_000)
            finally:
                ended.append("beside")

        manager.add_task("beside", beside)
        assert not manager.ready
        running = asyncio.create_task(manager.run())
        await until(lambda: setup.seen == ["ns/a"])
        assert manager.ready and manager.problems() == []
        setup.slow = 20
        cluster.put(obj("b"))
        await asyncio.sleep(1)
        cluster.put(obj("c"))
        await asyncio.sleep(1)
        recorder.normal(obj("a"), "Last", "words")
        stopped = now()
        manager.stop()
        await running
        assert setup.seen == ["ns/a", "ns/b"] and now() - stopped <= 20
        assert ended == ["beside"]
        assert any("/events/" in path for path in cluster.objects)
        assert not manager.ready
        await until(lambda: not cluster.watchers)


@virtual
async def test_the_last_events_are_written() -> None:
    async with fake_cluster() as (cluster, client):
        manager = Manager(client, clock=now)
        running = asyncio.create_task(manager.run())
        await asyncio.sleep(1)
        recorder = manager.recorder("late")
        for name in ("a", "b", "c"):
            recorder.normal(obj(name), "Last", "words")
        manager.stop()
        await running
        assert sum("/events/" in path for path in cluster.objects) == 3


@virtual
async def test_a_reconcile_that_does_not_end_is_cancelled_after_the_grace() -> None:
    async with fake_cluster() as (cluster, client):
        cluster.put(obj("a"))
        setup = Setup(client)
        setup.slow = 1000
        running = asyncio.create_task(setup.manager.run())
        await asyncio.sleep(5)
        stopped = now()
        setup.manager.stop()
        await running
        assert now() - stopped == pytest.approx(30, abs=1) and setup.seen == []


@virtual
async def test_informers_are_shared_by_scope() -> None:
    async with fake_cluster() as (_, client):
        manager = Manager(client, clock=now)
        first = manager.informer(CONFIGMAPS, "ns")
        assert manager.informer(CONFIGMAPS, "ns") is first
        assert manager.informer(CONFIGMAPS) is not first
        assert manager.informer(CONFIGMAPS, "ns", label_selector="a=b") is not first
        assert manager.informer(CONFIGMAPS, "ns", transform=None) is not first


@virtual
async def test_an_informer_can_come_later() -> None:
    async with fake_cluster() as (cluster, client):
        cluster.put(obj("a"))
        manager = Manager(client, clock=now)
        running = asyncio.create_task(manager.run())
        await asyncio.sleep(1)
        late = manager.informer(CONFIGMAPS, "ns")
        await late.wait_synced()
        assert late.store.keys() == ["ns/a"]
        manager.stop()
        await running


@virtual
async def test_no_first_list_in_time() -> None:
    async with fake_cluster() as (cluster, client):

        async def refuse(request: web.Request) -> web.StreamResponse | None:
            return refusal(403, "Forbidden")

        cluster.intercept = refuse
        started = now()
        with pytest.raises(CacheSyncTimeout, match="no first list within 120 s of configmaps ns"):
            await Setup(client).manager.run()
        assert now() - started == pytest.approx(120, abs=1)


@virtual
async def test_a_task_that_fails_ends_everything() -> None:
    async with fake_cluster() as (cluster, client):
        setup = Setup(client)

        async def broken() -> None:
            raise ValueError("broken")

        setup.manager.add_task("broken", broken)
        with pytest.raises(ValueError, match="broken"):
            await setup.manager.run()
        await until(lambda: not cluster.watchers)


@virtual
async def test_a_background_part_that_breaks_ends_everything() -> None:
    async with fake_cluster() as (_, client):
        setup = Setup(client)
        running = asyncio.create_task(setup.manager.run())
        await until(lambda: setup.manager.ready)

        async def broken() -> None:
            raise ValueError("broken")

        setup.manager._start("broken", broken)
        with pytest.raises(ValueError, match="broken"):
            await running


@virtual
async def test_only_the_leader_works() -> None:
    async with fake_cluster() as (cluster, client):
        cluster.put(obj("a"))
        first = Setup(client, elector=elector(client, "a"))
        second = Setup(client, elector=elector(client, "b"))
        running = asyncio.create_task(first.manager.run())
        await until(lambda: first.seen)
        other = asyncio.create_task(second.manager.run())
        await until(lambda: second.manager.ready)
        await asyncio.sleep(60)
        assert second.seen == []
        first.slow = 10
        cluster.put(obj("a", data={}))
        await asyncio.sleep(1)
        first.manager.stop()
        await running
        assert first.seen == ["ns/a", "ns/a"]
        await until(lambda: second.seen, limit=6)
        second.manager.stop()
        await other


@virtual
async def test_a_follower_stops_at_once() -> None:
    async with fake_cluster() as (_, client):
        first = Setup(client, elector=elector(client, "a"))
        second = Setup(client, elector=elector(client, "b"))
        tasks = [asyncio.create_task(s.manager.run()) for s in (first, second)]
        await asyncio.sleep(30)
        second.manager.stop()
        await tasks[1]
        first.manager.stop()
        await tasks[0]


@virtual
async def test_lost_leadership_is_raised() -> None:
    async with fake_cluster() as (cluster, client):
        setup = Setup(client, elector=elector(client, "a"))
        running = asyncio.create_task(setup.manager.run())
        await asyncio.sleep(5)

        async def down(request: web.Request) -> web.StreamResponse | None:
            return refusal(500, "InternalError")

        cluster.intercept = down
        with pytest.raises(LeadershipLost):
            await running


async def _unreachable(cluster: FakeCluster) -> None:
    async def down(request: web.Request) -> web.StreamResponse | None:
        return refusal(500, "InternalError")

    cluster.intercept = down
    cluster.drop_watches()


@virtual
async def test_health_is_red_when_nothing_is_heard() -> None:
    async with fake_cluster() as (cluster, client):
        metrics = RuntimeMetrics(CollectorRegistry())
        setup = Setup(client, metrics=metrics, settings=ManagerSettings(deaf_after=180))
        running = asyncio.create_task(setup.manager.run())
        await until(lambda: setup.manager.ready)
        async with TestClient(TestServer(health_app(setup.manager))) as probe:
            assert (await probe.get("/healthz")).status == 200
            assert await (await probe.get("/readyz")).text() == "ok"
            await _unreachable(cluster)
            await asyncio.sleep(175)
            assert setup.manager.problems() == []
            await asyncio.sleep(10)
            assert (await probe.get("/healthz")).status == 500
            found = await (await probe.get("/healthz")).text()
            assert found.startswith("the watch of configmaps ns is deaf: nothing was heard for 18")
            text = await (await probe.get("/metrics")).text()
            assert 'corral_watch_age_seconds{scope="configmaps ns"} 18' in text
            cluster.intercept = None
            await until(lambda: setup.manager.problems() == [])
        setup.manager.stop()
        await running


@virtual
async def test_requests_are_counted() -> None:
    async with fake_cluster() as (cluster, plain):
        cluster.put(obj("a"))
        metrics = RuntimeMetrics(CollectorRegistry())
        async with MeteredClient(plain.config, metrics=metrics) as client:
            await client.get(CONFIGMAPS, "a", namespace="ns")
            with pytest.raises(Exception, match="404"):
                await client.get(CONFIGMAPS, "b", namespace="ns")
            async for _ in client.list(CONFIGMAPS, "ns"):
                pass
            await client.delete(CONFIGMAPS, "a", namespace="ns")
        read = metrics.registry.get_sample_value
        name = "rest_client_requests_total"
        assert read(name, {"method": "GET", "code": "2xx"}) == 2
        assert read(name, {"method": "GET", "code": "404"}) == 1
        assert read(name, {"method": "DELETE", "code": "2xx"}) == 1
