from __future__ import annotations

import asyncio

import pytest

from corral.gateway.limits import Busy, Places, RateLimited, RateLimiter, StreamPlaces


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_burst_is_let_through_and_then_the_rate() -> None:
    clock = Clock()
    limiter = RateLimiter(2.0, 3, clock=clock)
    assert [limiter.take("a") for _ in range(3)] == [2, 1, 0]
    with pytest.raises(RateLimited) as refused:
        limiter.take("a")
    assert refused.value.retry_after == 1
    clock.now += 0.5
    assert limiter.take("a") == 0
    with pytest.raises(RateLimited):
        limiter.take("a")


def test_everybody_has_a_rate_of_his_own() -> None:
    limiter = RateLimiter(1.0, 1, clock=Clock())
    limiter.take("a")
    limiter.take("b")
    with pytest.raises(RateLimited):
        limiter.take("a")


def test_a_slow_rate_says_how_long_to_wait() -> None:
    limiter = RateLimiter(0.1, 1, clock=Clock())
    limiter.take("a")
    with pytest.raises(RateLimited) as refused:
        limiter.take("a")
    assert refused.value.retry_after == 10


def test_callers_are_forgotten_beyond_a_number() -> None:
    limiter = RateLimiter(1.0, 1, keys=2, clock=Clock())
    for key in ("a", "b", "c"):
        limiter.take(key)
    assert limiter.take("a") == 0  # forgotten, so as new
    with pytest.raises(RateLimited):
        limiter.take("c")


async def test_places_are_bounded_and_so_are_those_who_wait() -> None:
    places = Places(1, 1)
    order: list[str] = []
    first, second = asyncio.Event(), asyncio.Event()

    async def work(name: str, until: asyncio.Event) -> None:
        async with places.one():
            order.append(name)
            await until.wait()

    async with asyncio.TaskGroup() as group:
        group.create_task(work("one", first))
        await asyncio.sleep(0)
        group.create_task(work("two", second))
        await asyncio.sleep(0)
        with pytest.raises(Busy):
            async with places.one():
                pass
        assert order == ["one"]
        first.set()
        second.set()
    assert order == ["one", "two"]


async def test_who_gives_up_waiting_leaves_his_place_to_others() -> None:
    places = Places(1, 1)
    async with places.one():
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01), places.one():
                pass
    async with places.one():
        pass


def test_streams_are_bounded_in_total_and_for_each() -> None:
    places = StreamPlaces(3, 2)
    with places.one("a"), places.one("a"):
        with pytest.raises(Busy, match="one caller"), places.one("a"):
            pass
        with places.one("b"), pytest.raises(Busy, match="as many"), places.one("c"):
            pass
        assert places.total == 2
    assert places.total == 0
