"""Claims stay while pods use them, volumes while they are bound; and whether a claim is used.

A claim is let go only when no pod on a node uses it, by the cache and by a list made after its
deletion was seen; one list serves all claims of a namespace that are deleted together.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from corral.cluster.workloads.claims.names import CLAIM_PROTECTION, VOLUME_PROTECTION
from corral.cluster.workloads.claims.view import BY_CLAIM, claim_names, index_by_claim
from corral.cluster.workloads.pods import is_deleting, is_terminal
from corral.kube import errors
from corral.kube.resources import PERSISTENTVOLUMECLAIMS, PERSISTENTVOLUMES, PODS
from corral.kube.times import format_datetime
from corral.kube.types import Obj
from corral.runtime import (
    Change,
    Manager,
    Result,
    add_finalizer,
    find_condition,
    has_finalizer,
    remove_finalizer,
    split_key,
    version_of,
)

__all__ = ["ClaimProtection", "VolumeProtection", "register"]

FIELD_MANAGER: Final = "pvc-protection-controller"
UNUSED: Final = "Unused"
_CONFLICT_DELAY: Final = 0.02


def _utc() -> datetime:
    return datetime.now(UTC)


def register(
    manager: Manager,
    *,
    clock: Callable[[], float] = time.monotonic,
    now: Callable[[], datetime] = _utc,
) -> None:
    """Add both controllers to a manager."""
    ClaimProtection(manager, clock=clock, now=now)
    VolumeProtection(manager)


class ClaimProtection:
    """The finalizer of claims, and their condition Unused."""

    def __init__(
        self, manager: Manager, *, clock: Callable[[], float], now: Callable[[], datetime]
    ) -> None:
        claims, pods = manager.informer(PERSISTENTVOLUMECLAIMS), manager.informer(PODS)
        pods.add_index(BY_CLAIM, index_by_claim)
        self._client = manager.client
        self._claims, self._pods = claims.store, pods.store
        self._clock, self._now = clock, now
        self._going: dict[str, float] = {}
        """Claim → when its deletion was first seen."""
        self._lists: dict[str, tuple[float, frozenset[str]]] = {}
        """Namespace → when its pods were listed, and the claims they use."""
        controller = manager.controller("claim-protection", self.reconcile, workers=2)
        controller.watch(claims)
        controller.watch(pods, _claims_of, when=_use_changed)

    async def reconcile(self, key: str) -> Result | None:
        claim = self._claims.get(key)
        if claim is None:
            self._going.pop(key, None)
            if not self._going:
                self._lists.clear()
            return None
        try:
            await self._sync(key, claim)
        except errors.Conflict:
            return Result(requeue_after=_CONFLICT_DELAY)
        except errors.NotFound:
            return None  # its deletion comes
        return None

    async def _sync(self, key: str, claim: Obj) -> None:
        if not is_deleting(claim):
            if not has_finalizer(claim, CLAIM_PROTECTION):
                await add_finalizer(
                    self._client,
                    PERSISTENTVOLUMECLAIMS,
                    claim,
                    finalizer=CLAIM_PROTECTION,
                    field_manager=FIELD_MANAGER,
                )
            elif (claim.get("status") or {}).get("phase") == "Bound":
                await self._mark_use(key, claim)
            return
        if not has_finalizer(claim, CLAIM_PROTECTION):
            return
        seen = self._going.setdefault(key, self._clock())
        if not await self._is_held(key, seen):
            await remove_finalizer(
                self._client,
                PERSISTENTVOLUMECLAIMS,
                claim,
                finalizer=CLAIM_PROTECTION,
                field_manager=FIELD_MANAGER,
            )

    async def _is_held(self, key: str, seen: float) -> bool:
        if any(_holds(pod) for pod in self._pods.by_index(BY_CLAIM, key)):
            return True
        namespace, name = split_key(key)
        known = self._lists.get(namespace)
        if known is None or known[0] < seen:
            began = self._clock()
            listed = await self._client.list_all(PODS, namespace)
            used = frozenset(
                name for pod in listed["items"] if _holds(pod) for name in claim_names(pod)
            )
            known = self._lists[namespace] = (began, used)
        return name in known[1]

    async def _mark_use(self, key: str, claim: Obj) -> None:
        used = any(not is_terminal(pod) for pod in self._pods.by_index(BY_CLAIM, key))
        conditions = list((claim.get("status") or {}).get("conditions") or ())
        status = "False" if used else "True"
        known = find_condition(conditions, UNUSED)
        if known is not None and known.get("status") == status:
            return
        fresh = {
            "type": UNUSED,
            "status": status,
            "lastTransitionTime": format_datetime(self._now()),
            "reason": "PodUsingPVC" if used else "NoPodsUsingPVC",
            "message": "A pod is currently referencing this PVC"
            if used
            else "No pods are currently referencing this PVC",
        }
        kept = [one for one in conditions if one.get("type") != UNUSED]
        await self._client.patch(
            PERSISTENTVOLUMECLAIMS,
            claim["metadata"]["name"],
            namespace=claim["metadata"]["namespace"],
            patch={
                "metadata": {"resourceVersion": version_of(claim)},
                "status": {"conditions": [*kept, fresh]},
            },
            subresource="status",
            field_manager=FIELD_MANAGER,
        )


def _holds(pod: Obj) -> bool:
    """A node may be using the pod's claims; it starts no pod whose claim is going."""
    return bool((pod.get("spec") or {}).get("nodeName"))


def _claims_of(change: Change) -> list[str]:
    return index_by_claim(change.object)


def _use_changed(change: Change) -> bool:
    if change.old is None or change.new is None:
        return True
    return is_terminal(change.old) != is_terminal(change.new)


class VolumeProtection:
    """The finalizer of volumes."""

    def __init__(self, manager: Manager) -> None:
        volumes = manager.informer(PERSISTENTVOLUMES)
        self._client = manager.client
        self._volumes = volumes.store
        controller = manager.controller("volume-protection", self.reconcile)
        controller.watch(volumes, when=_needs_look)

    async def reconcile(self, key: str) -> Result | None:
        volume = self._volumes.get(key)
        if volume is None:
            return None
        try:
            if not is_deleting(volume):
                await add_finalizer(
                    self._client, PERSISTENTVOLUMES, volume, finalizer=VOLUME_PROTECTION
                )
            elif (volume.get("status") or {}).get("phase") != "Bound":
                await remove_finalizer(
                    self._client, PERSISTENTVOLUMES, volume, finalizer=VOLUME_PROTECTION
                )
        except errors.Conflict:
            return Result(requeue_after=_CONFLICT_DELAY)
        except errors.NotFound:
            return None  # its deletion comes
        return None


def _needs_look(change: Change) -> bool:
    volume = change.new
    if volume is None:
        return False
    return is_deleting(volume) == has_finalizer(volume, VOLUME_PROTECTION)
