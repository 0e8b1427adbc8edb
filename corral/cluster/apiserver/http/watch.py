"""Watch streams: replay, live events, bookmarks, selector transitions, time-outs."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import orjson
from aiohttp import web

from corral.cluster.apiserver.crud.core import Registry
from corral.cluster.apiserver.crud.kind import Kind
from corral.cluster.apiserver.crud.read import (
    ListOptions,
    Reader,
    is_revision,
    matcher,
    matching,
    no_revision,
)
from corral.cluster.apiserver.fairness.dispatch import Seat
from corral.cluster.apiserver.http.render import Renderer, in_pieces
from corral.cluster.apiserver.store import (
    ADDED,
    DELETED,
    MODIFIED,
    Compacted,
    Entry,
    Event,
    Store,
    Watch,
)
from corral.kube import errors

BOOKMARK_EVERY = 60.0
MIN_TIMEOUT = 1800
"""Seconds a watch without timeoutSeconds lasts at least; at most twice that."""
COALESCE = 0.004
"""Seconds between two writes of one watch while events pour in: fewer, larger writes."""
SHARED_BATCHES = 16
_SHARED: dict[tuple[object, ...], bytes] = {}
"""Rendered batches of the last moments, by filter and first and last revision."""


class _Clock:
    """When a watch ends and when its next bookmark is due; wakes the watch for both."""

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: float, watch: Watch) -> None:
        self._loop = loop
        self._watch = watch
        self._end = loop.time() + seconds
        self._due = False
        self._timer = self._next()

    @property
    def over(self) -> bool:
        return self._loop.time() >= self._end

    def due(self) -> bool:
        """True once for every tick."""
        due, self._due = self._due, False
        return due

    def _next(self) -> asyncio.TimerHandle:
        return self._loop.call_at(min(self._loop.time() + BOOKMARK_EVERY, self._end), self._tick)

    def _tick(self) -> None:
        self._due = True
        self._watch.wake()
        if not self.over:
            self._timer = self._next()

    def stop(self) -> None:
        self._timer.cancel()


class Stream:
    """One watch of one client."""

    def __init__(
        self,
        registry: Registry,
        kind: Kind,
        namespace: str,
        *,
        name: str,
        options: ListOptions,
        renderer: Renderer,
        flow: str = "",
    ) -> None:
        self._flow = flow
        self._registry = registry
        self._store: Store = registry.store
        self._kind = kind
        self._namespace = namespace
        self._options = options
        self._renderer = renderer
        self._matches = matcher(kind, options, name)
        self._seen = 0
        self._from = 0  # events up to here are not wanted; set only for a version of the future
        self._error: errors.ApiError | None = None
        self._share: tuple[object, ...] = ()
        if renderer.plain:
            where = (id(self._store), kind.info.api_version, kind.info.table, namespace, name)
            self._share = (*where, *options.selectors)

    async def open(self) -> tuple[list[Entry], Watch]:
        """The initial entries and the subscription.

        A version that is forgotten, or does not come, is an event of the watch and no refusal.
        """
        options, reader = self._options, Reader(self._registry)
        since = _revision(options.version)
        initial: list[Entry] = []
        wants_state = options.initial_events or (
            options.initial_events is None and options.version in ("", "0")
        )
        try:
            if wants_state:
                await reader.wait_for(since)
                prefix = f"{self._namespace}/" if self._namespace else ""
                initial = list(self._store.scan(self._kind.info.table, prefix))
                since = self._store.revision
            elif options.version in ("", "0"):
                since = self._store.revision
            watch = self._store.watch(
                self._kind.info.table, since, namespace=self._namespace, flow=self._flow
            )
        except Compacted as err:
            message = f"too old resource version: {err.asked} ({err.oldest})"
            return self._over(errors.Gone(message))
        except errors.Timeout as err:
            return self._over(err)
        if since > self._store.revision:
            self._from, self._share = since, ()
        self._seen = since
        try:
            return await matching(initial, self._matches), watch
        except BaseException:
            self._store.unwatch(self._kind.info.table, watch)
            raise

    def _over(self, error: errors.ApiError) -> tuple[list[Entry], Watch]:
        """A watch that has ended before it began."""
        self._error = error
        watch = Watch([], 0)
        watch.overrun = True
        return [], watch

    async def start(
        self, response: web.StreamResponse, initial: list[Entry], seat: Seat | None
    ) -> None:
        """Write what is there already."""
        if self._error is not None:
            body = orjson.dumps(self._error.status)
            await response.write(b'{"type":"ERROR","object":%b}\n' % body)
            return
        await self._kind.prefetch(initial)
        await self._write_initial(response, initial, seat)

    async def run(self, response: web.StreamResponse, watch: Watch) -> None:
        """Write until the time is over, the client goes, or the watch is dropped."""
        if self._error is not None:
            return
        loop = asyncio.get_running_loop()
        seconds = self._options.timeout or MIN_TIMEOUT * (1 + random.random())
        clock = _Clock(loop, seconds, watch)
        last = 0.0
        try:
            while not (clock.over or watch.overrun):
                await watch.wait()
                pause = last + COALESCE - loop.time()
                if pause > 0 and not clock.over:
                    await asyncio.sleep(pause)
                events = watch.drain()
                await self._kind.prefetch_events(events)
                data = self._lines(events)
                if data:
                    await response.write(data)
                    last = loop.time()
                elif self._options.bookmarks and clock.due() and watch.idle:
                    self._seen = self._store.revision  # all of it was offered, and drained
                    await response.write(self._bookmark())
        finally:
            clock.stop()

    async def _write_initial(
        self, response: web.StreamResponse, initial: list[Entry], seat: Seat | None
    ) -> None:
        for piece in in_pieces(initial):
            parts = [self._line(ADDED, e) for e in piece]
            writing = response.write(b"".join(parts))
            await (writing if seat is None else seat.pause(writing))
        if self._options.initial_events and self._options.bookmarks:
            await response.write(self._bookmark(end=True))

    def _line(self, type_: str, entry: Entry) -> bytes:
        return b'{"type":"%b","object":%b}\n' % (type_.encode(), self._renderer.one(entry))

    def _lines(self, events: list[Event]) -> bytes:
        """A batch as bytes; watchers with the same filter that drain the same batch share it."""
        if not events:
            return b""
        self._seen = events[-1].rv
        key = (*self._share, events[0].rv, self._seen)
        data = _SHARED.get(key) if self._share else None
        if data is None:
            data = self._render(events)
            if self._share:
                if len(_SHARED) >= SHARED_BATCHES:
                    del _SHARED[next(iter(_SHARED))]
                _SHARED[key] = data
        return data

    def _render(self, events: list[Event]) -> bytes:
        parts: list[bytes] = []
        one = self._renderer.one
        matches = self._matches
        for event in events:
            entry = event.entry
            if event.rv <= self._from:
                continue
            type_ = event.type if matches is None else transition(event, matches)
            if type_ == DELETED and event.type != DELETED:
                entry = _last_matching(event)
            if type_:
                parts += (_HEADS[type_], one(entry), _TAIL)
        return b"".join(parts)

    def _bookmark(self, *, end: bool = False) -> bytes:
        info = self._kind.info
        meta: dict[str, object] = {"resourceVersion": str(self._seen)}
        if end:
            meta["annotations"] = {"k8s.io/initial-events-end": "true"}
        obj = self._renderer.bookmark(
            {"kind": info.kind, "apiVersion": info.api_version, "metadata": meta}
        )
        return b'{"type":"BOOKMARK","object":%b}\n' % orjson.dumps(obj)


_HEADS = {t: b'{"type":"%b","object":' % t.encode() for t in (ADDED, MODIFIED, DELETED)}
_TAIL = b"}\n"


def transition(event: Event, matches: Callable[[Entry], bool]) -> str:
    """What an event is to a watcher with a selector; empty when it is nothing."""
    before = event.prev is not None and matches(event.prev)
    if event.type == DELETED:
        return DELETED if before or (event.prev is None and matches(event.entry)) else ""
    after = matches(event.entry)
    if after:
        return MODIFIED if before else ADDED
    return DELETED if before else ""


def _last_matching(event: Event) -> Entry:
    """What a selector loses is shown as it was, with the version of the change."""
    entry, before = event.entry, event.prev
    assert before is not None
    obj = before.decode()
    obj["metadata"]["resourceVersion"] = str(event.rv)
    return Entry(
        entry.resource,
        entry.key,
        orjson.dumps(obj),
        rv=event.rv,
        create_rv=entry.create_rv,
        meta=obj["metadata"],
    )


def _revision(version: str) -> int:
    if version and not is_revision(version):
        raise errors.ApiError(
            f'resourceVersion: Invalid value: "{version}": {no_revision(version)}', reason=""
        )
    return int(version or 0)
