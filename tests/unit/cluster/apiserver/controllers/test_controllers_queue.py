"""The work queue of the server's own controllers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from corral.cluster.apiserver.controllers import queue
from corral.cluster.apiserver.controllers.queue import KeyedQueue
from corral.kube import errors

Work = Callable[[str], Awaitable[None]]
Starter = Callable[..., KeyedQueue[str]]


@pytest.fixture
async def start() -> AsyncIterator[Starter]:
    started: list[KeyedQueue[str]] = []

    def make(work: Work, workers: int = 4) -> KeyedQueue[str]:
        made: KeyedQueue[str] = KeyedQueue("test", work, workers)
        made.start()
        started.append(made)
        return made

    yield make
    for made in started:
        await made.stop()


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_keys_run_in_order_and_wait_once(start: Starter) -> None:
    ran: list[str] = []

    async def work(key: str) -> None:
        ran.append(key)

    made = start(work, workers=1)
    for key in ("a", "b", "a", "c", "b"):
        made.add(key)
    await settle()
    assert ran == ["a", "b", "c"]
    made.add("a")
    await settle()
    assert ran == ["a", "b", "c", "a"]


async def test_a_key_never_runs_twice_at_a_time_but_again_after(start: Starter) -> None:
    gate, running, ran = asyncio.Event(), set(), []

    async def work(key: str) -> None:
        assert key not in running
        running.add(key)
        ran.append(key)
        await gate.wait()
        running.discard(key)

    made = start(work)
    made.add("a")
    await settle()
    for _ in range(3):
        made.add("a")
    made.add("b")
    await settle()
    assert ran == ["a", "b"]
    gate.set()
    await settle()
    assert ran == ["a", "b", "a"]


@pytest.mark.parametrize("error", [errors.Conflict("changed"), RuntimeError("broken")])
async def test_failures_come_back_later_and_later(
    start: Starter, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture,
    error: Exception,
) -> None:  # fmt: skip
    monkeypatch.setattr(queue, "LAST_RETRY", 0.05)
    waits: list[float] = []
    attempts = 0
    done = asyncio.Event()

    async def work(key: str) -> None:
        nonlocal attempts
        attempts += 1
        if attempts < 5:
            raise error
        done.set()

    made = start(work)
    monkeypatch.setattr(
        made, "add_after", lambda key, seconds: (waits.append(seconds), made.add(key))
    )
    with caplog.at_level(logging.ERROR):
        made.add("a")
        await asyncio.wait_for(done.wait(), 5)
    assert attempts == 5
    assert waits == [0.02, 0.04, 0.05, 0.05]
    assert ("broken" in caplog.text) == isinstance(error, RuntimeError)


async def test_success_forgets_the_failures(
    start: Starter, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    fail = True

    async def work(key: str) -> None:
        nonlocal fail
        if fail:
            fail = False
            raise errors.Conflict("changed")

    made = start(work)
    monkeypatch.setattr(
        made, "add_after", lambda key, seconds: (waits.append(seconds), made.add(key))
    )
    made.add("a")
    await settle()
    fail = True
    made.add("a")
    await settle()
    assert waits == [0.02, 0.02]


async def test_later_means_later(start: Starter) -> None:
    ran = asyncio.Event()

    async def work(key: str) -> None:
        ran.set()

    made = start(work)
    made.add_after("a", 0.01)
    await settle()
    assert not ran.is_set()
    await asyncio.wait_for(ran.wait(), 5)


async def test_stop_ends_work_under_way(start: Starter) -> None:
    begun, ended = asyncio.Event(), []

    async def work(key: str) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(key)

    made = start(work)
    made.add("a")
    await begun.wait()
    await asyncio.wait_for(made.stop(), 5)
    assert ended == ["a"]
