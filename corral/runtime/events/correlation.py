"""Keeps events from flooding the API server: a spam filter, aggregation, and counting. No I/O.

As in client-go: an event goes through aggregation (many similar ones become one that says so),
then through counting (the same one again becomes a higher count of the first), then through a
filter that bounds how much one source may say about one object.
"""

from __future__ import annotations

import time
import uuid
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

from corral.kube.types import Obj
from corral.runtime.keys import format_time
from corral.runtime.queues.limiters import BucketLimiter

__all__ = ["Correlated", "CorrelationSettings", "EventCorrelator", "event_name", "make_event"]

V = TypeVar("V")
Key = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CorrelationSettings:
    """How much may be said."""

    burst: int = 25
    """Events about one object at once."""
    refill_seconds: float = 300.0
    """One more after each of these."""
    max_similar: int = 10
    """Messages with the same reason about one object, before they are combined."""
    similar_seconds: float = 600.0
    """Similar events further apart than this are not combined."""
    remembered: int = 4096
    """Entries of each memory; the least recently used go first."""


class Correlated(NamedTuple):
    """What is to be written: a new event, or a patch of a known one."""

    event: Obj
    patch: Obj | None


@dataclass(slots=True)
class _Similar:
    last: float
    messages: set[str] = field(default_factory=set)


@dataclass(slots=True)
class _Counted:
    name: str
    first: str
    count: int = 1


class _Memory(Generic[V]):
    """A dict that forgets what was not used for longest."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._items: OrderedDict[Key, V] = OrderedDict()

    def get(self, key: Key) -> V | None:
        if key not in self._items:
            return None
        self._items.move_to_end(key)
        return self._items[key]

    def put(self, key: Key, value: V) -> None:
        self._items[key] = value
        if len(self._items) > self._size:
            self._items.popitem(last=False)


class EventCorrelator:
    """The memory of one source of events."""

    def __init__(
        self,
        settings: CorrelationSettings | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings or CorrelationSettings()
        self._clock = clock
        self._similar: _Memory[_Similar] = _Memory(self._settings.remembered)
        self._counts: _Memory[_Counted] = _Memory(self._settings.remembered)
        self._buckets: _Memory[BucketLimiter] = _Memory(self._settings.remembered)

    def correlate(self, event: Obj) -> Correlated | None:
        """What to write for this event; ``None`` if nothing."""
        event, key = self._aggregate(event)
        correlated = self._count(event, key)
        # The filter comes last: what it holds back is counted all the same.
        return correlated if self._may_speak(event) else None

    def _aggregate(self, event: Obj) -> tuple[Obj, Key]:
        now = self._clock()
        key = (*_about(event), event["type"], event["reason"])
        similar = self._similar.get(key)
        if similar is None or now - similar.last > self._settings.similar_seconds:
            similar = _Similar(now)
        similar.messages.add(event["message"])
        similar.last = now
        self._similar.put(key, similar)
        if len(similar.messages) < self._settings.max_similar:
            # the parts of one object (a pod's containers) are spoken of in the same words
            part = event["involvedObject"].get("fieldPath", "")
            return event, (*key, part, event["message"])
        similar.messages.pop()
        message = f"(combined from similar events): {event['message']}"
        return {**event, "message": message}, key

    def _count(self, event: Obj, key: Key) -> Correlated:
        known = self._counts.get(key)
        if known is None:
            known = _Counted(event["metadata"]["name"], event["firstTimestamp"])
            self._counts.put(key, known)
            return Correlated(event, None)
        known.count += 1
        patch = {
            "count": known.count,
            "lastTimestamp": event["lastTimestamp"],
            "message": event["message"],
        }
        metadata = {**event["metadata"], "name": known.name}
        event = {**event, **patch, "metadata": metadata, "firstTimestamp": known.first}
        return Correlated(event, patch)

    def _may_speak(self, event: Obj) -> bool:
        key = (*_about(event), event["type"])
        bucket = self._buckets.get(key)
        if bucket is None:
            rate = 1 / self._settings.refill_seconds
            bucket = BucketLimiter(rate, self._settings.burst, clock=self._clock)
            self._buckets.put(key, bucket)
        return bucket.try_take()


def _about(event: Obj) -> Key:
    """Who speaks about what."""
    source, involved = event["source"], event["involvedObject"]
    return (
        source.get("component", ""),
        source.get("host", ""),
        *(involved.get(f, "") for f in ("kind", "namespace", "name", "uid", "apiVersion")),
    )


def event_name(involved: str, nanoseconds: int) -> str:
    """A name for an event about an object: the object's with a time, or a UUID if too long."""
    name = f"{involved}.{nanoseconds:x}"
    return name if len(name) <= 253 else str(uuid.uuid4())


def make_event(
    obj: Obj,
    *,
    type: str,
    reason: str,
    message: str,
    component: str,
    host: str,
    nanoseconds: int,
    field_path: str = "",
) -> Obj:
    """A ``v1`` Event about an object; its time must differ from that of every other event."""
    metadata = obj["metadata"]
    namespace = metadata.get("namespace") or ""
    involved = {
        "apiVersion": obj.get("apiVersion", ""),
        "kind": obj.get("kind", ""),
        "name": metadata["name"],
        "namespace": namespace,
        "uid": metadata.get("uid", ""),
        "resourceVersion": metadata.get("resourceVersion", ""),
        "fieldPath": field_path,
    }
    stamp = format_time(nanoseconds // 10**9)
    source = {"component": component, "host": host}
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": event_name(metadata["name"], nanoseconds),
            "namespace": namespace or "default",
        },
        "involvedObject": {field: value for field, value in involved.items() if value},
        "type": type,
        "reason": reason,
        "message": message,
        "source": {field: value for field, value in source.items() if value},
        "reportingComponent": component,
        "reportingInstance": host,
        "firstTimestamp": stamp,
        "lastTimestamp": stamp,
        "count": 1,
    }
