"""FamilyReconciler: fetches one object, has its family decide, and carries the decision out.

What every family needs is done here and nowhere else: caches that are older than our own writes
(`NotYetConsistent`), objects that are gone or being deleted, the finalizer, the one status write
and the events after it, deletions and children in their order, refusals by the API server, figures.
Conflicts are raised: the controller tries again with what the caches have by then.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from pydantic import ValidationError

from corral.api.fields import Model
from corral.kube.errors import ApiError, NotFound
from corral.kube.types import Obj
from corral.runtime.children import ChildWriter
from corral.runtime.controller import Result
from corral.runtime.family.caches import Caches
from corral.runtime.family.children import Children
from corral.runtime.family.decision import Decision, Refusal
from corral.runtime.family.declaration import Family
from corral.runtime.family.events import record
from corral.runtime.family.refusals import is_passing, namespace_is_going, refusal_of
from corral.runtime.family.statuses import StatusController
from corral.runtime.finalizers import (
    add_finalizer,
    has_finalizer,
    is_being_deleted,
    remove_finalizer,
)
from corral.runtime.keys import key_of, uid_of, version_of
from corral.runtime.manager import Manager
from corral.runtime.queues.limiters import ExponentialLimiter

__all__ = ["FamilyReconciler"]

logger = logging.getLogger(__name__)

O = TypeVar("O")  # noqa: E741 - an observation
S = TypeVar("S", bound=Model)

SOON: Final = 0.001
"""Seconds after which a refusal, or its end, is shown."""
REFUSED_FIRST: Final = 1.0
REFUSED_MAX: Final = 60.0
"""Seconds between two tries of what was refused."""


@dataclass(slots=True)
class _Memory:
    """What this process knows of one object beside the API; lost with the process."""

    uid: str
    refusal: Refusal | None = None
    refused_generation: int = 0
    retry_at: float = 0.0
    applied: dict[str, str] = field(default_factory=dict)
    """What was applied last, by child: see `Children.apply`."""


class FamilyReconciler(Generic[O, S]):
    """Of all objects of one family."""

    def __init__(
        self,
        manager: Manager,
        family: Family[O, S],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.family = family
        self.caches = Caches(manager, family)
        self._client = manager.client
        self._clock = clock
        self._recorder = manager.recorder(family.component)
        written, field_manager = self.caches.consistency, family.settings.field_manager
        self._statuses = StatusController(
            manager.client, self.caches.resource, written, field_manager=field_manager
        )
        writer = ChildWriter(manager.client, field_manager=field_manager, consistency=written)
        self._children = Children(manager.client, family, self.caches, writer)
        self._limiter = ExponentialLimiter(REFUSED_FIRST, REFUSED_MAX)
        self._memories: dict[str, _Memory] = {}

    async def reconcile(self, key: str) -> Result | None:
        """One look at one object.

        Raises:
            NotYetConsistent: a cache is older than our own last write.
            Conflict: the object has changed since it was read.
            ApiError, KubeConnectionError: something that may pass.
        """
        self.caches.consistency.ensure_ready(key)
        found = self.caches.objects.store.get(key)
        if found is None or (is_being_deleted(found) and not self._is_held(found)):
            # What it owns goes with it: there are owner references.
            self._forget(key)
            return None
        obj = self.caches.resource.stamp(found)
        try:
            if is_being_deleted(obj):
                return await self._let_go(obj)
            return await self._sync(await self._hold(obj))
        except ValidationError as error:
            logger.warning("%s is older than its schema and left alone: %s", key, error)
        except NotFound as error:
            logger.debug("%s or its namespace is gone: %s", key, error)
        return None

    async def _sync(self, obj: Obj) -> Result | None:
        memory = self._memory(obj)
        observed = await self.family.observe(obj, self.caches)
        decision = self.family.decide(observed)
        if not (decision.apply or decision.create):
            memory.refusal = None
        elif memory.refusal is not None:
            decision = self.family.refused(decision, memory.refusal, observed)
        written = await self._write(obj, decision)
        await self._children.delete(decision.delete)
        again = await self._make(written, decision, observed, memory)
        waits = [wait for wait in (again, decision.requeue_after) if wait is not None]
        return Result(min(waits)) if waits else None

    # --- the status ------------------------------------------------------------------------------

    async def _write(self, obj: Obj, decision: Decision[S]) -> Obj:
        """Write the status, then say what has changed; the object as it is afterwards."""
        if decision.status is None:
            return obj
        status = decision.status.model_dump(by_alias=True, exclude_none=True)
        written = await self._statuses.write(obj, status)
        if written is obj:
            return obj
        record(self._recorder, obj, decision.events)
        self.family.written(obj, status)
        return self.caches.resource.stamp(written)

    # --- children --------------------------------------------------------------------------------

    async def _make(
        self, obj: Obj, decision: Decision[S], observed: O, memory: _Memory
    ) -> float | None:
        """Make the children; after how many seconds to look again because of them."""
        if not (decision.apply or decision.create):
            return None
        generation = int(obj["metadata"].get("generation") or 0)
        wait = memory.retry_at - self._clock()
        if memory.refusal is not None and generation == memory.refused_generation and wait > 0:
            return wait
        try:
            for child in decision.apply:
                await self._children.apply(obj, child, observed, memory.applied)
            for child in decision.create:
                await self._children.create(obj, child, observed)
        except ApiError as error:
            if isinstance(error, NotFound) or namespace_is_going(error):
                return None
            if is_passing(error):
                raise
            memory.refused_generation = generation
            return self._refused(key_of(obj), refusal_of(error), memory)
        self._limiter.forget(key_of(obj))
        shown, memory.refusal = memory.refusal, None
        return SOON if shown is not None else None

    def _refused(self, key: str, refusal: Refusal, memory: _Memory) -> float:
        logger.info("%s: a child was refused: %s", key, refusal.message)
        wait = self._limiter.when(key)
        memory.retry_at = self._clock() + wait
        if memory.refusal == refusal:
            return wait
        memory.refusal = refusal
        return SOON

    # --- deletion --------------------------------------------------------------------------------

    def _is_held(self, obj: Obj) -> bool:
        return bool(self.family.finalizer) and has_finalizer(obj, self.family.finalizer)

    async def _hold(self, obj: Obj) -> Obj:
        """The object with its finalizer, where it needs one: before the first side effect."""
        family = self.family
        if not family.finalizer or self._is_held(obj) or not family.needs_finalizer(obj):
            return obj
        resource = self.caches.resource
        held = await add_finalizer(
            self._client,
            resource,
            obj,
            finalizer=family.finalizer,
            field_manager=family.settings.field_manager,
        )
        self.caches.consistency.wrote_at(key_of(obj), uid_of(obj), resource, version_of(held))
        return resource.stamp(held)

    async def _let_go(self, obj: Obj) -> Result | None:
        decision = await self.family.finalize(await self.family.observe(obj, self.caches))
        await self._children.delete(decision.delete)
        if not decision.finalized:
            return Result(decision.requeue_after or 0.0)
        record(self._recorder, obj, decision.events)
        await remove_finalizer(
            self._client,
            self.caches.resource,
            obj,
            finalizer=self.family.finalizer,
            field_manager=self.family.settings.field_manager,
        )
        return None

    # --- memory ----------------------------------------------------------------------------------

    def _memory(self, obj: Obj) -> _Memory:
        key, uid = key_of(obj), uid_of(obj)
        known = self._memories.get(key)
        if known is None or known.uid != uid:
            known = self._memories[key] = _Memory(uid)
        return known

    def _forget(self, key: str) -> None:
        self.caches.consistency.clear(key)
        self._memories.pop(key, None)
        self._limiter.forget(key)
        self.family.forget(key)
