"""One watch for many watchers: callers with the same token who watch the same thing share it.

Each watcher gets what is there first, then every change in order, as bytes that are made once for
all of them. A watcher that is too slow for its queue is let go: it comes back with the id of the
last change it saw. Changes of a while ago are kept for those who come back; who was away for longer
gets a watch of his own from that place on, or the API server's word that it is no longer kept.

Rights are those of the token: watchers with different tokens never share anything.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import orjson

from corral.client.kinds import JobKind
from corral.client.queries import ListQuery
from corral.client.watching import Change
from corral.gateway.auth import Caller

if TYPE_CHECKING:
    from corral.gateway.service import Gateway

__all__ = ["Fanout", "WatchTarget", "sse"]

_QUEUE: Final = 1024
"""Changes that a watcher may be behind."""
_KEPT: Final = 256
"""Changes that are kept for watchers who come back."""
_SILENCE: Final = 15.0
"""Seconds after which a watcher is sent a sign of life: proxies close what is silent."""
_ALIVE: Final = b": alive\n\n"


@dataclass(frozen=True, slots=True)
class WatchTarget:
    """What is watched."""

    kind: JobKind
    namespace: str | None
    name: str | None
    query: ListQuery
    full: bool = True
    """Whole objects; else phase and message only."""


def sse(target: WatchTarget, change: Change) -> bytes:
    """A change as a Server-Sent Event; its id is where a later watch goes on."""
    kind = target.kind
    metadata = change.object.get("metadata") or {}
    data = {
        "type": change.type,
        "phase": change.phase,
        "message": kind.message(change.object),
        "namespace": metadata.get("namespace", ""),
        "name": metadata.get("name", ""),
    }
    if target.full:
        data["object"] = change.object
    version = change.resource_version.encode()
    return b"id: %b\nevent: %b\ndata: %b\n\n" % (version, change.type.encode(), orjson.dumps(data))


@dataclass(slots=True, eq=False)
class _Watcher:
    queue: asyncio.Queue[bytes | Exception | None] = field(
        default_factory=lambda: asyncio.Queue(_QUEUE)
    )
    """Events; an error; None at the end."""
    lagging: bool = False

    def put(self, item: bytes | Exception | None) -> None:
        if self.queue.full():
            # it would miss a change: better none at all, and it comes back for them
            self.lagging = True
        if not self.lagging:
            self.queue.put_nowait(item)

    async def next(self) -> bytes | None:
        """The next event, a sign of life where there is none for a while, or None at the end."""
        if self.lagging and self.queue.empty():
            return None
        try:
            async with asyncio.timeout(_SILENCE):
                item = await self.queue.get()
        except TimeoutError:
            return _ALIVE
        if isinstance(item, Exception):
            raise item
        return item


class _Shared:
    """A watch, its watchers, and what a new one must be told first."""

    def __init__(self, target: WatchTarget, source: AsyncGenerator[Change, None]) -> None:
        self._target, self._source = target, source
        self._present: dict[str, Change] = {}
        """By uid, as they are now."""
        self._past: deque[tuple[str, bytes]] = deque(maxlen=_KEPT)
        """Version and event of changes, in order."""
        self.watchers: set[_Watcher] = set()
        self.over = False
        self.task = asyncio.create_task(self._run())

    def join(self, since: str = "") -> _Watcher | None:
        """A new watcher; none where what came after ``since`` is not kept here."""
        watcher = _Watcher()
        if since:
            past = list(self._past)
            places = [place for place, (version, _) in enumerate(past) if version == since]
            if not places:
                return None
            for _, event in past[places[-1] + 1 :]:
                watcher.put(event)
        else:
            for change in self._present.values():
                watcher.put(sse(self._target, Change("ADDED", change.object, change.phase)))
        self.watchers.add(watcher)
        return watcher

    async def leave(self, watcher: _Watcher) -> None:
        """Without any watcher there is no watch."""
        self.watchers.discard(watcher)
        if not self.watchers:
            self.over = True
            self.task.cancel()
            await asyncio.gather(self.task, return_exceptions=True)

    async def _run(self) -> None:
        last: Exception | None = None
        try:
            async with aclosing(self._source) as changes:
                async for change in changes:
                    self._tell(change)
        except Exception as error:
            last = error  # for the watchers, each of which tells its caller
        finally:
            self.over = True
            for watcher in self.watchers:
                watcher.put(last)

    def _tell(self, change: Change) -> None:
        event = sse(self._target, change)
        uid = str((change.object.get("metadata") or {}).get("uid"))
        if change.type == "DELETED":
            self._present.pop(uid, None)
        else:
            self._present[uid] = change
        self._past.append((change.resource_version, event))
        for watcher in self.watchers:
            watcher.put(event)


class Fanout:
    """All shared watches of a gateway; each ends with its last watcher."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._shared: dict[tuple[str, WatchTarget], _Shared] = {}

    def __len__(self) -> int:
        return len(self._shared)

    async def close(self) -> None:
        """End every watch; their watchers see an ordinary end."""
        tasks = [shared.task for shared in self._shared.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def events(
        self, caller: Caller, target: WatchTarget, *, since: str = ""
    ) -> AsyncGenerator[bytes, None]:
        """Events without end; of one object, until it is deleted.

        Raises:
            JobError: the API server refuses, or no longer has ``since``.
        """
        shared, watcher = self._join(caller, target, since)
        try:
            while (event := await watcher.next()) is not None:
                yield event
        finally:
            await shared.leave(watcher)
            if shared.over and self._shared.get((caller.key, target)) is shared:
                del self._shared[caller.key, target]

    def _join(self, caller: Caller, target: WatchTarget, since: str) -> tuple[_Shared, _Watcher]:
        key = (caller.key, target)
        shared = self._shared.get(key)
        if shared is not None and not shared.over:
            watcher = shared.join(since)
            if watcher is not None:
                return shared, watcher
        source = self._gateway.watch(
            caller,
            target.kind,
            namespace=target.namespace,
            name=target.name,
            since=since or None,
            query=target.query,
        )
        new = _Shared(target, source)
        if not since:  # one that begins in the middle cannot tell others what is there
            self._shared[key] = new
        watcher = new.join()
        assert watcher is not None
        return new, watcher
