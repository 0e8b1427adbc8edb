"""Removes what is no longer needed, beside the event loop: the kernel may take its time."""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
from collections.abc import Callable
from functools import partial

__all__ = ["Sweeper"]

logger = logging.getLogger(__name__)

Work = Callable[[], None]


class Sweeper:
    """What is given to it is done in order, soon, and before ``close`` returns.

    What fails with an OSError, on a disk that is read-only for a while, say, is tried again with
    growing waits, and once more at the end; then the next agent on the folder will.
    """

    def __init__(self, *, first_wait: float = 1.0, longest_wait: float = 30.0) -> None:
        self._first_wait, self._longest_wait = first_wait, longest_wait
        self._given: queue.SimpleQueue[Work | None] = queue.SimpleQueue()
        """None: there is nothing more to come."""
        self._thread: threading.Thread | None = None

    def later(self, work: Callable[..., None], *args: object) -> None:
        """Do it; what is wrong is logged."""
        self._given.put(partial(work, *args))
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="sweeper", daemon=True)
            self._thread.start()

    async def close(self) -> None:
        """Return when everything is done, or was tried."""
        if self._thread is not None:
            self._given.put(None)
            await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        failed: list[Work] = []
        wait = self._first_wait
        while True:
            try:
                work = self._given.get(timeout=wait if failed else None)
            except queue.Empty:
                failed = [one for one in failed if not _is_done(one)]
                wait = min(2 * wait, self._longest_wait) if failed else self._first_wait
                continue
            if work is None:
                break
            if not _is_done(work):
                failed.append(work)
        for one in failed:
            _is_done(one)


def _is_done(work: Work) -> bool:
    """Whether there is nothing left to try."""
    try:
        work()
    except OSError as err:
        logger.info("something stays for now: %s", err)
        return False
    except Exception:
        logger.exception("something could not be removed")
    return True
