"""One connection: frames in, answers out, one after the other, within limits."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Protocol

from corral.cluster.broker.settings import Limits
from corral.cluster.broker.storage.files import FileSlice
from corral.cluster.broker.wire.codec import Malformed, Part

__all__ = ["Budget", "Connection", "Session"]

logger = logging.getLogger(__name__)

_SCRATCH: Final = 64 * 2**10
_CHUNK: Final = 256 * 2**10
_HIGH: Final = 256 * 2**10


class Session(Protocol):
    """Who is at the other end, and what is done with what it asks."""

    @property
    def trusted(self) -> bool:
        """Whether it may send large requests."""

    async def answer(self, frame: bytearray) -> list[Part] | None:
        """None: nothing is to be said. Raises Malformed, ConnectionError: it is to be closed."""


class Budget:
    """Bytes of requests that all connections may hold together."""

    def __init__(self, size: int) -> None:
        self._left = size
        self._size = size
        self._waiting: deque[Callable[[], None]] = deque()

    def take(self, size: int) -> bool:
        """Whether there is room; the largest request has it once all others are done."""
        if size > self._left < self._size:
            return False
        self._left -= size
        return True

    def give(self, size: int) -> None:
        self._left += size
        for _ in range(len(self._waiting)):
            self._waiting.popleft()()

    def when_free(self, call: Callable[[], None]) -> None:
        self._waiting.append(call)


class Connection(asyncio.BufferedProtocol):
    """Small requests go through a buffer that stays; a large one has one of its own size."""

    def __init__(
        self,
        limits: Limits,
        budget: Budget,
        begin: Callable[[Connection], Session | None],
        ended: Callable[[Connection], None],
    ) -> None:
        self._limits = limits
        self._budget = budget
        self._begin = begin
        self._ended = ended
        self._scratch = bytearray(_SCRATCH)
        self._filled = 0
        """Bytes at the start of the scratch that are no frame yet."""
        self._frame: bytearray | None = None
        self._got = 0
        self._frames: deque[bytearray] = deque()
        self._held = 0
        """Bytes taken from the budget."""
        self._begun: float | None = None
        """When the request began that is not all there yet."""
        self._wake = asyncio.Event()
        self._drained = asyncio.Event()
        self._drained.set()
        self._paused = False
        self._task: asyncio.Task[None] | None = None
        self._transport: Any = None
        self._session: Session | None = None
        self._closing = False
        self.peer = ""

    # -- what the event loop calls ---------------------------------------------------------------

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        transport.set_write_buffer_limits(high=_HIGH, low=0)
        raw = transport.get_extra_info("socket")
        if raw is not None and raw.family in (socket.AF_INET, socket.AF_INET6):
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        name = transport.get_extra_info("peername")
        self.peer = str(name[0]) if name else ""
        self._session = self._begin(self)
        if self._session is None:
            transport.abort()
            return
        self._task = asyncio.get_running_loop().create_task(self._serve(self._session))

    def connection_lost(self, exc: Exception | None) -> None:
        self._closing = True
        self._drained.set()
        self._wake.set()
        if self._task is not None:
            self._task.cancel()
        self._budget.give(self._held)
        self._held = 0
        self._ended(self)

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self._drained.clear()

    def resume_writing(self) -> None:
        self._drained.set()

    def get_buffer(self, sizehint: int) -> memoryview:
        if self._frame is not None:
            return memoryview(self._frame)[self._got :]
        return memoryview(self._scratch)[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        if self._frame is not None:
            self._got += nbytes
            if self._got == len(self._frame):
                self._push(self._frame)
                self._frame = None
        else:
            self._filled += nbytes
            try:
                self._split()
            except Malformed as err:
                logger.info("%s: closed: %s", self.peer, err)
                self.abort()
        if self._frame is None and self._filled == 0:
            self._begun = None
        elif self._begun is None:
            self._begun = asyncio.get_running_loop().time()
        self._wake.set()

    # -- framing ---------------------------------------------------------------------------------

    def _split(self) -> None:
        """Take whole frames out of the scratch, and begin a large one."""
        at = 0
        while self._filled - at >= 4:
            size = int.from_bytes(self._scratch[at : at + 4], "big", signed=True)
            self._check(size)
            there = self._filled - at - 4
            if there < size and 4 + size <= _SCRATCH - at:
                break
            if not self._budget.take(size):
                self._pause()
                self._budget.when_free(self._resume)
                break
            self._held += size
            if there >= size:
                self._push(bytearray(memoryview(self._scratch)[at + 4 : at + 4 + size]))
                at += 4 + size
            else:
                self._frame = bytearray(size)
                self._frame[:there] = memoryview(self._scratch)[at + 4 : self._filled]
                self._got = there
                at = self._filled
        if at:
            rest = self._filled - at
            self._scratch[:rest] = self._scratch[at : self._filled]
            self._filled = rest

    def _check(self, size: int) -> None:
        trusted = self._session is not None and self._session.trusted
        limit = self._limits.frame_bytes if trusted else self._limits.strange_frame_bytes
        if not 0 < size <= limit:
            raise Malformed(f"a request of {size} bytes; at most {limit} are taken")

    def _push(self, frame: bytearray) -> None:
        self._frames.append(frame)
        self._begun = None
        if len(self._frames) >= self._limits.pipelined:
            self._pause()

    def _pause(self) -> None:
        if not self._paused and not self._closing:
            self._paused = True
            self._transport.pause_reading()

    def _resume(self) -> None:
        if not self._paused or self._closing:
            return
        self._paused = False
        self._transport.resume_reading()
        self.buffer_updated(0)

    # -- answering -------------------------------------------------------------------------------

    async def _serve(self, session: Session) -> None:
        try:
            while not self._closing:
                frame = await self._next()
                parts = await session.answer(frame)
                self._held -= len(frame)
                self._budget.give(len(frame))
                if len(self._frames) < self._limits.pipelined:
                    self._resume()
                if parts is not None:
                    async with asyncio.timeout(self._limits.slow):
                        await self._send(parts)
        except (Malformed, ConnectionError, TimeoutError) as err:
            logger.info("%s: closed: %s", self.peer, err or type(err).__name__)
        except Exception:
            logger.exception("%s: a request could not be answered", self.peer)
        finally:
            if self._transport is not None:
                self._transport.close()

    async def _next(self) -> bytearray:
        while not self._frames:
            self._wake.clear()
            async with asyncio.timeout_at(self._deadline()):
                await self._wake.wait()
            if self._closing:
                raise ConnectionError("it is closed")
        return self._frames.popleft()

    def _deadline(self) -> float:
        """Until when the next request has to be there; one that has begun must come on."""
        if self._begun is not None and not self._paused:
            return self._begun + self._limits.slow
        return asyncio.get_running_loop().time() + self._limits.idle

    async def _send(self, parts: list[Part]) -> None:
        fd = self._transport.get_extra_info("socket").fileno()
        for part in parts:
            at = 0
            while at < len(part):
                sent = self._now(fd, part, at) if self._idle() else 0
                if not sent:
                    data = part.read(at, _CHUNK) if isinstance(part, FileSlice) else part[at:]
                    self._transport.write(data)
                    sent = len(data)
                    await self._drain()
                at += sent

    def _idle(self) -> bool:
        """Whether nothing waits to be sent, so that the socket may be used past the transport."""
        if self._closing or self._transport.is_closing():
            raise ConnectionError("it is closed")
        return bool(self._transport.get_write_buffer_size() == 0)

    def _now(self, fd: int, part: Part, at: int) -> int:
        """What the socket takes at once; bytes of a file go there by the kernel alone."""
        try:
            if isinstance(part, FileSlice):
                return os.sendfile(fd, part.file.fd, part.start + at, part.size - at)
            return os.write(fd, memoryview(part)[at:])
        except BlockingIOError:
            return 0

    async def _drain(self) -> None:
        if not self._drained.is_set():
            await self._drained.wait()
        if self._closing:
            raise ConnectionError("it is closed")

    def abort(self) -> None:
        """Close at once."""
        self._closing = True
        self._wake.set()
        if self._transport is not None:
            self._transport.abort()

    async def wait_closed(self) -> None:
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)
