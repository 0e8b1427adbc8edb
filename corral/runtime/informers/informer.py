"""A local copy of a collection that keeps itself up to date, and tells handlers what changed.

Guarantees:
- Handlers see one consistent story per object: added, updated any number of times, deleted. What
  happened while the connection was gone is worked out from the next list: an object that vanished
  is reported as deleted with its last known state, one that was deleted and made again under the
  same name as both.
- The store holds a change before handlers hear of it, and ``version`` moves after they have.
- Handlers are called in order, in the event loop, and must not block; one that raises is logged
  and does not keep the others from being called.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable
from typing import Literal, NamedTuple

from corral.kube.client import KubeClient
from corral.kube.types import Obj
from corral.kube.watch import WatchEvent
from corral.runtime.informers.reflector import Reflector, ReflectorSettings, Scope
from corral.runtime.informers.store import IndexFunction, Store
from corral.runtime.keys import key_of, uid_of, version_of

__all__ = ["Change", "Handler", "Informer", "Transform", "strip_managed_fields"]

logger = logging.getLogger(__name__)


class Change(NamedTuple):
    """What happened to one object."""

    type: Literal["added", "updated", "deleted"]
    old: Obj | None
    new: Obj | None
    is_initial: bool = False
    """The object was there before the informer started (or is replayed by a resync)."""
    final_state_unknown: bool = False
    """A deletion that nobody saw: ``old`` is the last known state, not the last one."""

    @property
    def object(self) -> Obj:
        """The newest known state."""
        obj = self.new if self.new is not None else self.old
        assert obj is not None
        return obj

    @property
    def key(self) -> str:
        return key_of(self.object)


Handler = Callable[[Change], None]
Transform = Callable[[Obj], Obj]
"""Makes the object to store from the one that came; may change and return it."""


def strip_managed_fields(obj: Obj) -> Obj:
    """Forget who owns which field: a quarter of a typical object, and hardly ever read."""
    obj["metadata"].pop("managedFields", None)
    return obj


class Informer:
    """The objects of one scope; `store` is always complete once `synced`."""

    def __init__(
        self,
        client: KubeClient,
        scope: Scope,
        *,
        transform: Transform | None = strip_managed_fields,
        settings: ReflectorSettings | None = None,
        resync: float | None = None,
        clock: Callable[[], float] = time.monotonic,
        rng: Callable[[], float] = random.random,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """``resync``: seconds after which all objects are reported again; never without."""
        self.scope = scope
        self.store = Store()
        self._transform = transform
        self._resync = resync
        self._clock = clock
        self._sleep = sleep
        self._handlers: list[Handler] = []
        self._synced = asyncio.Event()
        self._reflector = Reflector(
            client, scope, self, settings=settings, clock=clock, rng=rng, sleep=sleep
        )

    # --- for readers -----------------------------------------------------------------------------

    @property
    def synced(self) -> bool:
        """Whether the first list is in the store and its handlers were called."""
        return self._synced.is_set()

    async def wait_synced(self) -> None:
        await self._synced.wait()

    @property
    def version(self) -> str:
        """The store is at least as new as this; empty before the first list."""
        return self._reflector.version

    @property
    def lists(self) -> int:
        """How often everything was listed."""
        return self._reflector.lists

    def age(self) -> float:
        """Seconds since the server was last heard of: an event, a bookmark or a list."""
        return self._clock() - self._reflector.last_activity

    def add_index(self, name: str, function: IndexFunction) -> None:
        self.store.add_index(name, function)

    def add_handler(self, handler: Handler) -> None:
        """Call this with every change; it first gets what is in the store as added."""
        self._handlers.append(handler)
        for obj in self.store:
            self._call(handler, Change("added", None, obj, is_initial=True))

    # --- running ---------------------------------------------------------------------------------

    async def run(self) -> None:
        """Keep the store up to date until cancelled."""
        if self._resync is None:
            await self._reflector.run()
            return
        async with asyncio.TaskGroup() as group:
            group.create_task(self._resync_loop(self._resync))
            group.create_task(self._reflector.run())

    async def _resync_loop(self, period: float) -> None:
        while True:
            await self._sleep(period)
            for obj in self.store:
                self._notify(Change("updated", obj, obj, is_initial=True))

    # --- what the reflector tells ----------------------------------------------------------------

    def replaced(self, objects: list[Obj], version: str) -> None:
        """Make the store hold exactly these, and report the difference."""
        initial = not self.synced
        gone = set(self.store.keys())
        for obj in objects:
            gone.discard(key_of(obj))
            self._put(obj, initial=initial)
        for key in sorted(gone):
            old = self.store.remove(key)
            self._notify(Change("deleted", old, None, final_state_unknown=True))
        self._synced.set()

    def changed(self, event: WatchEvent) -> None:
        """Take over one change."""
        if event.type == "DELETED":
            obj = self._transform(event.object) if self._transform else event.object
            if self.store.remove(key_of(obj)) is not None:
                # The event has the very last state, with the version of the deletion.
                self._notify(Change("deleted", obj, None))
        elif event.type != "BOOKMARK":
            self._put(event.object)

    def _put(self, obj: Obj, *, initial: bool = False) -> None:
        key = key_of(obj)
        old = self.store.get(key)
        if old is not None and uid_of(old) == uid_of(obj) and version_of(old) == version_of(obj):
            return
        if self._transform:
            obj = self._transform(obj)
        if old is not None and uid_of(old) != uid_of(obj):
            self.store.remove(key)
            self._notify(Change("deleted", old, None, final_state_unknown=True))
            old = None
        self.store.put(obj, key)
        kind: Literal["added", "updated"] = "added" if old is None else "updated"
        self._notify(Change(kind, old, obj, is_initial=initial))

    def _notify(self, change: Change) -> None:
        for handler in self._handlers:
            self._call(handler, change)

    def _call(self, handler: Handler, change: Change) -> None:
        try:
            handler(change)
        except Exception:
            logger.exception("a handler of %s failed on %s", self.scope, change.key)
