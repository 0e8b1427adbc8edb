"""Duplex byte connections under one interface, and the relay between two of them."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Coroutine
from typing import Any, Protocol

from aiohttp import WSMsgType, web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.client_ws import ClientWebSocketResponse

from corral.cluster.streaming.buffers import ByteQueue

CHUNK = 64 * 1024
BUFFER = 256 * 1024
CLOSE_WAIT = 5.0
"""Seconds a goodbye may take."""


class Wire(Protocol):
    """Bytes both ways. ``read`` returns empty at the end; ``write`` waits for a slow peer."""

    async def read(self) -> bytes: ...

    async def write(self, data: bytes) -> None:
        """Raises ConnectionError when the peer is gone."""
        ...

    async def close(self) -> None: ...


class SocketWire:
    """An asyncio connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def read(self) -> bytes:
        try:
            return await self._reader.read(CHUNK)
        except (OSError, ssl.SSLError):
            return b""

    async def write(self, data: bytes) -> None:
        if self._writer.is_closing():
            raise ConnectionResetError("the connection is closed")
        self._writer.write(data)
        await self._writer.drain()

    def write_eof(self) -> None:
        """Say that nothing more will be written, where the connection can."""
        if self._writer.can_write_eof() and not self._writer.is_closing():
            self._writer.write_eof()

    async def close(self) -> None:
        self._writer.close()
        try:
            async with asyncio.timeout(CLOSE_WAIT):
                await self._writer.wait_closed()
        except (OSError, ssl.SSLError, TimeoutError):
            self._writer.transport.abort()


class RequestWire:
    """The raw connection under an HTTP request of aiohttp.web, after a 101 answer.

    It takes the place of the HTTP parser (``feed_data`` and ``feed_eof`` are aiohttp's names) and
    stops reading the socket while nobody takes what has arrived.
    """

    def __init__(self, request: web.BaseRequest, writer: AbstractStreamWriter) -> None:
        self._transport = request.transport
        self._writer = writer
        self._queue = ByteQueue(BUFFER)
        self._paused = False
        request.protocol.set_parser(self)  # type: ignore[arg-type]  # any parser will do

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        self._queue.put_nowait(data)
        if self._queue.full and not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()
        return False, b""

    def feed_eof(self) -> None:
        self._queue.end()

    async def read(self) -> bytes:
        data = await self._queue.get()
        if self._paused and self._transport is not None and not self._transport.is_closing():
            self._paused = False
            self._transport.resume_reading()
        return data

    async def write(self, data: bytes) -> None:
        await self._writer.write(data)

    async def close(self) -> None:
        self._queue.end()
        if self._transport is not None:
            self._transport.close()


class Departure:
    """Tells when the client of a request without a body leaves, even if nothing is written to it.

    Constraints: the connection carries no further request; close it with the response.
    """

    def __init__(self, request: web.BaseRequest) -> None:
        self._gone = asyncio.Event()
        request.protocol.set_parser(self)  # type: ignore[arg-type]  # any parser will do

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        return False, b""

    def feed_eof(self) -> None:
        self._gone.set()

    async def wait(self) -> None:
        await self._gone.wait()


class WebSocketWire:
    """A WebSocket whose binary messages are one stream of bytes."""

    def __init__(self, socket: web.WebSocketResponse | ClientWebSocketResponse) -> None:
        self._socket = socket

    async def read(self) -> bytes:
        while True:
            message = await self._socket.receive()
            if message.type is WSMsgType.BINARY:
                if message.data:
                    return bytes(message.data)
            elif message.type is not WSMsgType.TEXT:
                return b""

    async def write(self, data: bytes) -> None:
        await self._socket.send_bytes(data)

    async def close(self) -> None:
        await self._socket.close()


async def relay(near: Wire, far: Wire, *, idle: float | None = None) -> None:
    """Carry bytes both ways until one side ends or ``idle`` seconds pass; then close both."""
    clock = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(idle) as limit:

            def moved() -> None:
                if idle is not None:
                    limit.reschedule(clock.time() + idle)

            async def copy(source: Wire, sink: Wire) -> None:
                while data := await source.read():
                    moved()
                    await sink.write(data)

            await first_of(copy(near, far), copy(far, near))
    except (ConnectionError, TimeoutError):
        return
    finally:
        await asyncio.gather(near.close(), far.close(), return_exceptions=True)


async def first_of(*work: Coroutine[Any, Any, None]) -> None:
    """Run coroutines until the first ends; the others are cancelled. Raises what it raised."""
    tasks = [asyncio.create_task(w) for w in work]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
