"""The pods that want a node, and whose turn it is.

A pod is in one place at a time: *gated* (its scheduling gates are not lifted), *active* (ready to
be tried), *backing off* (tried in vain not long ago), *waiting* (for an event that may help) or
*in flight* (being tried). Higher priority goes first, then the older pod. Events that happen while
a pod is in flight are remembered and judged when it comes back, so that none is missed.

Of waiting pods that are alike (see ``alike``) an event wakes the first; ``follow`` wakes the next.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable
from dataclasses import dataclass
from enum import Enum

from corral.cluster.scheduler.placement.alike import Alike, signature
from corral.cluster.scheduler.placement.events import ClusterEvent, PodEvent
from corral.cluster.scheduler.placement.gangs.groups import GroupKey
from corral.cluster.scheduler.placement.hints import heeding, worth_retrying
from corral.cluster.scheduler.placement.pods import PodInfo, pod_key
from corral.cluster.scheduler.placement.state import ClusterState
from corral.kube.types import Obj

__all__ = ["BackoffPolicy", "SchedulingQueue", "gate_message", "queue_order"]


_MANY = 20
"""Pods that wait alike, from which on telling them all the same is work."""


def gate_message(pod: PodInfo) -> str:
    """Why a gated pod is not tried; empty if it has no gates."""
    return f"waiting for scheduling gates: [{' '.join(pod.gates)}]" if pod.gates else ""


def queue_order(pod: PodInfo) -> tuple[int, str, str]:
    """Sorts pods by whose turn it is: priority, then age, then name to be definite."""
    return (-pod.priority, pod.created, pod.full_name)


@dataclass(frozen=True, slots=True)
class BackoffPolicy:
    """How long pods that were tried in vain stay back."""

    initial: float = 1.0
    """Seconds after the first failure; doubles with every further one."""
    maximum: float = 10.0
    """Seconds at most."""
    waiting: float = 300.0
    """Seconds after which a waiting pod is tried again even without an event."""
    telling: float = 30.0
    """Seconds between two times that pods which wait alike are told of another's reason."""

    def seconds(self, failures: int) -> float:
        if failures <= 0:
            return 0.0
        return min(self.initial * (1 << min(failures - 1, 30)), self.maximum)


class _Place(Enum):
    GATED = "gated"
    ACTIVE = "active"
    BACKOFF = "backing off"
    ERROR = "backing off after an error"
    WAITING = "waiting"
    IN_FLIGHT = "in flight"


@dataclass(slots=True)
class _Entry:
    pod: PodInfo
    place: _Place
    failures: int = 0
    plugins: frozenset[str] = frozenset()
    """The rules that rejected it."""
    signature: Hashable | None = None
    """Of those that it waits, or waited, among."""
    since: float = 0.0
    """When it was put where it is."""
    ready: float = 0.0
    """When its backoff ends."""
    seen: int = 0
    """In flight: how many events had happened when it was taken."""
    ticket: int = 0
    """Changes with every move, which makes older places in the heaps invalid."""


_Item = tuple[tuple[object, ...], int, str]
_HEAPS = (_Place.ACTIVE, _Place.BACKOFF, _Place.ERROR)


class SchedulingQueue:
    """See the module. ``clock`` gives seconds that only ever grow."""

    def __init__(
        self,
        state: ClusterState,
        clock: Callable[[], float],
        *,
        backoff: BackoffPolicy | None = None,
    ) -> None:
        self._state = state
        self._clock = clock
        self._policy = backoff or BackoffPolicy()
        self._entries: dict[str, _Entry] = {}
        self._places: dict[_Place, dict[str, _Entry]] = {place: {} for place in _Place}
        """The same entries by place, each in the order in which they came there."""
        self._heaps: dict[_Place, list[_Item]] = {place: [] for place in _HEAPS}
        self._groups: dict[GroupKey, dict[str, _Entry]] = {}
        """The same entries by PodGroup."""
        self._alike: dict[Hashable, Alike] = {}
        """Waiting pods by signature; those without one are in ``_alone``."""
        self._alone: dict[str, _Entry] = {}
        self._heeded: Counter[str] = Counter()
        """How many of both each rule rejected; under "" those that any event may help."""
        self._tickets = 0
        self._events: list[ClusterEvent] = []
        """Since the oldest pod in flight was taken, the first of them being number ``_first``."""
        self._first = 0

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, pod: Obj | PodInfo) -> bool:
        return _key(pod) in self._entries

    @property
    def listening(self) -> bool:
        """Whether there is a pod that an event may matter to."""
        return bool(self._places[_Place.WAITING] or self._places[_Place.IN_FLIGHT])

    def set(self, pod: Obj | PodInfo) -> str:
        """Add a pod, or take over its new version; why it is not tried now, if it is gated."""
        info = self._state.info(pod)
        entry = self._entries.get(info.key)
        if entry is None:
            place = _Place.GATED if info.gates else _Place.ACTIVE
            self._entries[info.key] = entry = _Entry(info, place)
            self._join(entry)
            self._move(entry, place)
        elif entry.pod is not info:
            self._replace(entry, info)
        return gate_message(info)

    def remove(self, pod: Obj | PodInfo) -> None:
        """Forget a pod: it was placed, or is gone."""
        entry = self._entries.pop(_key(pod), None)
        if entry is not None:
            self._leave(entry)
            self._stop_waiting(entry)
            del self._places[entry.place][entry.pod.key]
            self._trim()
            self._wake_next(entry)

    def pop(self) -> PodInfo | None:
        """Take the pod whose turn it is; None if there is none.

        When nothing else is ready, pods that back off do not have to wait to the end: the one
        whose time comes first is taken. Not so after an error, which would come again at once.
        """
        self._flush()
        for place in (_Place.ACTIVE, _Place.BACKOFF):
            entry = self._peek(place)
            if entry is not None:
                heapq.heappop(self._heaps[place])
                self._take(entry)
                return entry.pod
        return None

    def pop_group(self, group: GroupKey) -> list[PodInfo]:
        """Take every member of a group that is not gated or taken already, in order."""
        taken = [
            entry
            for entry in self._groups.get(group, {}).values()
            if entry.place not in (_Place.GATED, _Place.IN_FLIGHT)
        ]
        for entry in taken:
            self._take(entry)
        return sorted((entry.pod for entry in taken), key=queue_order)

    def activate(self, pod: Obj | PodInfo) -> None:
        """Let a pod that waits or backs off be tried now; any other stays where it is."""
        entry = self._entries.get(_key(pod))
        if entry is not None and entry.place in (_Place.WAITING, _Place.BACKOFF, _Place.ERROR):
            self._move(entry, _Place.ACTIVE)

    def park(self, pod: PodInfo, plugins: Collection[str]) -> None:
        """Put a pod back that no node would take, to wait for an event that these rules heed."""
        entry = self._places[_Place.IN_FLIGHT].get(pod.key)
        if entry is None:
            return
        missed = self._events[entry.seen - self._first :]
        entry.plugins = frozenset(plugins)
        # With anti-affinity around, pods of different labels are not alike.
        alone = self._state.anti_affinity_pods or self._state.nomination(entry.pod)
        entry.signature = None if alone else signature(entry.pod)
        self._failed(entry, _Place.WAITING)
        self._wake(entry, missed)

    def follow(self, pod: PodInfo) -> None:
        """A pod has found a place: let the next that is like it be tried."""
        entry = self._entries.get(pod.key)
        if entry is not None:
            self._wake_next(entry)

    def waiting_like(self, pod: PodInfo) -> list[PodInfo]:
        """The other pods that wait for the same as this one, to be told the same.

        Where they are many, not more often than ``BackoffPolicy.telling`` says: in between, nobody.
        """
        entry = self._entries.get(pod.key)
        alike = self._alike.get(entry.signature) if entry is not None else None
        if alike is None:
            return []
        if len(alike.members) > _MANY:
            if alike.told_until > self._clock():
                return []
            alike.told_until = self._clock() + self._policy.telling
        return [other for other in alike.members.values() if other.key != pod.key]

    def retry(self, pod: PodInfo) -> None:
        """Put a pod back after an error that has nothing to do with the nodes."""
        entry = self._places[_Place.IN_FLIGHT].get(pod.key)
        if entry is not None:
            self._failed(entry, _Place.ERROR)

    def notify(self, event: ClusterEvent) -> int:
        """Tell of something that happened, after the state was told; how many it woke."""
        if self._places[_Place.IN_FLIGHT]:
            self._events.append(event)
        if not self._heeded[""] and self._heeded.keys().isdisjoint(heeding(event)):
            return 0
        woken = sum(self._wake(entry, (event,)) for entry in list(self._alone.values()))
        for alike in list(self._alike.values()):
            keys = alike if self._state.anti_affinity_pods else (alike.first(),)
            woken += sum(self._wake(self._entries[key], (event,)) for key in keys)
        return woken

    def next_ready(self) -> float | None:
        """The seconds until ``pop`` has something by the passing of time alone; None: never."""
        if self._places[_Place.ACTIVE] or self._places[_Place.BACKOFF]:
            return 0.0
        times = []
        for entry in self._places[_Place.WAITING].values():
            times.append(entry.since + self._policy.waiting)
            break
        if failed := self._peek(_Place.ERROR):
            times.append(failed.ready)
        return max(min(times) - self._clock(), 0.0) if times else None

    def _replace(self, entry: _Entry, info: PodInfo) -> None:
        self._leave(entry)
        waiting = entry.place is _Place.WAITING
        if waiting:
            self._stop_waiting(entry)
        old, entry.pod = entry.pod, info
        self._join(entry)
        if waiting:
            alone = entry.signature is None or self._state.anti_affinity_pods
            entry.signature = None if alone else signature(info)
            self._wait(entry)
        if entry.place is _Place.GATED:
            if not info.gates:
                self._move(entry, _Place.ACTIVE)
        elif entry.place is _Place.WAITING:
            self._wake(entry, (PodEvent.of(old, info),))
        elif entry.place is _Place.IN_FLIGHT:
            self._events.append(PodEvent.of(old, info))
        elif queue_order(old) != queue_order(info):
            self._move(entry, entry.place)

    def _wake(self, entry: _Entry, events: Iterable[ClusterEvent]) -> bool:
        """Make a waiting pod active (or let it back off) if one of the events may help it."""
        alike = self._alike.get(entry.signature) if entry.signature is not None else None
        plugins = entry.plugins if alike is None else alike.plugins
        if not any(worth_retrying(self._state, entry.pod, plugins, event) for event in events):
            return False
        self._start(entry)
        return True

    def _flush(self) -> None:
        """Make those active whose time has come."""
        now = self._clock()
        for place in (_Place.BACKOFF, _Place.ERROR):
            while (entry := self._peek(place)) is not None and entry.ready <= now:
                self._move(entry, _Place.ACTIVE)
        overdue = []
        for entry in self._places[_Place.WAITING].values():
            if entry.since > now - self._policy.waiting:
                break
            overdue.append(entry)
        for entry in overdue:
            self._move(entry, _Place.ACTIVE)

    def _peek(self, place: _Place) -> _Entry | None:
        """The first in a heap, after dropping what has moved on since."""
        heap = self._heaps[place]
        while heap:
            _, ticket, key = heap[0]
            entry = self._entries.get(key)
            if entry is not None and entry.ticket == ticket:
                return entry
            heapq.heappop(heap)
        return None

    def _join(self, entry: _Entry) -> None:
        if entry.pod.group is not None:
            self._groups.setdefault(entry.pod.group, {})[entry.pod.key] = entry

    def _leave(self, entry: _Entry) -> None:
        if (group := entry.pod.group) is not None:
            del self._groups[group][entry.pod.key]
            if not self._groups[group]:
                del self._groups[group]

    def _wait(self, entry: _Entry) -> None:
        """Note what an entry waits for that has just come to wait."""
        if entry.signature is None:
            self._alone[entry.pod.key] = entry
            self._heed(entry.plugins, 1)
            return
        alike = self._alike.get(entry.signature)
        if alike is None:
            alike = self._alike[entry.signature] = Alike()
        else:
            self._heed(alike.plugins, -1)
        # What rejected this one would reject the others now.
        alike.plugins = entry.plugins
        self._heed(alike.plugins, 1)
        alike.add(entry.pod, queue_order(entry.pod))

    def _stop_waiting(self, entry: _Entry) -> None:
        if entry.place is not _Place.WAITING:
            return
        if entry.signature is None:
            del self._alone[entry.pod.key]
            self._heed(entry.plugins, -1)
            return
        alike = self._alike[entry.signature]
        entry.plugins = alike.plugins
        alike.discard(entry.pod.key)
        if not alike.members:
            del self._alike[entry.signature]
            self._heed(alike.plugins, -1)

    def _heed(self, plugins: frozenset[str], sign: int) -> None:
        for plugin in plugins or ("",):
            self._heeded[plugin] += sign
            if not self._heeded[plugin]:
                del self._heeded[plugin]

    def _wake_next(self, entry: _Entry) -> None:
        """Let the first that is like this entry, which waits no more, be tried."""
        alike = self._alike.get(entry.signature) if entry.signature is not None else None
        if alike is not None and entry.place is not _Place.WAITING:
            self._start(self._entries[alike.first()])
        entry.signature = None

    def _start(self, entry: _Entry) -> None:
        self._move(entry, _Place.BACKOFF if entry.ready > self._clock() else _Place.ACTIVE)

    def _move(self, entry: _Entry, place: _Place) -> None:
        key, order = entry.pod.key, queue_order(entry.pod)
        self._tickets += 1
        self._stop_waiting(entry)
        self._places[entry.place].pop(key, None)
        self._places[place][key] = entry
        entry.place, entry.ticket, entry.since = place, self._tickets, self._clock()
        if place is _Place.WAITING:
            self._wait(entry)
        if place is _Place.ACTIVE:
            heapq.heappush(self._heaps[place], (order, entry.ticket, key))
        elif place is _Place.BACKOFF:
            # Those whose time comes in the same second go by their order, not by the moment.
            ready = int(entry.ready)
            heapq.heappush(self._heaps[place], ((ready, *order), entry.ticket, key))
        elif place is _Place.ERROR:
            heapq.heappush(self._heaps[place], ((entry.ready, *order), entry.ticket, key))

    def _take(self, entry: _Entry) -> None:
        self._move(entry, _Place.IN_FLIGHT)
        entry.seen = self._first + len(self._events)

    def _failed(self, entry: _Entry, place: _Place) -> None:
        entry.failures += 1
        entry.ready = self._clock() + self._policy.seconds(entry.failures)
        self._move(entry, place)
        self._trim()

    def _trim(self) -> None:
        """Drop the events that no pod in flight has to hear of."""
        oldest = next(iter(self._places[_Place.IN_FLIGHT].values()), None)
        keep = oldest.seen if oldest is not None else self._first + len(self._events)
        del self._events[: keep - self._first]
        self._first = keep


def _key(pod: Obj | PodInfo) -> str:
    return pod.key if isinstance(pod, PodInfo) else pod_key(pod)
