"""Connections over an in-memory wire: streams, windows, resets, goodbyes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from corral.cluster.streaming import frames
from corral.cluster.streaming.buffers import ByteQueue
from corral.cluster.streaming.frames import (
    Data,
    Decoder,
    Encoder,
    Frame,
    GoAway,
    Ping,
    RstStream,
    Settings,
    SynReply,
    SynStream,
    WindowUpdate,
)
from corral.cluster.streaming.spdy import WINDOW, Connection, StreamClosed


class MemoryWire:
    def __init__(self, incoming: ByteQueue, outgoing: ByteQueue) -> None:
        self._incoming, self._outgoing = incoming, outgoing

    async def read(self) -> bytes:
        return await self._incoming.get()

    async def write(self, data: bytes) -> None:
        if self._outgoing.ended:
            raise ConnectionResetError("closed")
        await self._outgoing.put(data)

    async def close(self) -> None:
        self._incoming.end()
        self._outgoing.end()


def wires() -> tuple[MemoryWire, MemoryWire]:
    one, two = ByteQueue(65536), ByteQueue(65536)
    return MemoryWire(one, two), MemoryWire(two, one)


@asynccontextmanager
async def connected() -> AsyncIterator[tuple[Connection, Connection]]:
    near, far = wires()
    async with (
        asyncio.timeout(10),
        Connection(near, server=False) as client,
        Connection(far, server=True) as server,
    ):
        yield client, server


class Bare:
    """A peer that sends exactly the frames it is told to: what Go's spdystream does."""

    def __init__(self, wire: MemoryWire) -> None:
        self._wire = wire
        self._encoder, self._decoder = Encoder(), Decoder()
        self._frames: list[Frame] = []

    async def send(self, *sent: Frame) -> None:
        for frame in sent:
            await self._wire.write(self._encoder.encode(frame))

    async def next(self) -> Frame | None:
        while not self._frames:
            data = await self._wire.read()
            if not data:
                return None
            self._frames += self._decoder.feed(data)
        return self._frames.pop(0)


@asynccontextmanager
async def bare_client(idle: float | None = None) -> AsyncIterator[tuple[Bare, Connection]]:
    near, far = wires()
    async with asyncio.timeout(10), Connection(far, server=True, idle=idle) as server:
        peer = Bare(near)
        assert await peer.next() == Settings({frames.INITIAL_WINDOW_SIZE: WINDOW})
        yield peer, server


async def test_streams_carry_headers_and_bytes_both_ways() -> None:
    async with connected() as (client, server):
        near = await client.open({"streamType": "data", "port": "80"})
        far = await server.accept()
        assert far is not None and far.headers == {"streamtype": "data", "port": "80"}
        await near.write(b"question")
        await near.close()
        assert await far.read_all(100) == b"question"
        await far.write(b"answer")
        await far.close()
        assert await near.read_all(100) == b"answer"
        assert (near.number, far.number) == (1, 1)


async def test_server_streams_have_even_numbers() -> None:
    async with connected() as (client, server):
        near = await server.open({})
        far = await client.accept()
        assert far is not None and near.number == far.number == 2


async def test_window_holds_a_writer_and_leaves_other_streams_alone() -> None:
    async with connected() as (client, server):
        slow = await client.open({"n": "slow"})
        quick = await client.open({"n": "quick"})
        far_slow, far_quick = await server.accept(), await server.accept()
        assert far_slow is not None and far_quick is not None
        writing = asyncio.create_task(slow.write(b"x" * (4 * WINDOW)))
        await quick.write(b"through")
        assert await far_quick.read() == b"through"
        assert not writing.done()
        size = 0
        while size < 4 * WINDOW:
            size += len(await far_slow.read())
        await writing


async def test_no_windows_for_a_peer_that_announces_none() -> None:
    async with bare_client() as (peer, server):
        await peer.send(SynStream(1, {}))
        stream = await server.accept()
        assert stream is not None and server.peer_window is None
        assert await peer.next() == SynReply(1, {})
        sending = asyncio.create_task(stream.write(b"x" * (2 * WINDOW)))
        size = 0
        while size < 2 * WINDOW:
            frame = await peer.next()
            assert isinstance(frame, Data)
            size += len(frame.data)
        await sending


async def test_windows_for_a_peer_that_announces_one() -> None:
    async with bare_client() as (peer, server):
        await peer.send(Settings({frames.INITIAL_WINDOW_SIZE: 10}), SynStream(1, {}))
        stream = await server.accept()
        assert stream is not None
        assert await peer.next() == SynReply(1, {})
        sending = asyncio.create_task(stream.write(b"0123456789abcde"))
        assert await peer.next() == Data(1, b"0123456789")
        await peer.send(WindowUpdate(1, 3))
        assert await peer.next() == Data(1, b"abc")
        await peer.send(WindowUpdate(1, 100))
        assert await peer.next() == Data(1, b"de")
        await sending


async def test_discarded_bytes_are_given_back() -> None:
    async with connected() as (client, server):
        near = await client.open({})
        far = await server.accept()
        assert far is not None
        far.discard()
        await near.write(b"x" * (3 * WINDOW))


async def test_reset_ends_both_directions() -> None:
    async with connected() as (client, server):
        near = await client.open({})
        far = await server.accept()
        assert far is not None
        await far.reset()
        assert await near.read() == b""
        assert near.was_reset
        with pytest.raises(StreamClosed):
            await near.write(b"x")


async def test_pings_come_back() -> None:
    async with bare_client() as (peer, _):
        await peer.send(Ping(2), Ping(5))
        assert await peer.next() == Ping(5)


async def test_wrong_stream_numbers_are_reset() -> None:
    async with bare_client() as (peer, _):
        await peer.send(SynStream(3, {}), SynStream(1, {}), SynStream(4, {}))
        assert await peer.next() == SynReply(3, {})
        assert await peer.next() == RstStream(1, frames.PROTOCOL_ERROR)
        assert await peer.next() == RstStream(4, frames.PROTOCOL_ERROR)


async def test_goodbye() -> None:
    async with bare_client() as (peer, server):
        await peer.send(SynStream(1, {}))
        assert await server.accept() is not None
        await server.close()
        assert await peer.next() == SynReply(1, {})
        assert await peer.next() == RstStream(1, frames.CANCEL)
        assert await peer.next() == GoAway(1, 0)
        assert await peer.next() is None


async def test_peer_says_goodbye() -> None:
    async with bare_client() as (peer, server):
        await peer.send(GoAway(0))
        assert await server.accept() is None
        await server.wait_gone()
        with pytest.raises(StreamClosed):
            await server.open({})


async def test_garbage_ends_the_connection() -> None:
    near, far = wires()
    async with asyncio.timeout(10), Connection(far, server=True) as server:
        await near.write(bytes.fromhex("8009000100000000"))
        assert await server.accept() is None
        peer = Bare(near)
        assert isinstance(await peer.next(), Settings)
        assert await peer.next() == GoAway(0, frames.PROTOCOL_ERROR)


async def test_lost_wire_wakes_everybody() -> None:
    near, far = wires()
    async with asyncio.timeout(10), Connection(far, server=True) as server:
        async with Connection(near, server=False) as client:
            stream = await client.open({})
            other = await server.accept()
            assert other is not None
            reading = asyncio.create_task(stream.read())
            opening = asyncio.create_task(client.accept())
            await far.close()
            assert await reading == b""
            assert await opening is None
            with pytest.raises(ConnectionError):
                await stream.write(b"x")
        assert await other.read() == b""


async def test_idle_connections_end() -> None:
    async with bare_client(idle=0.01) as (_, server):
        await server.wait_gone()
        assert server.closed
