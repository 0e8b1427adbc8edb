"""A queue between those who read logs and the one who takes them, bounded in bytes."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Generic, TypeVar

__all__ = ["Pipe"]

_T = TypeVar("_T")


class Pipe(Generic[_T]):
    """Items in the order in which they were put.

    ``put`` waits while as many bytes are on the way as may be; one item more than that can be, of
    whatever size, for each who puts.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._items: deque[tuple[_T, int]] = deque()
        self._size = 0
        self._closed = False
        self._filled = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()

    async def put(self, item: _T, size: int) -> None:
        while self._size >= self._limit:
            self._room.clear()
            await self._room.wait()
        self._items.append((item, size))
        self._size += size
        self._filled.set()

    async def get(self) -> _T | None:
        """The next item; none when the pipe is closed and empty."""
        while not self._items:
            if self._closed:
                return None
            self._filled.clear()
            await self._filled.wait()
        item, size = self._items.popleft()
        self._size -= size
        self._room.set()
        return item

    def close(self) -> None:
        """Nothing more will be put."""
        self._closed = True
        self._filled.set()
