"""Logs of a job over connections that are cut anywhere: every line once, and the place is kept."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing

import pytest
from jobs_logs_world import Cut, Taker, World

from corral.client import Jobs, LogChunk, LogQuery, Position, errors
from corral.client.logs import reach
from corral.client.logs import streaming as logs_module
from tests.support.matrix import seeds

pytestmark = pytest.mark.timeout(120)


async def read(jobs: Jobs, query: LogQuery | None = None) -> list[LogChunk]:
    chunks = jobs.logs("mpijobs", "ns", "pi", query or LogQuery())
    async with asyncio.timeout(60), aclosing(chunks):
        return [chunk async for chunk in chunks]


def texts(chunks: list[LogChunk]) -> dict[str, bytes]:
    taker = Taker()
    taker.got = chunks
    return taker.texts


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """No waiting for containers that outlive their job."""
    monkeypatch.setattr(logs_module, "SETTLE", 0.05)
    monkeypatch.setattr(reach, "_FIRST_WAIT", 0.0001)
    monkeypatch.setattr(reach, "_LONGEST_WAIT", 0.01)


# -- what is there --------------------------------------------------------------------------------


async def test_pods_come_in_order(world: World) -> None:
    for name in ("pi-worker-10", "pi-worker-2", "pi-launcher-x"):
        world.add_pod(name)
        world.write(name, f"of {name}")
    async with world.serving() as jobs:
        chunks = await read(jobs)
    assert [chunk.data for chunk in chunks] == [
        b"of pi-launcher-x\n", b"of pi-worker-2\n", b"of pi-worker-10\n",
    ]  # fmt: skip
    assert str(chunks[1].role) == "worker 2"


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (LogQuery(roles=("worker",)), {"pi-worker-0", "pi-worker-1"}),
        (LogQuery(roles=("worker", 1)), {"pi-worker-1"}),
        (LogQuery(roles=("launcher",)), {"pi-launcher"}),
        (LogQuery(roles=("driver",)), set()),
    ],
)
async def test_roles(world: World, query: LogQuery, expected: set[str]) -> None:
    for name in ("pi-launcher", "pi-worker-0", "pi-worker-1"):
        world.add_pod(name)
        world.write(name, "x")
    async with world.serving() as jobs:
        assert {chunk.pod for chunk in await read(jobs, query)} == expected


async def test_containers(world: World) -> None:
    world.add_pod("pi-launcher", "main", "side")
    world.write("pi-launcher", "of main")
    world.write("pi-launcher", "of side", container="side")
    async with world.serving() as jobs:
        for container, expected in (
            (None, [b"of main\n"]),
            ("side", [b"of side\n"]),
            ("*", [b"of main\n", b"of side\n"]),
            ("none", []),
        ):
            chunks = await read(jobs, LogQuery(container=container))
            assert [chunk.data for chunk in chunks] == expected


@pytest.mark.parametrize("tail", [0, 1, 3, 7, 20, 99])
@pytest.mark.parametrize("step", [0, 1, 10**8])
async def test_tail(world: World, tail: int, step: int) -> None:
    """Also where the last lines begin in the middle of lines with the same time."""
    world.add_pod("pi-launcher")
    world.write("pi-launcher", *(f"{n}" for n in range(20)), step=step)
    async with world.serving() as jobs:
        shown = texts(await read(jobs, LogQuery(tail_lines=tail))).get("pi-launcher", b"")
    assert shown.split() == [b"%d" % n for n in range(max(0, 20 - tail), 20)]


async def test_since_and_timestamps(world: World) -> None:
    world.add_pod("pi-launcher")
    world.write("pi-launcher", "a", "b", "c", step=10**9)
    async with world.serving() as jobs:
        query = LogQuery(since_time="2026-01-02T04:04:02.5+01:00", timestamps=True)
        assert texts(await read(jobs, query)) == {
            "pi-launcher": b"2026-01-02T03:04:02.000000000Z b\n2026-01-02T03:04:03.000000000Z c\n"
        }


async def test_previous(world: World) -> None:
    world.add_pod("pi-launcher")
    world.write("pi-launcher", "one")
    async with world.serving() as jobs:
        assert await read(jobs, LogQuery(previous=True)) == []
        world.restart("pi-launcher")
        world.write("pi-launcher", "two")
        assert texts(await read(jobs, LogQuery(previous=True))) == {"pi-launcher": b"one\n"}
        assert texts(await read(jobs)) == {"pi-launcher": b"two\n"}


@pytest.mark.parametrize(
    "query",
    [
        LogQuery(tail_lines=-1),
        LogQuery(since_time="yesterday"),
        LogQuery(position="garbage"),
        LogQuery(previous=True, follow=True),
    ],
)
async def test_bad_queries(world: World, query: LogQuery) -> None:
    async with world.serving() as jobs:
        with pytest.raises(errors.BadRequest):
            await read(jobs, query)


async def test_refusals(world: World) -> None:
    async with world.serving() as jobs:
        with pytest.raises(errors.NotFound):
            async for _ in jobs.logs("mpijobs", "ns", "other", LogQuery()):
                raise AssertionError
        with pytest.raises(errors.NotSupported, match="no pods"):
            async for _ in jobs.logs("checkpoints", "ns", "pi", LogQuery()):
                raise AssertionError


# -- what comes -----------------------------------------------------------------------------------


@pytest.mark.usefixtures("patient")
async def test_new_pods_and_attempts_appear(world: World) -> None:
    world.add_pod("pi-launcher")
    world.write("pi-launcher", "first")
    taker = Taker()
    async with world.serving() as jobs, asyncio.timeout(60), asyncio.TaskGroup() as group:
        group.create_task(taker.follow(jobs))
        await taker.until(lambda: taker.has(b"first"))
        world.write("pi-launcher", "last words")
        world.restart("pi-launcher")
        world.write("pi-launcher", "again")
        world.add_pod("pi-worker-0")
        world.write("pi-worker-0", "new")
        await taker.until(lambda: taker.has(b"new"))
        world.end("pi-worker-0")
        world.end("pi-launcher")
        world.finish()
    assert taker.texts == {"pi-launcher": b"first\nlast words\nagain\n", "pi-worker-0": b"new\n"}


@pytest.mark.usefixtures("patient")
async def test_containers_that_outlive_their_job_are_not_waited_for(world: World) -> None:
    world.add_pod("pi-worker-0")
    world.write("pi-worker-0", "sleeps on")
    world.finish()
    async with world.serving() as jobs:
        chunks = await read(jobs, LogQuery(follow=True))
    assert texts(chunks) == {"pi-worker-0": b"sleeps on\n"}


@pytest.mark.usefixtures("patient")
async def test_a_node_that_is_away_for_long(world: World) -> None:
    """Other pods are read meanwhile, and those of the node when it is back."""
    for name in ("pi-worker-0", "pi-worker-1"):
        world.add_pod(name)
        world.write(name, f"of {name}")
    world.lost["pi-worker-0"] = 3 * reach.MAX_FAILURES
    taker = Taker()
    async with world.serving() as jobs, asyncio.timeout(60), asyncio.TaskGroup() as group:
        group.create_task(taker.follow(jobs))
        await taker.until(lambda: taker.has(b"of pi-worker-1"))
        await taker.until(lambda: taker.has(b"of pi-worker-0"))
        world.end("pi-worker-0")
        world.end("pi-worker-1")
        world.finish()
    assert world.lost["pi-worker-0"] == 0
    assert len(taker.got) == 2


@pytest.mark.usefixtures("patient")
async def test_a_node_that_stays_away_is_told_of(world: World) -> None:
    """The job is over, and what the node has of it cannot be read."""
    world.add_pod("pi-worker-0")
    world.write("pi-worker-0", "unread")
    world.finish()
    world.lost["pi-worker-0"] = 1 << 30
    async with world.serving() as jobs:
        with pytest.raises(errors.ServerError, match="connection refused"):
            await read(jobs, LogQuery(follow=True))


@pytest.mark.usefixtures("patient")
async def test_another_pod_of_the_same_name(world: World) -> None:
    """Its lines are its own, and those of the one before are not repeated as its."""
    world.add_pod("pi-worker-0", uid="old")
    world.write("pi-worker-0", "old")
    taker = Taker()
    async with world.serving() as jobs, asyncio.timeout(60), asyncio.TaskGroup() as group:
        group.create_task(taker.follow(jobs))
        await taker.until(lambda: taker.has(b"old"))
        world.delete("pi-worker-0")
        world.add_pod("pi-worker-0", uid="new")
        world.write("pi-worker-0", "new")
        world.end("pi-worker-0")
        world.finish()
    assert taker.texts == {"pi-worker-0": b"old\nnew\n"}


async def test_a_slow_taker_slows_the_reading_down(world: World) -> None:
    line = "x" * 1000
    world.add_pod("pi-launcher")
    world.write("pi-launcher", *[line] * 40_000, step=1)
    total = len(world.text("pi-launcher"))
    async with world.serving() as jobs:
        chunks = jobs.logs("mpijobs", "ns", "pi", LogQuery())
        async with aclosing(chunks), asyncio.timeout(60):
            size = len((await anext(chunks)).data)
            last = -1
            while last != world.sent:  # until nothing moves any more
                last = world.sent
                await asyncio.sleep(0.3)
            assert world.sent < total / 2
            async for chunk in chunks:
                size += len(chunk.data)
    assert size == total


# -- cuts -----------------------------------------------------------------------------------------


def cuts(seed: int, most: int, *, complete: bool) -> Callable[[str], Cut | None]:
    """Four of five answers break off; not twice in a row as if that were all."""
    chance = random.Random(seed)
    lied: dict[str, bool] = {}

    def cut(uid: str) -> Cut | None:
        lies = not complete and not lied.get(uid) and chance.random() < 0.5
        lied[uid] = lies
        if chance.random() < 0.2:
            return None
        return chance.randrange(most), "end" if lies else "abort"

    return cut


class Script:
    """Pods that write, fail, come and go, as a seed says."""

    def __init__(self, world: World, seed: int) -> None:
        self._world, self._chance = world, random.Random(seed)
        self._number = 0

    def lines(self, pod: str, count: int) -> None:
        names = []
        for _ in range(count):
            self._number += 1
            names.append(f"{pod} {self._number} {'x' * self._chance.randrange(60)}")
        # many with the same time, some of the same second, some later
        self._world.now += self._chance.choice((0, 1, 10**6, 10**9))
        self._world.write(pod, *names, step=self._chance.choice((0, 0, 1)))

    async def run(self, taker: Taker) -> None:
        world = self._world
        pods = ["pi-launcher", "pi-worker-0"]
        for pod in pods:
            world.add_pod(pod)
        for turn in range(12):
            for pod in pods:
                self.lines(pod, self._chance.randrange(1, 8))
            await asyncio.sleep(0)
            if turn == 5:
                pods.append("pi-worker-1")
                world.add_pod("pi-worker-1")
            if turn in (3, 8):
                # a node keeps the attempt before the present one, and no more
                pod = self._chance.choice(pods[:2])
                await taker.until(lambda: self._caught_up(taker, pods[:2]))
                self.lines(pod, 3)
                world.restart(pod)
        for pod in pods:
            world.end(pod)
        world.finish()

    def _caught_up(self, taker: Taker, pods: list[str]) -> bool:
        return all(taker.texts.get(pod, b"") == self._world.text(pod) for pod in pods)


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("seed", seeds(6, always=2))
async def test_every_line_once_through_cuts_and_new_readers(seed: int) -> None:
    """Connections break at random bytes, in order or not; readers leave and others go on."""
    complete = seed % 2 == 1
    world = World(cut=cuts(seed, 4000, complete=complete), complete=complete)
    chance = random.Random(seed)
    taker = Taker()
    async with world.serving() as jobs, asyncio.timeout(100), asyncio.TaskGroup() as group:
        group.create_task(Script(world, seed).run(taker))
        async for chunk in _readers(jobs, chance):
            taker.take(chunk)
    assert taker.texts == {pod: world.text(pod) for pod in world.pods}
    assert all(chunk.data.endswith(b"\n") for chunk in taker.got)
    assert Position.parse(str(taker.got[-1].position)).marks


async def _readers(jobs: Jobs, chance: random.Random) -> AsyncIterator[LogChunk]:
    """One reader after the other, each from where the last one was."""
    position: str | None = None
    while True:
        query = LogQuery(follow=True, position=position)
        chunks = jobs.logs("mpijobs", "ns", "pi", query)
        left = chance.randrange(1, 12)
        async with aclosing(chunks):
            async for chunk in chunks:
                position = str(chunk.position)
                yield chunk
                left -= 1
                if not left:
                    break
            else:
                return
