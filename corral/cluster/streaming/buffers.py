"""A bounded queue of bytes between the task that reads a connection and the one that uses it."""

from __future__ import annotations

import asyncio
from collections import deque


class ByteQueue:
    """Bytes in order, with an end. One consumer; ``put`` waits while it lags behind.

    ``size`` never exceeds ``limit`` by more than one piece.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.size = 0
        self._pieces: deque[bytes] = deque()
        self._ended = False
        self.discarding = False
        self._readable = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()

    @property
    def ended(self) -> bool:
        return self._ended

    @property
    def full(self) -> bool:
        return self.size >= self.limit

    def put_nowait(self, data: bytes) -> None:
        """Add bytes even over the limit; what comes after the end is dropped."""
        if not data or self._ended or self.discarding:
            return
        self._pieces.append(data)
        self.size += len(data)
        self._readable.set()
        if self.full:
            self._writable.clear()

    async def put(self, data: bytes) -> None:
        """Add bytes when there is room."""
        while data and self.full and not self._ended and not self.discarding:
            await self._writable.wait()
        self.put_nowait(data)

    async def get(self) -> bytes:
        """All that is there, or the next piece; empty at the end."""
        while not self._pieces:
            if self._ended:
                return b""
            self._readable.clear()
            await self._readable.wait()
        data = self._pieces.popleft() if len(self._pieces) == 1 else b"".join(self._pieces)
        self._pieces.clear()
        self.size = 0
        self._writable.set()
        return data

    def end(self) -> None:
        """No more bytes; those already here can still be read."""
        self._ended = True
        self._readable.set()
        self._writable.set()

    def discard(self) -> None:
        """Nobody will read: drop what is here and all that comes."""
        self.discarding = True
        self._pieces.clear()
        self.size = 0
        self._writable.set()
