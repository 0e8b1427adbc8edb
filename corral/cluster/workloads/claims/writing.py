"""The writes that bind claims and volumes to each other.

Every write is bound to the version it was decided on (``Conflict`` means: decide again) and noted,
so that neither the claim nor the volume is looked at before the caches have it. An answer that
changes nothing is no write at all.
"""

from __future__ import annotations

from typing import Final

from corral.cluster.workloads.claims.matching import is_bound_to
from corral.cluster.workloads.claims.names import (
    BETA_STORAGE_PROVISIONER,
    BIND_COMPLETED,
    BOUND_BY_CONTROLLER,
    STORAGE_PROVISIONER,
)
from corral.kube.client import KubeClient
from corral.kube.quantity import Quantity
from corral.kube.resources import PERSISTENTVOLUMECLAIMS, PERSISTENTVOLUMES, Resource
from corral.kube.types import Obj
from corral.runtime import ConsistencyStore, key_of, merge_diff, uid_of, version_of

__all__ = ["BindingWriter"]

FIELD_MANAGER: Final = "persistentvolume-binder"


class BindingWriter:
    """Writes claims and volumes."""

    def __init__(self, client: KubeClient, consistency: ConsistencyStore) -> None:
        self._client = client
        self._consistency = consistency

    async def bind(self, volume: Obj, claim: Obj) -> None:
        """Bind both: the volume first, so that a claim is never bound to a volume of another."""
        volume = await self._bind_volume(volume, claim)
        volume = await self.set_phase(volume, "Bound")
        claim = await self._bind_claim(claim, volume)
        await self.set_claim_status(claim, "Bound", volume)

    async def _bind_volume(self, volume: Obj, claim: Obj) -> Obj:
        reference, meta = volume["spec"].get("claimRef") or {}, claim["metadata"]
        patch: Obj = {}
        if any(reference.get(name) != meta[name] for name in ("namespace", "name", "uid")):
            patch["spec"] = {
                "claimRef": {
                    "apiVersion": "v1",
                    "kind": "PersistentVolumeClaim",
                    "namespace": meta["namespace"],
                    "name": meta["name"],
                    "uid": meta["uid"],
                    "resourceVersion": version_of(claim),
                }
            }
        annotations = volume["metadata"].get("annotations") or {}
        if not is_bound_to(volume, claim) and BOUND_BY_CONTROLLER not in annotations:
            patch["metadata"] = {"annotations": {BOUND_BY_CONTROLLER: "yes"}}
        return await self.patch(PERSISTENTVOLUMES, volume, patch)

    async def _bind_claim(self, claim: Obj, volume: Obj) -> Obj:
        annotations = claim["metadata"].get("annotations") or {}
        missing: dict[str, str] = {}
        patch: Obj = {}
        if claim["spec"].get("volumeName") != volume["metadata"]["name"]:
            patch["spec"] = {"volumeName": volume["metadata"]["name"]}
            if BOUND_BY_CONTROLLER not in annotations:
                missing[BOUND_BY_CONTROLLER] = "yes"
        if BIND_COMPLETED not in annotations:
            missing[BIND_COMPLETED] = "yes"
        if missing:
            patch["metadata"] = {"annotations": missing}
        return await self.patch(PERSISTENTVOLUMECLAIMS, claim, patch)

    async def unbind(self, volume: Obj) -> None:
        """Free a volume; one that a person had reserved stays reserved."""
        annotations = volume["metadata"].get("annotations") or {}
        patch: Obj = {"spec": {"claimRef": {"uid": None}}}
        if BOUND_BY_CONTROLLER in annotations:
            patch = {
                "metadata": {"annotations": {BOUND_BY_CONTROLLER: None}},
                "spec": {"claimRef": None},
            }
        volume = await self.patch(PERSISTENTVOLUMES, volume, patch)
        await self.set_phase(volume, "Available")

    async def set_phase(self, volume: Obj, phase: str, message: str = "") -> Obj:
        status = volume.get("status") or {}
        if status.get("phase") == phase:
            return volume
        wanted: Obj = {"phase": phase, "message": message or None}
        if not message and "message" not in status:
            del wanted["message"]
        return await self.patch(PERSISTENTVOLUMES, volume, {"status": wanted}, "status")

    async def set_claim_status(self, claim: Obj, phase: str, volume: Obj | None = None) -> Obj:
        """What a claim has got of its volume; its size only when it becomes bound."""
        status = claim.get("status") or {}
        wanted = {**status, "phase": phase}
        fields = ("accessModes", "capacity", "currentVolumeAttributesClassName")
        if volume is None:
            wanted = {name: value for name, value in wanted.items() if name not in fields}
        else:
            wanted["accessModes"] = volume["spec"].get("accessModes") or []
            if status.get("phase") != phase:
                _take_size(wanted, volume)
                name = volume["spec"].get("volumeAttributesClassName")
                if name and status.get("phase") == "Pending":
                    wanted["currentVolumeAttributesClassName"] = name
        patch = merge_diff(status, wanted)
        body = {"status": patch} if patch else {}
        return await self.patch(PERSISTENTVOLUMECLAIMS, claim, body, "status")

    async def set_class(self, claim: Obj, name: str) -> None:
        await self.patch(PERSISTENTVOLUMECLAIMS, claim, {"spec": {"storageClassName": name}})

    async def set_provisioner(self, claim: Obj, name: str) -> None:
        annotations = claim["metadata"].get("annotations") or {}
        if annotations.get(STORAGE_PROVISIONER) != name:
            wanted = {BETA_STORAGE_PROVISIONER: name, STORAGE_PROVISIONER: name}
            patch = {"metadata": {"annotations": wanted}}
            await self.patch(PERSISTENTVOLUMECLAIMS, claim, patch)

    async def patch(self, resource: Resource, obj: Obj, patch: Obj, subresource: str = "") -> Obj:
        """The object with the patch, which is written unless it is empty.

        Raises:
            Conflict: the object has changed since it was read.
        """
        if not patch:
            return obj
        meta = {**(patch.get("metadata") or {}), "resourceVersion": version_of(obj)}
        written = await self._client.patch(
            resource,
            obj["metadata"]["name"],
            namespace=obj["metadata"].get("namespace"),
            patch={**patch, "metadata": meta},
            subresource=subresource,
            field_manager=FIELD_MANAGER,
        )
        self._consistency.wrote_at(key_of(obj), uid_of(obj), resource, version_of(written))
        return written


def _take_size(status: Obj, volume: Obj) -> None:
    whole = volume["spec"].get("capacity") or {}
    known = (status.get("capacity") or {}).get("storage")
    if known is None or Quantity.parse(known) != Quantity.parse(whole.get("storage", "0")):
        status["capacity"] = dict(whole)
