"""Work on machines that takes its time: beside the reconciles, one piece for a machine at a time.

What becomes of a piece is kept until it was written down (`done`, `written`); who dies before that
does the same piece again, which does no harm.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from corral.clouds.errors import CloudError
from corral.families.spot.machines.entries import Change, said

__all__ = ["Works"]

logger = logging.getLogger(__name__)

Work = Callable[[], Awaitable[Change | None]]
Place = tuple[str, str]
"""The key of a SpotInstanceVM, and the name of a machine."""


@dataclass(slots=True)
class _Slot:
    task: asyncio.Task[None] | None = None
    change: Change | None = None
    tries: int = 0
    not_before: float = 0.0
    last: dict[str, float] = field(default_factory=dict)
    """When each kind of work was last begun."""


class Works:
    """The work of one operator."""

    def __init__(
        self,
        wake: Callable[[str], None],
        *,
        limit: float,
        retry: float,
        retry_cap: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``wake`` is called with the key when there is something new to write down."""
        self._wake = wake
        self._limit = limit
        self._retry = retry
        self._retry_cap = retry_cap
        self._clock = clock
        self._slots: dict[Place, _Slot] = {}

    def done(self, key: str) -> dict[str, Change]:
        """What is to be written down, by machine."""
        return {
            name: slot.change
            for (owner, name), slot in self._slots.items()
            if owner == key and slot.change is not None
        }

    def written(self, key: str, changes: dict[str, Change]) -> None:
        """These were."""
        for name, change in changes.items():
            slot = self._slots.get((key, name))
            if slot is not None and slot.change is change:
                slot.change = None

    def forget(self, key: str, names: set[str] | None = None) -> None:
        """Machines that are over; all of them without names, and what is under way is ended."""
        for place in [place for place in self._slots if place[0] == key]:
            slot = self._slots[place]
            if names is None and slot.task is not None:
                slot.task.cancel()
                del self._slots[place]
            elif slot.task is None and (names is None or place[1] in names):
                del self._slots[place]

    def begin(self, key: str, name: str, kind: str, work: Work, *, every: float = 0.0) -> float:
        """Begin a piece if none is under way; seconds until it is worth calling again.

        Without ``every`` it is wanted once, and again after failures, with growing waits; 0: there
        will be a call of ``wake``.
        """
        slot = self._slots.setdefault((key, name), _Slot())
        if slot.task is not None or slot.change is not None:
            return 0.0
        due = slot.not_before
        if every and kind in slot.last:
            due = max(due, slot.last[kind] + every)
        now = self._clock()
        if due > now:
            return due - now
        slot.last[kind] = now
        slot.task = asyncio.create_task(
            self._run((key, name), slot, kind, work), name=f"{kind} {key} {name}"
        )
        return 0.0

    def hurry(self, key: str, name: str, kind: str) -> None:
        """This kind is due though it was done lately."""
        slot = self._slots.get((key, name))
        if slot is not None:
            slot.last.pop(kind, None)

    def cancel(self, key: str, name: str) -> None:
        """This piece is of no use any more."""
        slot = self._slots.get((key, name))
        if slot is not None and slot.task is not None:
            slot.task.cancel()

    async def _run(self, place: Place, slot: _Slot, kind: str, work: Work) -> None:
        words = ""
        try:
            async with asyncio.timeout(self._limit):
                slot.change = await work()
            slot.tries, slot.not_before = 0, 0.0
        except CloudError as error:
            words = str(error)
            self._later(slot, error.retry_after)
        except Exception as error:  # the boundary of a worker: tried again, like a reconcile
            words = f"{type(error).__name__}: {error}"
            self._later(slot, None)
            logger.warning("work on machine %s: %s", place[1], words, exc_info=slot.tries == 1)
        finally:
            slot.task = None
        if words:
            slot.last.pop(kind, None)  # it was not done: the wait after failures counts
            slot.change = lambda entry: said(entry, words)
        self._wake(place[0])

    def _later(self, slot: _Slot, asked: float | None) -> None:
        wait = min(self._retry * 2**slot.tries, self._retry_cap)
        slot.tries += 1
        slot.not_before = self._clock() + max(wait, asked or 0.0)

    async def close(self) -> None:
        """Leave everything as it is; whoever comes next goes on."""
        tasks = [slot.task for slot in self._slots.values() if slot.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
