from __future__ import annotations

import asyncio

import pytest

from corral.gateway.limits import Busy, Places, RateLimited, RateLimiter, Shares, StreamPlaces


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
        async with places.one("a"):
            order.append(name)
            await until.wait()

    async with asyncio.TaskGroup() as group:
        group.create_task(work("one", first))
        await asyncio.sleep(0)
        group.create_task(work("two", second))
        await asyncio.sleep(0)
        with pytest.raises(Busy):
            async with places.one("a"):
                pass
        assert order == ["one"]
        first.set()
        second.set()
    assert order == ["one", "two"]


async def test_who_gives_up_waiting_leaves_his_place_to_others() -> None:
    places = Places(1, 1)
    async with places.one("a"):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01), places.one("a"):
                pass
    async with places.one("a"):
        pass


def test_streams_are_bounded_in_total_and_for_each() -> None:
    places = StreamPlaces(3, 2)
    with places.one("a"), places.one("a"):
        with pytest.raises(Busy, match="user may have 2"), places.one("a"):
            pass
        with places.one("b"), pytest.raises(Busy, match="as many"), places.one("c"):
            pass
        assert places.total == 2
    assert places.total == 0


def test_a_flow_has_as_much_as_it_leaves_free() -> None:
    shares = Shares(8, each=3)
    assert [_taken(shares, "a"), _taken(shares, "b"), _taken(shares, "c")] == [3, 3, 1]
    assert (shares.total, shares.of("a"), shares.of("z")) == (7, 3, 0)
    assert _taken(shares, "d") == 1
    shares.give("a", 3)
    assert shares.fits("c") and not shares.fits("b") and not shares.fits("a", 4)
    assert _taken(Shares(256), "a") == 128
    assert _taken(Shares(1), "a") == 1
    assert not Shares(0).fits("a")


def _taken(shares: Shares, flow: str) -> int:
    while shares.fits(flow):
        shares.take(flow)
    return shares.of(flow)


class Work:
    """Requests of several flows, each of which goes on until it is told."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self.began: list[str] = []
        self._ends: dict[str, asyncio.Event] = {}

    async def one(self, name: str) -> None:
        self._ends[name] = asyncio.Event()
        async with self._places.one(name[0]):
            self.began.append(name)
            await self._ends[name].wait()

    async def end(self, *names: str) -> None:
        for name in names:
            self._ends[name].set()
            await turns()


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_flows_that_wait_are_served_in_turn() -> None:
    work = Work(Places(3, 9))
    names = ("a1", "a2", "a3", "a4", "b1", "b2", "c1")
    async with asyncio.TaskGroup() as group:
        for name in names:
            group.create_task(work.one(name))
        await turns()
        assert work.began == ["a1", "a2", "b1"]
        await work.end("b1", "a1", "a2")
        assert work.began == ["a1", "a2", "b1", "b2", "c1", "a3"]
        await work.end("b2", "c1")
        assert work.began[6:] == ["a4"]
        await work.end("a3", "a4")


async def test_who_leaves_when_its_turn_comes_gives_it_on() -> None:
    places = Places(1, 4)
    work = Work(places)
    first = asyncio.create_task(work.one("a1"))
    await turns()
    second, third = asyncio.create_task(work.one("a2")), asyncio.create_task(work.one("b1"))
    await turns()
    work._ends["a1"].set()
    await asyncio.sleep(0)  # the turn is a2's, which has not run yet
    second.cancel()
    await turns()
    assert work.began == ["a1", "b1"]
    third.cancel()
    await asyncio.gather(first, second, third, return_exceptions=True)
    async with places.one("c"):
        assert not places._lines and not places._waiting.total
