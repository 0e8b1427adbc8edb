"""Work beside reconciles: one piece for a machine at a time, and nothing of it is lost."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from corral.clouds import Transient
from corral.families.spot.machines.entries import Change
from corral.families.spot.machines.work import Works

KEY = "n/here"


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


class Desk:
    """Works, and who is woken."""

    def __init__(self, clock: Clock) -> None:
        self.woken: asyncio.Queue[str] = asyncio.Queue()
        wake = self.woken.put_nowait
        self.works = Works(wake, limit=5, retry=1.0, retry_cap=3.0, clock=clock)

    async def take(self) -> dict[str, Any]:
        """What is to be written into an entry, by machine."""
        async with asyncio.timeout(5):
            await self.woken.get()
        found = self.works.done(KEY)
        out: dict[str, Any] = {}
        for name, change in found.items():
            change(out.setdefault(name, {}))
        self.works.written(KEY, found)
        return out


def says(**words: Any) -> Change:
    return lambda entry: entry.update(words)


async def test_what_is_done_is_kept_until_it_was_written(clock: Clock) -> None:
    desk = Desk(clock)

    async def work() -> Change:
        return says(state="RUNNING")

    assert desk.works.begin(KEY, "m", "create", work) == 0
    await desk.woken.get()
    first = desk.works.done(KEY)
    assert list(first) == ["m"]
    assert desk.works.done(KEY) == first, "a write that failed loses nothing"
    assert desk.works.begin(KEY, "m", "look", work) == 0, "and nothing else is begun meanwhile"
    desk.works.written(KEY, first)
    assert desk.works.done(KEY) == {}
    assert desk.works.done("n/other") == {}


async def test_one_piece_at_a_time(clock: Clock) -> None:
    desk, begun, end = Desk(clock), [], asyncio.Event()

    async def work() -> None:
        begun.append(1)
        await end.wait()

    for _ in range(3):
        assert desk.works.begin(KEY, "m", "create", work) == 0
        await asyncio.sleep(0)
    assert len(begun) == 1
    end.set()
    assert await desk.take() == {}


async def test_failures_are_told_and_tried_again_later_and_later(clock: Clock) -> None:
    desk = Desk(clock)

    async def work() -> None:
        raise Transient("not now")

    for wait in (1.0, 2.0, 3.0, 3.0):
        assert desk.works.begin(KEY, "m", "create", work) == 0
        assert await desk.take() == {"m": {"message": "not now"}}
        assert desk.works.begin(KEY, "m", "create", work) == pytest.approx(wait)
        clock.now += wait


async def test_a_cloud_that_asks_for_peace_has_it(clock: Clock) -> None:
    desk = Desk(clock)

    async def work() -> None:
        raise Transient("throttled", retry_after=42)

    desk.works.begin(KEY, "m", "create", work)
    await desk.take()
    assert desk.works.begin(KEY, "m", "create", work) == pytest.approx(42)


async def test_what_is_done_now_and_then_can_be_hurried(clock: Clock) -> None:
    desk, begun = Desk(clock), []

    async def work() -> None:
        begun.append(1)

    assert desk.works.begin(KEY, "m", "look", work, every=30) == 0
    await desk.take()
    clock.now += 10
    assert desk.works.begin(KEY, "m", "look", work, every=30) == pytest.approx(20)
    desk.works.hurry(KEY, "m", "look")
    assert desk.works.begin(KEY, "m", "look", work, every=30) == 0
    await desk.take()
    assert len(begun) == 2


async def test_what_is_done_now_and_then_is_done_again_soon_if_it_failed(clock: Clock) -> None:
    desk = Desk(clock)

    async def work() -> None:
        raise Transient("not yet")

    desk.works.begin(KEY, "m", "join", work, every=900)
    await desk.take()
    assert desk.works.begin(KEY, "m", "join", work, every=900) == pytest.approx(1)


async def test_a_mistake_of_ours_is_told_like_one_of_the_cloud(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    desk = Desk(clock)

    async def work() -> None:
        raise KeyError("zone")

    desk.works.begin(KEY, "m", "create", work)
    assert await desk.take() == {"m": {"message": "KeyError: 'zone'"}}
    assert "work on machine m" in caplog.text


async def test_at_the_end_everything_is_left_as_it_is(clock: Clock) -> None:
    desk = Desk(clock)
    ended = asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    desk.works.begin(KEY, "m", "create", work)
    await asyncio.sleep(0)
    await desk.works.close()
    assert ended.is_set()
    assert desk.works.done(KEY) == {}
