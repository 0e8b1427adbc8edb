"""Readers' places in the stream of events, and when each is woken."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator

from corral.cluster.apiserver.paced import Paced
from corral.cluster.apiserver.store.entries import Event

WAKES = 4
"""Readers that are woken between two looks of the event loop at its sockets."""


class Watch:
    """A subscription to one resource. ``drain`` hands over what has arrived since the last call."""

    __slots__ = ("_events", "_limit", "_wake", "flow", "namespace", "overrun", "queued")

    def __init__(
        self, events: list[Event], limit: int, *, namespace: str = "", flow: str = ""
    ) -> None:
        self._events = events
        self._limit = limit
        self._wake = asyncio.Event()
        self.namespace = namespace
        """Whose events are wanted; empty: those of all."""
        self.flow = flow
        """Whose the watch is."""
        self.queued = False
        """It waits for its turn to be woken."""
        self.overrun = False
        """Set when the reader was too slow; the watch has ended and misses events."""
        if events:
            self._wake.set()

    def offer(self, event: Event) -> bool:
        """Add an event; False when the reader is too slow and must be dropped.

        Its reader is woken by ``Wakes``.
        """
        if len(self._events) >= self._limit:
            self.end()
            return False
        self._events.append(event)
        return True

    @property
    def idle(self) -> bool:
        """Nothing waits to be drained."""
        return not self._events

    def wake(self) -> None:
        self.queued = False
        self._wake.set()

    def end(self) -> None:
        """Nothing more comes."""
        self.overrun = True
        self._wake.set()

    async def wait(self) -> None:
        """Return once there is something to drain or the watch is over."""
        await self._wake.wait()

    def drain(self) -> list[Event]:
        events, self._events = self._events, []
        if not self.overrun:
            self._wake.clear()
        return events


class Watches:
    """The watches of one resource, by namespace."""

    __slots__ = ("_by_namespace",)

    def __init__(self) -> None:
        self._by_namespace: dict[str, set[Watch]] = {}

    def __iter__(self) -> Iterator[Watch]:
        for found in self._by_namespace.values():
            yield from found

    def add(self, watch: Watch) -> None:
        self._by_namespace.setdefault(watch.namespace, set()).add(watch)

    def discard(self, watch: Watch) -> None:
        found = self._by_namespace.get(watch.namespace)
        if found is not None:
            found.discard(watch)
            if not found:
                del self._by_namespace[watch.namespace]

    def offer(self, event: Event, wakes: Wakes) -> None:
        """Give an event to those who want it; those who are too slow are dropped."""
        namespace = event.entry.namespace
        for wanted in ("", namespace) if namespace else ("",):
            slow = [w for w in self._by_namespace.get(wanted, ()) if not w.offer(event)]
            for watch in slow:
                self.discard(watch)
            wakes.add(self._by_namespace.get(wanted, ()))

    def end(self) -> None:
        """End them all."""
        for watch in self:
            watch.end()
        self._by_namespace.clear()


class Wakes:
    """Wakes readers: a few in one turn of the event loop, the flows one after the other.

    However many watches a tenant has, other requests come in between; and who is woken late finds
    all events that have come meanwhile, and writes them at once.
    """

    def __init__(self) -> None:
        self._paced = Paced(WAKES)

    def add(self, watches: Iterable[Watch]) -> None:
        """Wake them when it is their turn."""
        for watch in watches:
            if not watch.queued:
                watch.queued = True
                self._paced.call(watch.flow, watch.wake)
