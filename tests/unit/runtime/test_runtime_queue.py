from __future__ import annotations

import asyncio
from typing import Any

import pytest
from runtime_fakes import Clock, now, until, virtual

from corral.runtime import LOW_PRIORITY, ExponentialLimiter, QueueShutDown, WorkQueue


def run(steps: str, clock: Clock, queue: WorkQueue[str]) -> list[str | None]:
    """Steps like ``+a`` add, ``-`` take, ``.a`` done, ``a@5`` add after, ``t5`` time passes."""
    taken: list[str | None] = []
    for step in steps.split():
        if step == "-":
            taken.append(queue.pop())
        elif step[0] == "+":
            key, _, priority = step[1:].partition(":")
            queue.add(key, int(priority or 0))
        elif step[0] == ".":
            queue.done(step[1:])
        elif "@" in step:
            key, _, delay = step.partition("@")
            queue.add_after(key, float(delay))
        else:
            clock.now += float(step[1:])
    return taken


CASES = {
    "order of arrival": ("+a +b +c - - - -", ["a", "b", "c", None]),
    "added twice is taken once": ("+a +a +b +a - - -", ["a", "b", None]),
    "added while handled comes after done": ("+a - +a - .a - -", ["a", None, "a", None]),
    "added twice while handled comes once": ("+a - +a +a .a - .a -", ["a", "a", None]),
    "done without another add is over": ("+a - .a -", ["a", None]),
    "comes again behind the others": ("+a - +a +b .a - -", ["a", "b", "a"]),
    "done of a stranger does nothing": ("+a .x - -", ["a", None]),
    "higher priority first": ("+a:-100 +b:-100 +c - - -", ["c", "a", "b"]),
    "raised priority overtakes": ("+a:-100 +b:-100 +b - -", ["b", "a"]),
    "raised within its new priority by arrival": ("+a:-100 +b +a - -", ["a", "b"]),
    "lower priority changes nothing": ("+a +b +a:-100 - -", ["a", "b"]),
    "raised while handled": ("+a - +a:-100 +b:-100 +a .a - -", ["a", "a", "b"]),
    "delayed comes after its time": ("a@5 - t4 - t1 - -", [None, None, "a", None]),
    "no delay comes at once": ("a@0 b@-1 - -", ["a", "b"]),
    "a later time does not move it": ("a@5 a@9 t5 - t9 -", ["a", None]),
    "an earlier time moves it forward": ("a@9 a@5 t5 - t9 -", ["a", None]),
    "delays in order of time": ("a@3 b@1 c@2 t3 - - -", ["b", "c", "a"]),
    "a delayed key is not the one that waits": ("+a a@5 - .a t5 -", ["a", "a"]),
    "a delayed key while handled": ("+a - a@5 t5 - .a -", ["a", None, "a"]),
}


@pytest.mark.parametrize(("steps", "expected"), CASES.values(), ids=CASES)
def test_queue(steps: str, expected: list[str | None]) -> None:
    clock = Clock()
    assert run(steps, clock, WorkQueue(clock=clock)) == expected


def test_failures_wait_longer_until_forgotten() -> None:
    clock = Clock()
    queue: WorkQueue[str] = WorkQueue(clock=clock)
    waits = []
    for _ in range(4):
        queue.add_rate_limited("a")
        waits.append(queue.next_delay())
        clock.now += 1
        assert queue.pop() == "a"
        queue.done("a")
    assert waits == pytest.approx([0.005, 0.01, 0.02, 0.04])
    assert queue.retries("a") == 4
    queue.forget("a")
    queue.add_rate_limited("a")
    assert queue.next_delay() == pytest.approx(0.005)


def test_priority_of_a_delayed_key_is_the_highest_asked_for() -> None:
    clock = Clock()
    queue: WorkQueue[str] = WorkQueue(clock=clock)
    queue.add_after("a", 1, priority=LOW_PRIORITY)
    queue.add_after("a", 2, priority=5)
    queue.add("b", 1)
    clock.now = 1
    assert queue.pop() == "a"
    assert queue.priority("a") == 5


def test_shut_down_takes_nothing_new_and_gives_the_rest() -> None:
    clock = Clock()
    queue: WorkQueue[str] = WorkQueue(clock=clock)
    taken = run("+a +b - +a c@5", clock, queue)
    queue.shut_down()
    taken += run("+d e@1 .a t9 - - -", clock, queue)
    queue.add_rate_limited("f")
    assert taken == ["a", "b", "a", None]
    assert len(queue) == 0


class Watching:
    def __init__(self) -> None:
        self.seen: list[tuple[Any, ...]] = []

    def added(self, depth: int) -> None:
        self.seen.append(("added", depth))

    def taken(self, depth: int, waited: float) -> None:
        self.seen.append(("taken", depth, waited))

    def finished(self, depth: int, worked: float) -> None:
        self.seen.append(("finished", depth, worked))

    def retried(self) -> None:
        self.seen.append(("retried",))


def test_observer_is_told() -> None:
    clock, observer = Clock(), Watching()
    queue: WorkQueue[str] = WorkQueue(clock=clock, observer=observer)
    run("+a +a t3 - t2 .a", clock, queue)
    queue.add_rate_limited("a")
    assert observer.seen == [("added", 1), ("taken", 0, 3.0), ("finished", 0, 2.0), ("retried",)]


@virtual
async def test_get_waits_for_a_delayed_key() -> None:
    queue: WorkQueue[str] = WorkQueue(clock=now)
    started = now()
    queue.add_after("late", 60)
    waiting = [asyncio.create_task(queue.get()) for _ in range(2)]
    await asyncio.sleep(0)
    queue.add_after("soon", 25)
    await asyncio.wait(waiting)
    assert {task.result() for task in waiting} == {"soon", "late"}
    assert now() == pytest.approx(started + 60)


@virtual
async def test_a_cancelled_worker_loses_no_key() -> None:
    queue: WorkQueue[str] = WorkQueue(clock=now)
    first, second = (asyncio.create_task(queue.get()) for _ in range(2))
    await asyncio.sleep(0)
    queue.add("a")  # wakes the first
    first.cancel()
    assert await second == "a"
    with pytest.raises(asyncio.CancelledError):
        await first


@virtual
async def test_workers_end_when_the_queue_is_shut_down_and_empty() -> None:
    queue: WorkQueue[str] = WorkQueue(clock=now)
    waiting = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue.shut_down()
    with pytest.raises(QueueShutDown):
        await waiting


@virtual
async def test_drain_waits_for_what_is_queued_and_handled() -> None:
    queue: WorkQueue[str] = WorkQueue(clock=now)
    queue.add("a")
    queue.add("b")
    assert await queue.get() == "a"
    draining = asyncio.create_task(queue.drain())
    await asyncio.sleep(1)
    assert not draining.done()
    assert await queue.get() == "b"
    queue.done("a")
    await asyncio.sleep(1)
    assert not draining.done()
    queue.done("b")
    await draining


@virtual
async def test_no_key_is_lost_or_handled_twice_at_a_time() -> None:
    queue: WorkQueue[int] = WorkQueue(limiter=ExponentialLimiter(0.001, 0.01), clock=now)
    wanted = dict.fromkeys(range(40), 0)
    handled = dict.fromkeys(wanted, 0)
    busy: set[int] = set()

    async def work() -> None:
        while True:
            key = await queue.get()
            assert key not in busy
            busy.add(key)
            seen = wanted[key]
            await asyncio.sleep(0.003 * (key % 5))
            handled[key] = seen
            busy.remove(key)
            queue.done(key)

    workers = [asyncio.create_task(work()) for _ in range(7)]
    for turn in range(1, 50):
        for key in wanted:
            if (key * 7 + turn) % 3:
                wanted[key] = turn
                (queue.add, queue.add_rate_limited)[turn % 2](key)
        await asyncio.sleep(0.002)
    await until(lambda: handled == wanted, limit=60)
    assert not any(worker.done() for worker in workers)
    for worker in workers:
        worker.cancel()
