"""Asking again: exponential back-off with jitter, for a bounded time or until it is cancelled."""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING, TypeVar

from .errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class Backoff:
    """Delays that double up to a cap, each between a half and the whole of its value."""

    def __init__(self, *, base: float = 0.5, cap: float = 15.0) -> None:
        self._base = base
        self._cap = cap
        self._failures = 0

    def next(self) -> float:
        """Seconds until the next try."""
        delay = min(self._cap, self._base * 2.0 ** min(self._failures, 30))
        self._failures += 1
        return delay * (0.5 + int.from_bytes(os.urandom(2), "big") / 131072)

    def reset(self) -> None:
        self._failures = 0


class Patience:
    """How long one piece of work goes on asking."""

    def __init__(
        self,
        seconds: float,
        *,
        endless: bool = False,
        backoff: Backoff | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Counts from the first failure of a series.

        Args:
            seconds: after these it is `stalled`.
            endless: whether it goes on then, until it is cancelled, instead of giving up.
            backoff: delays between the tries.
            clock: for `seconds`.
        """
        self.stalled = threading.Event()
        """Set while it has waited longer than it should."""
        self._cancelled = threading.Event()
        self._seconds = seconds
        self._endless = endless
        self._backoff = backoff or Backoff()
        self._clock = clock

    @property
    def cancelled(self) -> bool:
        return self._cancelled.is_set()

    def cancel(self) -> None:
        """Lets the failure at hand be the last one."""
        self._cancelled.set()

    def retry(self, call: Callable[[], T]) -> T:
        """The result of the first call that is answered.

        Raises:
            Unavailable: the last failure, when patience is at its end.
        """
        began = self._clock()
        self._backoff.reset()
        while True:
            try:
                result = call()
            except Unavailable:
                if self._clock() - began >= self._seconds:
                    self.stalled.set()
                    if not self._endless:
                        raise
                if self._cancelled.wait(self._backoff.next()):
                    raise
            else:
                self.stalled.clear()
                return result
