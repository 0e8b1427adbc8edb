"""What is left to do after save(): in the background, one at a time.

The training goes on as soon as save() has returned. Digests, syncing, publishing and uploading
follow in a thread; the next checkpoint waits for it, unless it does nothing but wait for an
operator that is away: then the newer state takes its place.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, NamedTuple

from .errors import Fenced
from .patience import Backoff, Patience

if TYPE_CHECKING:
    from collections.abc import Callable

    from .volume.staging import Folder

log = logging.getLogger("corral.inpod")

PATIENCE = 60.0
"""Seconds of failures after which work counts as stalled."""
_GLANCE = 0.05
"""Seconds between two looks at whether the work stalled."""


class Saved(NamedTuple):
    """A state that the user's save() has written."""

    folder: Folder
    step: int
    metrics: dict[str, float | None]
    sharded: bool
    request: str | None
    began: float
    """When the save began, in seconds since the epoch."""


class Publisher:
    """Runs the work of one checkpoint at a time; used from one thread."""

    def __init__(
        self,
        publish: Callable[[Saved, Patience], None],
        *,
        patience: float | None = None,
        backoff: Callable[[], Backoff] = Backoff,
    ) -> None:
        """Starts nothing yet.

        Args:
            publish: does the work; raises if there is no checkpoint in the end.
            patience: seconds of failures after which a newer checkpoint may replace the work;
                `PATIENCE` by default.
            backoff: delays between its tries.
        """
        self._publish = publish
        self._seconds = PATIENCE if patience is None else patience
        self._backoff = backoff
        self._patience = Patience(self._seconds, endless=True)
        self._thread: threading.Thread | None = None
        self.failed = False
        """Whether the last one came to nothing."""
        self.fenced = False

    @property
    def busy(self) -> bool:
        """Whether there is work that makes progress."""
        return self._is_alive() and not self._patience.stalled.is_set()

    def submit(self, saved: Saved) -> None:
        """Begins; the caller has waited for the work before, or that is given up."""
        self.cancel()
        self.failed = False
        patience = Patience(self._seconds, endless=True, backoff=self._backoff())
        self._patience = patience
        self._thread = threading.Thread(
            target=self._run, args=(saved, patience), name="corral-checkpoint", daemon=True
        )
        self._thread.start()

    def wait(self, timeout: float | None) -> bool:
        """Waits until there is no work that makes progress; whether that came in time."""
        until = None if timeout is None else time.monotonic() + timeout
        while self.busy:
            left = _GLANCE if until is None else min(_GLANCE, until - time.monotonic())
            if left <= 0 or self._thread is None:
                return False
            self._thread.join(left)
        return True

    def cancel(self) -> None:
        """Gives work up at its next failure; then what it saved is removed.

        It is not waited for: a call that is under way may take its time, and may even succeed.
        """
        self._patience.cancel()

    @property
    def unfinished(self) -> bool:
        return self._is_alive() or self.failed

    def _is_alive(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def _run(self, saved: Saved, patience: Patience) -> None:
        try:
            self._publish(saved, patience)
        except Fenced as error:
            self.fenced = True
            self._fail(saved, patience, str(error))
        except Exception as error:
            self._fail(saved, patience, str(error) or type(error).__name__)
        finally:
            saved.folder.discard()

    def _fail(self, saved: Saved, patience: Patience, reason: str) -> None:
        log.error("there is no checkpoint of step %d: %s", saved.step, reason)
        if patience is self._patience:  # else a newer one has taken its place
            self.failed = True
