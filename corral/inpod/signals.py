"""SIGTERM means: save, then leave. The handler only notes that it came.

It is installed by the first `maybe_checkpoint`, because a program that never checkpoints should
end at once, as it would without this package. An earlier handler is called after the note is
taken. A forked child (a data loader's worker) keeps its own fate: there the signal does what it
would have done without us.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

EXIT_CODE = 128 + signal.SIGTERM
"""What a shell reports for a process that SIGTERM ended."""


class Termination:
    """Whether the process was asked to stop, and when."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._pid = os.getpid()
        self._previous: Any = None
        self._installed = False
        self.since: float | None = None
        """On the clock; None while nobody asked."""

    def install(self) -> bool:
        """Takes the signal over; only the main thread may, so other threads do nothing."""
        if self._installed or threading.current_thread() is not threading.main_thread():
            return self._installed
        self._previous = signal.signal(signal.SIGTERM, self._handle)
        self._installed = True
        return True

    def uninstall(self) -> None:
        """Gives the signal back, if nobody took it over since."""
        # Bound methods are equal, not identical.
        if self._installed and signal.getsignal(signal.SIGTERM) == self._handle:
            signal.signal(signal.SIGTERM, self._earlier())
            self._installed = False

    def request(self) -> None:
        """Notes that the process shall stop."""
        if self.since is None:
            self.since = self._clock()

    def _handle(self, number: int, frame: Any) -> None:
        if os.getpid() != self._pid:
            signal.signal(signal.SIGTERM, self._earlier())
            os.kill(os.getpid(), signal.SIGTERM)
            return
        self.request()
        if callable(self._previous):
            self._previous(number, frame)

    def _earlier(self) -> Any:
        # None stands for a handler that was not installed from Python and cannot be put back.
        return signal.SIG_DFL if self._previous is None else self._previous
