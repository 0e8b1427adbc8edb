"""A reader's place in the stream of events."""

from __future__ import annotations

import asyncio

from corral.cluster.apiserver.store.entries import Event


class Watch:
    """A subscription to one resource. ``drain`` hands over what has arrived since the last call."""

    def __init__(self, events: list[Event], limit: int) -> None:
        self._events = events
        self._limit = limit
        self._wake = asyncio.Event()
        self.overrun = False
        """Set when the reader was too slow; the watch has ended and misses events."""
        if events:
            self._wake.set()

    def offer(self, event: Event) -> bool:
        """Add an event; False when the reader is too slow and must be dropped."""
        if len(self._events) >= self._limit:
            self.overrun = True
            self._wake.set()
            return False
        self._events.append(event)
        self._wake.set()
        return True

    @property
    def idle(self) -> bool:
        """Nothing waits to be drained."""
        return not self._events

    def wake(self) -> None:
        self._wake.set()

    async def wait(self) -> None:
        """Return once there is something to drain or the watch is over."""
        await self._wake.wait()

    def drain(self) -> list[Event]:
        events, self._events = self._events, []
        if not self.overrun:
            self._wake.clear()
        return events
