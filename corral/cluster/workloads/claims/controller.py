"""Binds claims and volumes to each other, and protects both while they are used.

Guarantees:
- A volume is never bound to two claims, nor a claim to two volumes: every write is bound to the
  version it was decided on, and nothing is decided before the caches have our own writes.
- A claim that waits is looked at again when a volume of its class becomes free, when its class
  appears, and when a default class does.
- Volumes are deleted by their provisioner alone (see ``provisioner``).
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Final

from corral.cluster.workloads.claims import ephemeral, protection
from corral.cluster.workloads.claims.binder import Binder
from corral.cluster.workloads.claims.matching import class_of
from corral.cluster.workloads.claims.view import View, index_by_claim
from corral.cluster.workloads.claims.writing import BindingWriter
from corral.kube import errors
from corral.kube.resources import (
    PERSISTENTVOLUMECLAIMS,
    PERSISTENTVOLUMES,
    PODS,
    STORAGECLASSES,
)
from corral.kube.types import Obj
from corral.runtime import Change, ConsistencyStore, Manager, Result

__all__ = ["ClaimController", "register"]

_WORKERS: Final = 4
_CONFLICT_DELAY: Final = 0.02
"""Seconds until what somebody else changed meanwhile is decided again."""


def register(manager: Manager) -> None:
    """Add the binder, the protection of claims and volumes, and ephemeral volumes to a manager."""
    ClaimController(manager)
    protection.register(manager)
    ephemeral.register(manager)


class ClaimController:
    """Two queues: claims by their key, volumes by their name."""

    def __init__(self, manager: Manager) -> None:
        claims, volumes = (
            manager.informer(PERSISTENTVOLUMECLAIMS),
            manager.informer(PERSISTENTVOLUMES),
        )
        classes, pods = manager.informer(STORAGECLASSES), manager.informer(PODS)
        self._view = View(claims=claims, volumes=volumes, classes=classes, pods=pods)
        self._consistency = ConsistencyStore(
            {PERSISTENTVOLUMECLAIMS: claims, PERSISTENTVOLUMES: volumes}
        )
        writer = BindingWriter(manager.client, self._consistency)
        recorder = manager.recorder("persistentvolume-controller")
        self._binder = Binder(manager.client, self._view, writer, recorder)
        of_claims = manager.controller("claims", self.reconcile_claim, workers=_WORKERS)
        of_volumes = manager.controller("volumes", self.reconcile_volume, workers=_WORKERS)
        self._claim_queue = of_claims.queue
        of_claims.watch(claims)
        of_claims.watch(volumes, self._waiting_for_volume)
        of_claims.watch(classes, self._waiting_for_class)
        of_claims.watch(pods, _new_consumers, when=lambda change: not change.is_initial)
        of_volumes.watch(volumes)
        of_volumes.watch(claims, lambda change: self._view.volumes_of(change.key))
        for controller in (of_claims, of_volumes):
            controller.informers += [
                one for one in (claims, volumes, classes, pods) if one not in controller.informers
            ]

    def _waiting_for_volume(self, change: Change) -> list[str]:
        """Claims that may want a volume that has become free, or miss one that has gone."""
        volume = change.object
        reference = volume["spec"].get("claimRef")
        if reference:
            return [f"{reference['namespace']}/{reference['name']}"]
        if change.new is None or (volume.get("status") or {}).get("phase") != "Available":
            return []
        return self._view.pending(class_of(volume))

    def _waiting_for_class(self, change: Change) -> list[str]:
        if change.new is None or change.is_initial:
            return []
        return self._view.pending(change.object["metadata"]["name"]) + self._view.pending("")

    async def reconcile_claim(self, key: str) -> Result | None:
        claim = self._view.claims.get(key)
        if claim is None:
            self._consistency.clear(key)
            return None
        return await self._carefully(key, claim, self._binder.sync_claim)

    async def reconcile_volume(self, key: str) -> Result | None:
        volume = self._view.volumes.get(key)
        if volume is None:
            self._consistency.clear(key)
            return None
        return await self._carefully(key, volume, self._sync_volume)

    async def _sync_volume(self, volume: Obj) -> None:
        key = await self._binder.sync_volume(volume)
        if key is not None:
            self._claim_queue.add(key)

    async def _carefully(
        self, key: str, obj: Obj, sync: Callable[[Obj], Coroutine[Any, Any, None]]
    ) -> Result | None:
        """Sync when the caches have our own writes; again when somebody else was faster."""
        self._consistency.ensure_ready(key)
        for volume in self._view.volumes_of(key):
            self._consistency.ensure_ready(volume)
        try:
            await sync(obj)
        except errors.Conflict:
            return Result(requeue_after=_CONFLICT_DELAY)
        except errors.NotFound:
            return None  # its deletion comes, if it has not yet
        return None


def _new_consumers(change: Change) -> list[str]:
    """Claims whose first pod has come, or got its node."""
    return index_by_claim(change.object) if change.type != "updated" else []
