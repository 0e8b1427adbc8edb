"""Logs through a gateway that breaks off, runs out of time, stops and comes back."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import aiohttp
import pytest

from corral.client import LogChunk, LogQuery, Position, Role, errors
from corral.client.logs import remote
from corral.client.logs.frames import MORE, frame
from corral.client.logs.marks import Mark, SourceKey
from corral.client.logs.reach import MAX_FAILURES
from corral.client.logs.remote import remote_logs
from tests.support.matrix import seeds


@dataclass
class Gateway:
    """Serves frames whose positions are their numbers."""

    frames: int = 60
    seed: int = 0
    refusals: list[Exception] = field(default_factory=list)
    """Instead of the next answers."""
    asked: list[LogQuery] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._chance = random.Random(self.seed)

    @asynccontextmanager
    async def open(self, query: LogQuery) -> AsyncIterator[AsyncIterator[bytes]]:
        self.asked.append(query)
        if self.refusals:
            raise self.refusals.pop(0)
        begin = int(str(query.position)) + 1 if query.position is not None else 0
        yield self._body(begin)

    async def _body(self, begin: int) -> AsyncIterator[bytes]:
        last = self._chance.choice((self.frames, begin + self._chance.randrange(12)))
        data = b"".join(self._frame(n) for n in range(begin, min(last, self.frames)))
        ends = last >= self.frames
        data += b"" if ends else MORE
        broken = self._chance.random() < 0.6
        data = data[: self._chance.randrange(len(data) + 1)] if broken else data
        while data:
            size = self._chance.randrange(1, 400)
            yield data[:size]
            data = data[size:]
        if broken:
            raise self._chance.choice(
                (aiohttp.ClientPayloadError("cut"), ConnectionResetError("cut"), TimeoutError())
            )

    def _frame(self, number: int) -> bytes:
        place = Position.unread(str(number))
        return frame(LogChunk("p", Role("worker", number % 3), "main", self.line(number), place))

    @staticmethod
    def line(number: int) -> bytes:
        return b"%d %b\n" % (number, b"x" * (number * 7 % 90))

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)


@pytest.mark.parametrize("seed", seeds(20, always=4))
async def test_every_frame_once(seed: int) -> None:
    gateway = Gateway(seed=seed)
    chunks = [
        chunk
        async for chunk in remote_logs(gateway.open, LogQuery(follow=True), sleep=gateway.sleep)
    ]
    assert [chunk.data for chunk in chunks] == [gateway.line(n) for n in range(60)]
    assert [chunk.role.index for chunk in chunks[:4]] == [0, 1, 2, 0]
    assert str(chunks[-1].position) == "59"


async def test_a_gateway_that_is_away_for_a_while() -> None:
    gateway = Gateway(frames=1, seed=2)
    busy = errors.TooManyRequests("later", retry_after=7.0)
    first = remote_logs(gateway.open, LogQuery(), sleep=gateway.sleep, rng=lambda: 0.0)
    gateway.frames = 30
    got = [await anext(first)]
    gateway.refusals = [errors.Unavailable("restarting")] * 3 + [busy]
    got += [chunk async for chunk in first]
    assert [chunk.data for chunk in got] == [gateway.line(n) for n in range(30)]
    assert 7.0 in gateway.waits


async def test_a_gateway_that_was_never_there() -> None:
    gateway = Gateway(refusals=[ConnectionRefusedError("nobody listens")])
    with pytest.raises(errors.Unavailable, match="nobody listens"):
        await anext(remote_logs(gateway.open, LogQuery(), sleep=gateway.sleep))
    assert gateway.waits == []


async def test_a_gateway_that_does_not_come_back() -> None:
    gateway = Gateway(frames=1)
    logs = remote_logs(gateway.open, LogQuery(follow=True), sleep=gateway.sleep)
    gateway.frames = 10_000
    await anext(logs)
    gateway.refusals = [errors.Unavailable("gone")] * 1000
    with pytest.raises(errors.Unavailable):
        async for _ in logs:
            continue
    assert len(gateway.waits) >= MAX_FAILURES
    assert max(gateway.waits) <= 10.0


async def test_a_gateway_that_falls_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its machine has vanished, and nobody closed the connection."""
    monkeypatch.setattr(remote, "SILENCE", 0.02)
    gateway = Gateway(frames=3, seed=1)
    asked = 0

    @asynccontextmanager
    async def opened(query: LogQuery) -> AsyncIterator[AsyncIterator[bytes]]:
        nonlocal asked
        asked += 1
        begin = int(str(query.position)) + 1 if query.position is not None else 0

        async def body() -> AsyncIterator[bytes]:
            yield gateway._frame(begin)
            if begin < 2:
                await asyncio.Event().wait()

        yield body()

    chunks = [chunk async for chunk in remote_logs(opened, LogQuery(), sleep=gateway.sleep)]
    assert [chunk.data for chunk in chunks] == [gateway.line(n) for n in range(3)]
    assert asked == 3


async def test_refusals_are_told_at_once() -> None:
    gateway = Gateway(refusals=[errors.Forbidden("you may not")])
    with pytest.raises(errors.Forbidden):
        await anext(remote_logs(gateway.open, LogQuery(), sleep=gateway.sleep))


def test_params() -> None:
    query = LogQuery(
        roles=("worker", 3), container="main", follow=True, tail_lines=0, since_time="t",
        timestamps=True, previous=True, position="p",
    )  # fmt: skip
    assert query.as_params() == {
        "role": "worker", "index": "3", "container": "main", "follow": "true", "tailLines": "0",
        "sinceTime": "t", "timestamps": "true", "previous": "true", "position": "p",
    }  # fmt: skip
    assert LogQuery().as_params() == {}


# -- positions ------------------------------------------------------------------------------------

STAMP = b"2026-01-02T03:04:05.123456789Z"


def test_positions_are_text() -> None:
    marks = {
        SourceKey(f"job-worker-{n}", f"uid-{n}", "main"): Mark(STAMP, STAMP, n, n % 2, n)
        for n in range(1000)
    }
    position = Position(marks, "2026-01-02T03:04:05Z")
    token = str(position)
    assert Position.parse(token) == position
    assert len(token) < 40_000  # a thousand pods still fit into a request
    assert str(Position.unread(token)) == token


@pytest.mark.parametrize(
    "token", ["x", "eJw", "!!!", "é", "eJyLNtRRUIoFAAXgAXU", "AAAA" * 1000, "e" * (1 << 21)]
)
def test_text_that_is_no_position(token: str) -> None:
    with pytest.raises(errors.BadRequest):
        Position.parse(token)


@pytest.mark.parametrize(
    "values",
    [[], [1, 2, 3, 4], ["", "", -1, 0], ["", "", 1, 0, -1], ["x", "", 0, 0], "text",
     ["", "", True, 0], ["", "", 0, 0, 0, 0]],
)  # fmt: skip
def test_marks_that_are_none(values: object) -> None:
    with pytest.raises(ValueError):
        Mark.load(values)
