"""Watch streams: replay, live events, bookmarks, selector transitions, time-outs."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import orjson
from aiohttp import web

from corral.cluster.apiserver.http.render import Renderer
from corral.cluster.apiserver.registry.core import Registry
from corral.cluster.apiserver.registry.kind import Kind
from corral.cluster.apiserver.registry.read import ListOptions, Reader, matcher
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
CHUNK = 256
"""Events written at once, so that one slow encoder does not hold the loop."""


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
    ) -> None:
        self._registry = registry
        self._store: Store = registry.store
        self._kind = kind
        self._namespace = namespace
        self._options = options
        self._renderer = renderer
        self._matches = matcher(kind, options, name)
        self._seen = 0

    async def open(self) -> tuple[list[Entry], Watch]:
        """The initial entries and the subscription. Raises Gone for a forgotten version."""
        options, reader = self._options, Reader(self._registry)
        since = reader.revision_number(options.version)
        await reader.wait_for(since)
        initial: list[Entry] = []
        wants_state = options.initial_events or (
            options.initial_events is None and options.version in ("", "0")
        )
        if wants_state:
            prefix = f"{self._namespace}/" if self._namespace else ""
            entries = self._store.scan(self._kind.info.table, prefix)
            initial = [e for e in entries if self._matches is None or self._matches(e)]
            since = self._store.revision
        elif options.version in ("", "0"):
            since = self._store.revision
        try:
            watch = self._store.watch(self._kind.info.table, since)
        except Compacted as err:
            raise errors.Gone(f"too old resource version: {err.asked} ({err.oldest})") from err
        self._seen = since
        return initial, watch

    async def run(self, response: web.StreamResponse, initial: list[Entry], watch: Watch) -> None:
        """Write until the time is over, the client goes, or the watch is dropped."""
        timeout = self._options.timeout
        seconds = timeout if timeout else MIN_TIMEOUT * (1 + random.random())
        deadline = asyncio.get_running_loop().time() + seconds
        await self._write_initial(response, initial)
        while True:
            left = deadline - asyncio.get_running_loop().time()
            if left <= 0:
                if self._options.bookmarks and watch.idle:
                    self._seen = self._store.revision
                    await response.write(self._bookmark())
                return
            try:
                async with asyncio.timeout(min(left, BOOKMARK_EVERY)):
                    await watch.wait()
            except TimeoutError:
                if self._options.bookmarks and left > BOOKMARK_EVERY and watch.idle:
                    self._seen = self._store.revision  # all of it was offered, and drained
                    await response.write(self._bookmark())
                continue
            events = watch.drain()
            for start in range(0, len(events), CHUNK):
                data = self._lines(events[start : start + CHUNK])
                if data:
                    await response.write(data)
            if watch.overrun:
                return

    async def _write_initial(self, response: web.StreamResponse, initial: list[Entry]) -> None:
        for start in range(0, len(initial), CHUNK):
            parts = [self._line(ADDED, e) for e in initial[start : start + CHUNK]]
            await response.write(b"".join(parts))
        if self._options.initial_events and self._options.bookmarks:
            await response.write(self._bookmark(end=True))

    def _line(self, type_: str, entry: Entry) -> bytes:
        return b'{"type":"%b","object":%b}\n' % (type_.encode(), self._renderer.one(entry))

    def _lines(self, events: list[Event]) -> bytes:
        parts: list[bytes] = []
        one = self._renderer.one
        namespace, matches = self._namespace, self._matches
        for event in events:
            entry = event.entry
            self._seen = event.rv
            if namespace and entry.namespace != namespace:
                continue
            type_ = event.type if matches is None else transition(event, matches)
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
