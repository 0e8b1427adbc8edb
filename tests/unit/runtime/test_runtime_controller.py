from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from prometheus_client import CollectorRegistry
from runtime_fakes import SCOPE, fake_cluster, now, obj, until, virtual

from corral.kube.errors import Conflict
from corral.kube.resources import PODS
from corral.runtime import (
    CacheSyncTimeout,
    Controller,
    Informer,
    NotYetConsistent,
    ReconcileFields,
    Reconciler,
    Result,
    RuntimeMetrics,
    TerminalError,
    current_reconcile,
    generation_changed,
)


@asynccontextmanager
async def controlled(reconciler: Reconciler, **options: object) -> AsyncIterator[Controller]:
    controller = Controller("test", reconciler, clock=now, **options)  # type: ignore[arg-type]
    running = asyncio.create_task(controller.run())
    try:
        yield controller
        assert not running.done()
        controller.stop()
        async with asyncio.timeout(1000):
            await running
    finally:
        running.cancel()
        await asyncio.wait({running})


class Calls:
    """A reconciler that follows a script, one entry a call; then it is content."""

    def __init__(self, *script: Exception | Result | None) -> None:
        self.script = list(script)
        self.times: list[float] = []

    async def __call__(self, key: str) -> Result | None:
        self.times.append(now())
        step = self.script.pop(0) if self.script else None
        if isinstance(step, Exception):
            raise step
        return step

    @property
    def waits(self) -> list[float]:
        return [b - a for a, b in zip(self.times, self.times[1:], strict=False)]


@virtual
async def test_errors_are_tried_again_with_growing_waits() -> None:
    calls = Calls(*(ValueError(str(n)) for n in range(4)))
    async with controlled(calls) as controller:
        controller.queue.add("ns/a")
        await until(lambda: len(calls.times) == 5)
        await asyncio.sleep(100)
        assert len(calls.times) == 5
        assert calls.waits == pytest.approx([0.005, 0.01, 0.02, 0.04])
        assert controller.queue.retries("ns/a") == 0


@virtual
async def test_terminal_errors_are_not_tried_again() -> None:
    calls = Calls(ValueError("once"), TerminalError("never"))
    async with controlled(calls) as controller:
        controller.queue.add("ns/a")
        await asyncio.sleep(100)
        assert len(calls.times) == 2
        controller.queue.add("ns/a")
        await until(lambda: len(calls.times) == 3)


@virtual
async def test_requeue_after() -> None:
    calls = Calls(ValueError("x"), Result(requeue_after=30), Result(), ValueError("y"))
    async with controlled(calls) as controller:
        controller.queue.add("ns/a")
        await asyncio.sleep(100)
        assert calls.waits == pytest.approx([0.005, 30])
        controller.queue.add("ns/a")
        await asyncio.sleep(1)
        # The success in between made the count of failures begin anew.
        assert calls.waits[-1] == pytest.approx(0.005)


@virtual
async def test_a_stale_cache_is_waited_for_without_an_error() -> None:
    metrics = RuntimeMetrics(CollectorRegistry())
    calls = Calls(NotYetConsistent(PODS, "1", "2"))
    async with controlled(calls, metrics=metrics) as controller:
        controller.queue.add("ns/a")
        await until(lambda: len(calls.times) == 2)
    assert _sample(metrics, "reconcile_errors_total") is None


@virtual
async def test_the_wait_for_a_stale_cache_stays_short() -> None:
    calls = Calls(*[NotYetConsistent(PODS, "1", "2")] * 8)
    async with controlled(calls) as controller:
        controller.queue.add("ns/a")
        await until(lambda: len(calls.times) == 9)
    assert calls.waits[:2] == pytest.approx([0.005, 0.01])
    assert calls.waits[-3:] == pytest.approx([0.1, 0.1, 0.1])


@virtual
async def test_a_conflict_is_no_error() -> None:
    metrics = RuntimeMetrics(CollectorRegistry())
    calls = Calls(Conflict("it has changed"))
    async with controlled(calls, metrics=metrics) as controller:
        controller.queue.add("ns/a")
        await until(lambda: len(calls.times) == 2)
    assert _sample(metrics, "reconcile_errors_total") is None


@virtual
async def test_a_reconcile_is_bounded() -> None:
    calls: list[float] = []

    async def reconcile(key: str) -> None:
        calls.append(now())
        await asyncio.sleep(60 if len(calls) == 1 else 0)

    async with controlled(reconcile, timeout=5) as controller:
        controller.queue.add("ns/a")
        await until(lambda: len(calls) == 2)
        assert calls[1] - calls[0] == pytest.approx(5.005, abs=0.02)


@virtual
async def test_a_cancelled_wait_inside_is_a_failure_like_any_other() -> None:
    calls = 0

    async def reconcile(key: str) -> None:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise asyncio.CancelledError

    async with controlled(reconcile) as controller:
        controller.queue.add("ns/a")
        await until(lambda: calls == 2)


@virtual
async def test_workers_share_the_load_and_never_a_key() -> None:
    busy: set[str] = set()
    most, runs = 0, 0

    async def reconcile(key: str) -> None:
        nonlocal most, runs
        assert key not in busy
        busy.add(key)
        most, runs = max(most, len(busy)), runs + 1
        await asyncio.sleep(1)
        busy.remove(key)

    async with controlled(reconcile, workers=4) as controller:
        for n in range(10):
            controller.queue.add(f"ns/{n}")
        await asyncio.sleep(0.5)
        controller.queue.add("ns/0")
        await until(lambda: runs == 11 and not busy)
        assert most == 4


@virtual
async def test_a_stop_lets_what_goes_on_finish_and_begins_nothing() -> None:
    finished: list[str] = []

    async def reconcile(key: str) -> None:
        await asyncio.sleep(10)
        finished.append(key)

    async with controlled(reconcile) as controller:
        controller.queue.add("ns/a")
        controller.queue.add("ns/b")
        await asyncio.sleep(1)
    assert finished == ["ns/a"]


@virtual
async def test_changes_reach_the_queue_and_fresh_ones_first() -> None:
    async with fake_cluster() as (cluster, client):
        for n in range(3):
            cluster.put(obj(f"old-{n}", metadata={"generation": 1}))
        informer = Informer(client, SCOPE, clock=now)
        order: list[str] = []

        async def reconcile(key: str) -> None:
            order.append(key)

        controller = Controller("test", reconcile, clock=now)
        controller.watch(informer, when=generation_changed)
        running = asyncio.create_task(informer.run())
        await controller.wait_synced()
        await until(lambda: cluster.watchers)
        cluster.put(obj("old-2", metadata={"generation": 1}, status={"phase": "x"}))
        cluster.put(obj("new"))
        cluster.put(obj("old-1", metadata={"generation": 2}))
        await until(lambda: len(controller.queue) == 4 and "ns/old-1" in informer.store)
        await asyncio.sleep(1)
        working = asyncio.create_task(controller.run())
        await until(lambda: len(order) == 4)
        assert order == ["ns/old-1", "ns/new", "ns/old-0", "ns/old-2"]
        controller.stop()
        await working
        running.cancel()
        await asyncio.wait({running})


@virtual
async def test_changes_that_others_may_join() -> None:
    async with fake_cluster() as (cluster, client):
        informer = Informer(client, SCOPE, clock=now)
        seen: list[tuple[str, float]] = []

        async def reconcile(key: str) -> None:
            seen.append((key, now()))

        controller = Controller("test", reconcile, clock=now)
        controller.watch(
            informer,
            lambda _: ["ns/all"],
            after=lambda change: 0.0 if change.key == "ns/urgent" else 5.0,
        )
        tasks = [asyncio.create_task(informer.run()), asyncio.create_task(controller.run())]
        await controller.wait_synced()
        await until(lambda: cluster.watchers)
        began = now()
        for name in ("a", "b", "c"):
            cluster.put(obj(name))
            await asyncio.sleep(1)
        assert seen == []
        await until(lambda: seen)
        assert len(seen) == 1 and 5 <= seen[0][1] - began < 7
        cluster.put(obj("urgent"))
        await until(lambda: len(seen) == 2)
        assert seen[1][1] - seen[0][1] < 3
        controller.stop()
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


@virtual
async def test_an_informer_that_never_syncs() -> None:
    async with fake_cluster() as (_, client):
        controller = Controller("test", Calls(), clock=now)
        controller.watch(Informer(client, SCOPE, clock=now))
        with pytest.raises(
            CacheSyncTimeout, match="test: no first list within 120 s of configmaps"
        ):
            await controller.wait_synced()


@virtual
async def test_log_lines_say_which_reconcile() -> None:
    records: list[logging.LogRecord] = []
    handler = logging.Handler()
    handler.emit = records.append  # type: ignore[method-assign]
    handler.addFilter(ReconcileFields())
    logger = logging.getLogger("test-reconcile")
    logger.addHandler(handler)
    ids: list[str] = []

    async def reconcile(key: str) -> None:
        context = current_reconcile()
        assert context is not None
        ids.append(context.id)
        logger.warning("inside")

    try:
        async with controlled(reconcile) as controller:
            controller.queue.add("ns/a")
            controller.queue.add("ns/b")
            await until(lambda: len(records) == 2)
        logger.warning("outside")
    finally:
        logger.removeHandler(handler)
    assert [(r.controller, r.object, r.reconcile_id) for r in records] == [  # type: ignore[attr-defined]
        ("test", "ns/a", ids[0]), ("test", "ns/b", ids[1]), ("", "", ""),
    ]  # fmt: skip
    assert ids[0] != ids[1]


def _sample(metrics: RuntimeMetrics, name: str, **labels: str) -> float | None:
    full = f"controller_runtime_{name}"
    return metrics.registry.get_sample_value(full, {"controller": "test", **labels})


@virtual
async def test_metrics() -> None:
    metrics = RuntimeMetrics(CollectorRegistry())
    calls = Calls(ValueError("x"), Result(requeue_after=1), None, TerminalError("y"))
    async with controlled(calls, metrics=metrics, workers=3) as controller:
        controller.queue.add("ns/a")
        await until(lambda: len(calls.times) == 3)
        controller.queue.add("ns/a")
        await until(lambda: len(calls.times) == 4)
        await asyncio.sleep(1)
        read = metrics.registry.get_sample_value
        queue = {"name": "test"}
        assert _sample(metrics, "reconcile_total", result="error") == 2
        assert _sample(metrics, "reconcile_total", result="success") == 1
        assert _sample(metrics, "reconcile_total", result="requeue_after") == 1
        assert _sample(metrics, "reconcile_errors_total") == 2
        assert _sample(metrics, "terminal_reconcile_errors_total") == 1
        assert _sample(metrics, "reconcile_time_seconds_count") == 4
        assert _sample(metrics, "max_concurrent_reconciles") == 3
        assert _sample(metrics, "active_workers") == 0
        assert read("workqueue_adds_total", queue) == 4
        assert read("workqueue_retries_total", queue) == 1
        assert read("workqueue_depth", queue) == 0
        assert read("workqueue_queue_duration_seconds_count", queue) == 4
        assert read("workqueue_work_duration_seconds_count", queue) == 4
