"""A broker in this process, with limits that a case can reach."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from corral.cluster.broker.server import Broker
from corral.cluster.broker.settings import BrokerSettings, Limits

VERSIONS = struct.pack(">hhih", 18, 0, 7, -1)


@asynccontextmanager
async def running(folder: Path, **limits: Any) -> AsyncIterator[int]:
    broker = Broker(BrokerSettings(data_dir=folder / "b", port=0, limits=Limits(**limits)))
    await broker.start()
    try:
        async with asyncio.timeout(60):
            yield int(broker.addresses[0].rpartition(":")[2])
    finally:
        await broker.stop()


async def ended(reader: asyncio.StreamReader) -> bool:
    try:
        return await reader.read() == b""
    except ConnectionError:
        return True


@pytest.mark.parametrize("sent", [b"", b"\0\0", struct.pack(">i", 500) + b"x", b"\0\1\0\0x"])
async def test_who_is_slow_is_let_go(tmp_path: Path, sent: bytes) -> None:
    async with running(tmp_path, slow=0.2, idle=0.3) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(sent)
        assert await ended(reader)
        writer.close()


async def test_bytes_that_trickle_do_not_hold_a_request_open(tmp_path: Path) -> None:
    async with running(tmp_path, slow=0.3, idle=60) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(struct.pack(">i", 50_000))

        async def trickle() -> None:
            while True:
                writer.write(b"x")
                await asyncio.sleep(0.02)

        task = asyncio.create_task(trickle())
        assert await ended(reader)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        writer.close()


async def test_only_records_make_a_request_large(tmp_path: Path) -> None:
    async with running(tmp_path, other_frame_bytes=1000) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        body = VERSIONS + b"x" * 1000
        writer.write(struct.pack(">i", len(body)) + body)
        assert await ended(reader)
        writer.close()


async def test_more_connections_than_there_may_be(tmp_path: Path) -> None:
    async with running(tmp_path, connections=2) as port:
        held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
        for reader, writer in held:
            writer.write(struct.pack(">i", len(VERSIONS)) + VERSIONS)
            assert len(await reader.readexactly(8)) == 8
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        assert await ended(reader)
        for _, one in (*held, (reader, writer)):
            one.close()


async def test_requests_that_are_too_much_together_wait(tmp_path: Path) -> None:
    """Each is smaller than what there is for all; all together are not."""
    body = VERSIONS + b"x" * 60_000

    async def ask(port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in range(5):
            writer.write(struct.pack(">i", len(body)) + body)
            (size,) = struct.unpack(">i", await reader.readexactly(4))
            await reader.readexactly(size)
        writer.close()
        await writer.wait_closed()

    async with running(tmp_path, pending_bytes=100_000) as port:
        await asyncio.gather(*(ask(port) for _ in range(20)))


async def test_a_request_in_pieces(tmp_path: Path) -> None:
    async with running(tmp_path) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in range(3):
            for byte in struct.pack(">i", len(VERSIONS)) + VERSIONS:
                writer.write(bytes([byte]))
                await writer.drain()
        for _ in range(3):
            (size,) = struct.unpack(">i", await reader.readexactly(4))
            assert (await reader.readexactly(size))[:4] == struct.pack(">i", 7)
        writer.close()
