"""Memory for requests that are not answered yet: who comes when there is none waits.

A request that has been begun has its room until it is answered, so that none waits for another
that waits for it. One that does not come on loses it, and its connection, once somebody waits.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

__all__ = ["Budget", "Holder"]

_AGAIN: Final = 0.25
"""Seconds between looks at those who hold memory while others wait."""


class Holder(Protocol):
    """A connection with a request that is not all there."""

    def stalled(self, now: float) -> bool:
        """Whether the request does not come on."""

    def abort(self) -> None:
        """Close at once."""


class Budget:
    """Bytes that may be held together: by a tenant, and within `whole` by all of them.

    The whole counts bytes that have come, so who only says that much will come holds nothing of
    others.
    """

    def __init__(self, size: int, whole: Budget | None = None) -> None:
        self._size = size
        self._left = size
        self._owed = 0
        self._whole = whole
        self._waiting: deque[Callable[[], None]] = deque()
        self._holders: set[Holder] = set()
        self._look: asyncio.TimerHandle | None = None

    @property
    def used(self) -> int:
        return self._size - self._left

    def take(self, size: int, came: int) -> bool:
        """Whether there is room for a request of a size, of which so many bytes have come.

        The largest one has it once all others are done.
        """
        if size > self._left < self._size or (self._whole is not None and self._whole._left <= 0):
            return False
        self._left -= size
        self.come(came)
        return True

    def come(self, size: int) -> None:
        """Bytes of a request that has been begun have come."""
        if self._whole is not None:
            self._whole._left -= size

    def give(self, size: int, came: int) -> None:
        self._left += size
        self._wake()
        if self._whole is not None:
            self._whole._left += came
            self._whole._wake()

    def owe(self, size: int) -> bool:
        """Whether an answer may wait to be taken; one always may."""
        if self._owed and self._owed + size > self._size:
            return False
        self._owed += size
        return True

    def paid(self, size: int) -> None:
        self._owed -= size

    def _wake(self) -> None:
        for _ in range(len(self._waiting)):
            self._waiting.popleft()()

    def when_free(self, call: Callable[[], None]) -> None:
        """Call something once there is more room, in this one or in the whole."""
        full = self._whole if self._whole is not None and self._whole._left <= 0 else self
        full._waiting.append(call)
        if full._look is None:
            full._look = asyncio.get_running_loop().call_later(_AGAIN, full._let_go)

    # -- those who do not come on ------------------------------------------------------------------

    def hold(self, holder: Holder) -> None:
        self._holders.add(holder)
        if self._whole is not None:
            self._whole._holders.add(holder)

    def release(self, holder: Holder) -> None:
        self._holders.discard(holder)
        if self._whole is not None:
            self._whole._holders.discard(holder)

    def _let_go(self) -> None:
        self._look = None
        if not self._waiting:
            return
        now = asyncio.get_running_loop().time()
        for holder in [one for one in self._holders if one.stalled(now)]:
            holder.abort()
        if self._waiting:
            self._look = asyncio.get_running_loop().call_later(_AGAIN, self._let_go)
