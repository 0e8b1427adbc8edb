"""The state in memory: what is current, what is on its way to disk, what is remembered."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import time
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from corral.cluster.apiserver.store.entries import ADDED, DELETED, MODIFIED, Entry, Event
from corral.cluster.apiserver.store.failures import Compacted, Stale, TooLarge
from corral.cluster.apiserver.store.log import Log
from corral.cluster.apiserver.store.watches import Wakes, Watch, Watches
from corral.kube.types import Obj

log = logging.getLogger(__name__)

MARK_EVERY = 10.0
"""Seconds between the revisions whose time is noted."""
MAX_OBJECT = 3 * 2**20
"""Bytes of one object."""
_MISSING: Any = object()
_LAST = chr(0x10FFFF)
"""Comes after all that follows a prefix."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How much history is kept."""

    min_events: int = 2_000
    """Never fewer than this many, unless they are larger than ``most_bytes``."""
    max_events: int = 50_000
    max_bytes: int = 16 * 2**20
    """Bytes of the values in the history, where ``min_events`` allows."""
    most_bytes: int = 32 * 2**20
    """Bytes of the values in the history, however few events that leaves."""
    past_seconds: float = 300.0
    """How long a state can be listed after it was replaced, as with etcd's compaction."""


class _Table:
    """The committed state of one resource."""

    __slots__ = ("entries", "floor", "history", "keys", "watches")

    def __init__(self, floor: int) -> None:
        self.entries: dict[str, Entry] = {}
        self.keys: list[str] = []  # sorted; always the keys of ``entries``
        self.history: deque[Event] = deque()
        self.floor = floor  # every event with a greater revision is in ``history``
        self.watches = Watches()

    def put(self, entry: Entry) -> None:
        if entry.key not in self.entries:
            if self.keys and entry.key < self.keys[-1]:
                insort(self.keys, entry.key)
            else:
                self.keys.append(entry.key)
        self.entries[entry.key] = entry

    def remove(self, key: str) -> None:
        del self.entries[key]
        del self.keys[bisect_left(self.keys, key)]


@dataclass(slots=True)
class _Write:
    event: Event
    done: asyncio.Future[Entry]

    @property
    def where(self) -> tuple[str, str]:
        return self.event.entry.resource, self.event.entry.key


class Store:
    """All objects of one data folder. Use from one event loop only."""

    def __init__(
        self,
        path: Path,
        *,
        limits: Limits | None = None,
        watch_limit: int = 20_000,
        first: int = 1,
        clock: Callable[[], float] = time.monotonic,
        witness: Path | None = None,
    ) -> None:
        """``first`` is the revision a new store begins with; what is below was never there.

        ``witness`` is a file that there is only where the store has been in use.
        """
        self._log = Log(path, witness=witness)
        self._first = first
        self._limits = limits or Limits()
        self._watch_limit = watch_limit
        self._tables: dict[str, _Table] = {}
        self._history: deque[Event] = deque()
        self._history_bytes = 0
        self._clock = clock
        self._marks: deque[tuple[float, int]] = deque()  # when states below a revision were past
        self._past = 0  # states below this revision are no longer listed
        self._floor = 0
        self._garbage: list[int] = []  # revisions whose rows may be deleted
        self._head: dict[tuple[str, str], Entry | None] = {}  # written, not yet durable
        self._head_count: dict[tuple[str, str], int] = {}
        self._queue: list[_Write] = []
        self._committing: asyncio.Task[None] | None = None
        self._wakes = Wakes()
        self._listeners: list[Callable[[Event], None]] = []
        self._waiters: list[asyncio.Future[None]] = []  # for a revision to come
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="store")
        self.revision = 0
        """The revision of the newest durable write."""
        self._next = 1

    # -- life ------------------------------------------------------------------------------

    def open(self) -> None:
        """Take the folder, read everything. Raises StoreError with what to do about it."""
        self._log.open()
        try:
            self._load()
        except (sqlite3.Error, ValueError) as err:
            self._log.close()
            raise self._log.unreadable(err) from err

    def _load(self) -> None:
        meta = self._log.meta()
        self._floor = int(meta.get("floor", self._first - 1))
        self.revision = max(int(meta.get("revision", 0)), self._floor)
        for rv, resource, key, deleted, create_rv, value in self._log.rows():
            obj_meta = orjson.loads(value).get("metadata") or {}
            entry = Entry(resource, key, value, rv=rv, create_rv=create_rv, meta=obj_meta)
            table = self._table(resource)
            prev = table.entries.get(key)
            type_ = DELETED if deleted else (MODIFIED if prev else ADDED)
            if rv > self._floor:
                self._remember(table, Event(type_, entry, prev))
            if deleted:
                if prev is not None:
                    table.remove(key)
            else:
                table.put(entry)
            self.revision = max(self.revision, rv)
        self._trim()
        self._next = self.revision + 1

    async def close(self) -> None:
        """Finish the writes under way and release the folder."""
        while self._committing is not None:
            await asyncio.shield(self._committing)
        self._thread.shutdown()
        self._log.close()
        for table in self._tables.values():
            table.watches.end()

    # -- reading ---------------------------------------------------------------------------

    def _table(self, resource: str) -> _Table:
        table = self._tables.get(resource)
        if table is None:
            table = self._tables[resource] = _Table(self._floor)
        return table

    def resources(self) -> list[str]:
        """The resources that have (or had) objects."""
        return list(self._tables)

    def get(self, resource: str, key: str) -> Entry | None:
        """The durable version."""
        table = self._tables.get(resource)
        return table.entries.get(key) if table else None

    def head(self, resource: str, key: str) -> Entry | None:
        """The newest version, which may still be on its way to the disk; what writes build on."""
        pending = self._head.get((resource, key), _MISSING)
        return self.get(resource, key) if pending is _MISSING else pending

    async def reached(self, revision: int) -> None:
        """Return once a revision is durable."""
        while revision > self.revision:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter

    def pending(self, resource: str) -> list[Entry]:
        """Newest versions that are on their way to the disk."""
        return [e for (table, _), e in self._head.items() if table == resource and e is not None]

    def count(self, resource: str) -> int:
        table = self._tables.get(resource)
        return len(table.entries) if table else 0

    def scan(self, resource: str, prefix: str = "", after: str = "") -> Iterator[Entry]:
        """Durable entries in key order, with this prefix, after this key."""
        table = self._tables.get(resource)
        if table is None:
            return
        keys, entries = table.keys, table.entries
        if not prefix and not after:
            yield from [entries[key] for key in keys]
            return
        start = bisect_left(keys, max(prefix, after))
        end = bisect_left(keys, prefix + _LAST) if prefix else len(keys)
        yield from [entries[key] for key in keys[start:end] if key != after]

    def scan_at(self, resource: str, revision: int, prefix: str = "") -> list[Entry]:
        """Entries as they were at a past revision. Raises Compacted when that is forgotten."""
        table = self._table(resource)
        oldest = max(table.floor, self._oldest_listed())
        if revision < oldest:
            raise Compacted(revision, oldest)
        state: dict[str, Entry | None] = {}
        for event in reversed(table.history):
            if event.rv <= revision:
                break
            state[event.entry.key] = event.prev
        current = {key: table.entries[key] for key in table.keys}
        for key, entry in state.items():
            if entry is None:
                current.pop(key, None)
            else:
                current[key] = entry
        return [current[key] for key in sorted(current) if key.startswith(prefix)]

    def _oldest_listed(self) -> int:
        limit = self._clock() - self._limits.past_seconds
        while self._marks and self._marks[0][0] <= limit:
            self._past = self._marks.popleft()[1]
        return self._past

    # -- watching --------------------------------------------------------------------------

    def watch(self, resource: str, since: int, *, namespace: str = "", flow: str = "") -> Watch:
        """Every event after a revision, then those to come. Raises Compacted.

        Only of one namespace, where that is given. ``flow``: whose the watch is.
        """
        table = self._table(resource)
        if since < table.floor:
            raise Compacted(since, table.floor)
        replay: list[Event] = []
        for event in reversed(table.history):
            if event.rv <= since:
                break
            if not namespace or event.entry.namespace == namespace:
                replay.append(event)
        replay.reverse()
        limit = self._watch_limit + len(replay)
        watch = Watch(replay, limit, namespace=namespace, flow=flow)
        table.watches.add(watch)
        return watch

    def unwatch(self, resource: str, watch: Watch) -> None:
        self._table(resource).watches.discard(watch)

    def end_watches(self, resource: str) -> None:
        """End all watches of a resource (its definition went away or changed)."""
        self._table(resource).watches.end()

    def listen(self, listener: Callable[[Event], None]) -> None:
        """Call ``listener`` with every durable event of every resource; it must not block."""
        self._listeners.append(listener)

    # -- writing ---------------------------------------------------------------------------

    def write(
        self,
        resource: str,
        key: str,
        obj: Obj,
        *,
        expect: Entry | None,
        delete: bool = False,
        fields: Callable[[Obj], dict[str, str]] | None = None,
    ) -> asyncio.Future[Entry]:
        """Store ``obj`` (its last state, when ``delete``) if the head is still ``expect``.

        Sets ``metadata.resourceVersion`` in ``obj``. The future is done when the write is durable.
        ``fields`` are those that watchers will ask for. Raises Stale at once when somebody else was
        first, and TooLarge.
        """
        if self.head(resource, key) is not expect:
            raise Stale
        rv = self._next
        meta = obj["metadata"]
        meta["resourceVersion"] = str(rv)
        # A copy of its own: what the encoder returns keeps a buffer three times as large.
        value = bytes(memoryview(orjson.dumps(obj)))
        create_rv = expect.create_rv if expect else rv
        entry = Entry(resource, key, value, rv=rv, create_rv=create_rv, meta=meta)
        if fields is not None:
            entry.know(fields, obj)
        return self._write(entry, expect, delete=delete)

    def write_encoded(
        self,
        resource: str,
        key: str,
        encode: Callable[[int], bytes],
        meta: Obj,
        *,
        expect: Entry | None,
        delete: bool = False,
        fields: tuple[Callable[[Obj], dict[str, str]], dict[str, str]] | None = None,
    ) -> asyncio.Future[Entry]:
        """The same for an object that is bytes already: ``encode`` puts in its revision."""
        if self.head(resource, key) is not expect:
            raise Stale
        rv = self._next
        create_rv = expect.create_rv if expect else rv
        entry = Entry(resource, key, encode(rv), rv=rv, create_rv=create_rv, meta=meta)
        entry.known = fields
        return self._write(entry, expect, delete=delete)

    def _write(self, entry: Entry, expect: Entry | None, *, delete: bool) -> asyncio.Future[Entry]:
        if len(entry.value) > MAX_OBJECT:
            raise TooLarge
        self._next = entry.rv + 1
        where = (entry.resource, entry.key)
        type_ = DELETED if delete else (MODIFIED if expect else ADDED)
        self._head[where] = None if delete else entry
        self._head_count[where] = self._head_count.get(where, 0) + 1
        done: asyncio.Future[Entry] = asyncio.get_running_loop().create_future()
        self._queue.append(_Write(Event(type_, entry, expect), done))
        if self._committing is None:
            self._committing = asyncio.create_task(self._commit_all())
        return done

    async def _commit_all(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._queue:
                batch, self._queue = self._queue, []
                garbage, self._garbage = self._garbage, []
                try:
                    await loop.run_in_executor(self._thread, self._commit, batch, garbage)
                except Exception as err:
                    self._fail(batch, err)
                    self._garbage = garbage + self._garbage
                else:
                    self._publish(batch)
        finally:
            self._committing = None

    def _commit(self, batch: Iterable[_Write], garbage: list[int]) -> None:
        """In the store's thread."""
        meta = {"floor": self._floor, "revision": self.revision}
        self._log.commit([write.event for write in batch], garbage, meta)

    def _fail(self, batch: list[_Write], err: Exception) -> None:
        """Nothing of the batch is stored, so nothing that was built on it can be either."""
        lost = {write.where for write in batch}
        failed = [*batch, *(write for write in self._queue if write.where in lost)]
        self._queue = [write for write in self._queue if write.where not in lost]
        for where in lost:
            del self._head[where], self._head_count[where]
        for write in failed:
            if not write.done.done():
                write.done.set_exception(self._log.refused(err))

    def _publish(self, batch: Iterable[_Write]) -> None:
        for write in batch:
            event = write.event
            entry = event.entry
            table = self._table(entry.resource)
            if event.type == DELETED:
                table.remove(entry.key)
            else:
                table.put(entry)
            self.revision = entry.rv
            where = (entry.resource, entry.key)
            left = self._head_count[where] - 1
            if left:
                self._head_count[where] = left
            else:
                del self._head_count[where], self._head[where]
            self._remember(table, event)
            table.watches.offer(event, self._wakes)
            self._tell(event)
        for write in batch:
            if not write.done.done():
                write.done.set_result(write.event.entry)
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._trim()

    def _tell(self, event: Event) -> None:
        """A listener that fails must not keep the rest of a durable batch from being seen."""
        for listener in self._listeners:
            try:
                listener(event)
            except Exception:
                entry = event.entry
                log.exception("a listener failed on %s %s", entry.resource, entry.key)

    # -- history ---------------------------------------------------------------------------

    def _remember(self, table: _Table, event: Event) -> None:
        table.history.append(event)
        self._history.append(event)
        self._history_bytes += _cost(event)
        now = self._clock()
        if not self._marks or now - self._marks[-1][0] >= MARK_EVERY:
            self._marks.append((now, event.rv))

    def _trim(self) -> None:
        limits = self._limits
        history = self._history
        while (
            len(history) > limits.max_events
            or (self._history_bytes > limits.max_bytes and len(history) > limits.min_events)
            or (self._history_bytes > limits.most_bytes and len(history) > 1)
        ):
            event = history.popleft()
            table = self._tables[event.entry.resource]
            table.history.popleft()
            table.floor = self._floor = event.rv
            self._history_bytes -= _cost(event)
            if event.prev is not None:
                self._garbage.append(event.prev.rv)
            if event.type == DELETED:
                self._garbage.append(event.rv)


def _cost(event: Event) -> int:
    """What keeping an event costs: its own objects, and the version it replaced or took away."""
    kept = event.entry if event.type == DELETED else event.prev
    return 700 + (len(kept.value) if kept else 0)
