"""One connection: frames in, answers out, one after the other, within limits."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Protocol

from corral.cluster.broker.protocol.budget import Budget
from corral.cluster.broker.protocol.codec import Malformed, Part
from corral.cluster.broker.settings import Limits
from corral.cluster.broker.storage.files import FileSlice

__all__ = ["READ", "Connection", "Session"]

logger = logging.getLogger(__name__)

_SCRATCH: Final = 64 * 2**10
"""Bytes of a frame that is put together beside others; a larger one has a buffer of its own."""
_SMALL: Final = 4 * 2**10
"""The same of somebody who has not sent more at once yet."""
READ: Final = 256 * 2**10
"""Bytes that are read at once: others have their turn between."""
_FEW: Final = 4
"""Requests of a stranger that wait for their turn."""
_CHUNK: Final = 256 * 2**10
_HIGH: Final = 256 * 2**10


class Session(Protocol):
    """Who is at the other end, and what is done with what it asks."""

    @property
    def budget(self) -> Budget | None:
        """Where its requests are counted; None while it is not known who it is."""

    @property
    def largest(self) -> int:
        """Bytes of its requests, at most."""

    async def answer(self, frame: bytearray) -> list[Part] | None:
        """None: nothing is to be said. Raises Malformed, ConnectionError: it is to be closed."""


class Connection(asyncio.BufferedProtocol):
    """Small requests go through a buffer that stays; a large one has one that grows as it comes.

    What comes of large ones is read to `room`, which the connections of a loop share, and is put
    behind the rest at once: nobody has memory for what has not come.
    """

    def __init__(
        self,
        limits: Limits,
        room: bytearray,
        begin: Callable[[Connection], Session | None],
        ended: Callable[[Connection], None],
    ) -> None:
        self._limits = limits
        self._room = memoryview(room)
        self._begin = begin
        self._ended = ended
        self._scratch = bytearray(_SMALL)
        self._filled = 0
        """Bytes at the start of the scratch that are no frame yet."""
        self._frame: bytearray | None = None
        self._size = 0
        """Of the frame, when it is whole."""
        self._frames: deque[bytearray] = deque()
        self._budget: Budget | None = None
        """Where its frames are counted, from the first one on that is."""
        self._taken: set[int] = set()
        """Frames that are counted, by their identities."""
        self._held = 0
        """Bytes of frames taken from the budget."""
        self._came = 0
        """Those of them that have come."""
        self._until = 0.0
        """When somebody whom nobody knows is let go."""
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
        self._until = asyncio.get_running_loop().time() + self._limits.login
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
        self._settle(self._held, self._came)
        if self._budget is not None:
            self._budget.release(self)
        self._ended(self)

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self._drained.clear()

    def resume_writing(self) -> None:
        self._drained.set()

    def get_buffer(self, sizehint: int) -> memoryview:
        if self._frame is not None:
            return self._room[: self._size - len(self._frame)]
        # it grows here only: nobody has a view of it now
        if self._filled == len(self._scratch) < _SCRATCH:
            self._scratch.extend(bytes(_SCRATCH - self._filled))
        return memoryview(self._scratch)[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        if self._frame is not None:
            self._frame += self._room[:nbytes]
            self._come(nbytes)
            if len(self._frame) == self._size:
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
            if not self._take(size, min(there, size)):
                break
            if there >= size:
                frame = bytearray(memoryview(self._scratch)[at + 4 : at + 4 + size])
                at += 4 + size
                self._push(frame)
            else:
                self._frame = bytearray(memoryview(self._scratch)[at + 4 : self._filled])
                self._size = size
                if self._budget is not None:
                    self._budget.hold(self)
                at = self._filled
        if at:
            rest = self._filled - at
            self._scratch[:rest] = self._scratch[at : self._filled]
            self._filled = rest

    def _check(self, size: int) -> None:
        limit = self._session.largest if self._session is not None else 0
        if not 0 < size <= limit:
            raise Malformed(f"a request of {size} bytes; at most {limit} are taken")

    def _push(self, frame: bytearray) -> None:
        self._frames.append(frame)
        self._begun = None
        if self._budget is not None:
            self._taken.add(id(frame))
            self._budget.release(self)
        if len(self._frames) >= (self._limits.pipelined if self._budget is not None else _FEW):
            self._pause()

    # -- memory ----------------------------------------------------------------------------------

    def _take(self, size: int, came: int) -> bool:
        """Whether there is room for a frame; if not, nothing is read until there is."""
        if self._budget is None and self._session is not None:
            self._budget = self._session.budget
        if self._budget is None:
            return True  # small, and few
        if not self._budget.take(size, came):
            self._pause()
            self._budget.when_free(self._resume)
            return False
        self._held += size
        self._came += came
        return True

    def _come(self, size: int) -> None:
        if self._budget is not None:
            self._budget.come(size)
            self._came += size

    def _done(self, frame: bytearray) -> None:
        """It was answered."""
        if id(frame) in self._taken:
            self._taken.discard(id(frame))
            self._settle(len(frame), len(frame))

    def _settle(self, size: int, came: int) -> None:
        if self._budget is not None:
            size, came = min(size, self._held), min(came, self._came)
            self._held -= size
            self._came -= came
            self._budget.give(size, came)

    def stalled(self, now: float) -> bool:
        """Whether the request that has begun comes on too slowly to wait for."""
        if self._frame is None or self._begun is None or self._paused:
            return False
        spent = now - self._begun - self._limits.patience
        return spent > 0 and len(self._frame) < spent * self._limits.progress

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
                self._done(frame)
                if len(self._frames) < self._limits.pipelined:
                    self._resume()
                if parts is not None:
                    await self._deliver(parts)
        except (Malformed, ConnectionError, TimeoutError) as err:
            logger.info("%s: closed: %s", self.peer, err or type(err).__name__)
        except Exception:
            logger.exception("%s: a request could not be answered", self.peer)
        finally:
            if self._transport is not None:
                self._transport.close()

    async def _deliver(self, parts: list[Part]) -> None:
        """Raises ConnectionError, TimeoutError where it is not taken."""
        size = sum(len(part) for part in parts if isinstance(part, bytes))
        budget = self._budget
        if budget is not None and not budget.owe(size):
            raise ConnectionError("too much waits to be taken already")
        try:
            async with asyncio.timeout(self._limits.slow):
                await self._send(parts)
        finally:
            if budget is not None:
                budget.paid(size)

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
        if self._session is not None and self._session.budget is None:
            return self._until
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
