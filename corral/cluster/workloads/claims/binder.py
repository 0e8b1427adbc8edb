"""The life of claims and volumes: what follows from the state of one and of the other.

A claim is unbound until it carries the mark of a completed binding; from then on it has its volume
or is Lost. A volume is Available, Bound, Released when its claim is gone, and reclaimed after that.
Each step can be repeated: a crash between two writes of a binding is finished by the next look.
"""

from __future__ import annotations

from typing import Final

from corral.cluster.workloads.claims import matching
from corral.cluster.workloads.claims.names import (
    BIND_COMPLETED,
    PROVISIONED_BY,
)
from corral.cluster.workloads.claims.view import View
from corral.cluster.workloads.claims.writing import BindingWriter
from corral.cluster.workloads.pods import is_terminal
from corral.kube import errors
from corral.kube.client import KubeClient
from corral.kube.resources import PERSISTENTVOLUMECLAIMS
from corral.kube.types import Obj
from corral.runtime import EventRecorder, join_key, key_of, uid_of

__all__ = ["Binder"]

_IN_TREE: Final = "kubernetes.io/"
_ENDED: Final = ("Released", "Failed")


def _annotations(obj: Obj) -> dict[str, str]:
    found: dict[str, str] = obj["metadata"].get("annotations") or {}
    return found


class Binder:
    """Decides and writes; see ``view`` for what it knows and ``writing`` for what it writes."""

    def __init__(
        self, client: KubeClient, view: View, writer: BindingWriter, recorder: EventRecorder
    ) -> None:
        self._client = client
        self._view = view
        self._writer = writer
        self._recorder = recorder

    # --- claims ----------------------------------------------------------------------------------

    async def sync_claim(self, claim: Obj) -> None:
        if BIND_COMPLETED in _annotations(claim):
            await self._sync_bound(claim)
        elif claim["spec"].get("volumeName"):
            await self._sync_named(claim)
        else:
            await self._sync_unbound(claim)

    async def _sync_bound(self, claim: Obj) -> None:
        name = claim["spec"].get("volumeName")
        if not name:
            what = "reference to PersistentVolume"
            await self._lose(claim, "ClaimLost", f"Bound claim has lost {what}.")
            return
        volume = self._view.volumes.get(name)
        if volume is None:
            await self._lose(claim, "ClaimLost", "Bound claim has lost its PersistentVolume.")
            return
        reference = volume["spec"].get("claimRef")
        if not reference or reference.get("uid") == uid_of(claim):
            await self._writer.bind(volume, claim)
        elif (claim.get("status") or {}).get("phase") != "Lost":
            message = "Two claims are bound to the same volume, this one is bound incorrectly"
            lost = await self._writer.set_claim_status(claim, "Lost")
            self._recorder.warning(lost, "ClaimMisbound", message)

    async def _lose(self, claim: Obj, reason: str, message: str) -> None:
        if (claim.get("status") or {}).get("phase") != "Lost":
            lost = await self._writer.set_claim_status(claim, "Lost")
            self._recorder.warning(lost, reason, f"{message} Data on the volume is lost!")

    async def _sync_named(self, claim: Obj) -> None:
        """A person asked for this very volume."""
        volume = self._view.volumes.get(claim["spec"]["volumeName"])
        if volume is None:
            await self._writer.set_claim_status(claim, "Pending")
            return
        name = volume["metadata"]["name"]
        if not volume["spec"].get("claimRef"):
            why = matching.mismatch(volume, claim)
            if not why:
                await self._writer.bind(volume, claim)
                return
            message = f'Cannot bind to requested volume "{name}": {why}'
            self._recorder.warning(claim, "VolumeMismatch", message)
        elif matching.is_bound_to(volume, claim):
            await self._writer.bind(volume, claim)
            return
        else:
            message = f'volume "{name}" already bound to a different claim.'
            self._recorder.warning(claim, "FailedBinding", message)
        await self._writer.set_claim_status(claim, "Pending")

    async def _sync_unbound(self, claim: Obj) -> None:
        wanted = matching.class_of(claim)
        storage_class = self._view.classes.get(wanted) if wanted else None
        volume = matching.best_match(
            claim,
            named=self._view.named(claim),
            free=self._view.free(wanted),
            delayed=matching.is_delayed(storage_class),
        )
        if volume is not None:
            await self._writer.bind(volume, claim)
            return
        if not matching.has_class(claim):
            default = matching.default_class(self._view.classes)
            if default is not None:
                await self._writer.set_class(claim, default["metadata"]["name"])
                return
        if matching.waits_for_node(claim, storage_class):
            self._tell_waiting(claim)
        elif wanted:
            await self._provision(claim, storage_class)
            return
        else:
            self._recorder.normal(
                claim,
                "FailedBinding",
                "no persistent volumes available for this claim and no storage class is set",
            )
        await self._writer.set_claim_status(claim, "Pending")

    def _tell_waiting(self, claim: Obj) -> None:
        names = [
            pod["metadata"]["name"]
            for pod in self._view.pods_of(key_of(claim))
            if not is_terminal(pod) and not pod["spec"].get("nodeName")
        ]
        if not names:
            message = "waiting for first consumer to be created before binding"
            self._recorder.normal(claim, "WaitForFirstConsumer", message)
            return
        what = f"pod {names[0]}" if len(names) == 1 else f"pods {','.join(names)}"
        self._recorder.normal(claim, "WaitForPodScheduled", f"waiting for {what} to be scheduled")

    async def _provision(self, claim: Obj, storage_class: Obj | None) -> None:
        """Name the provisioner on the claim: that is its signal to begin."""
        wanted = matching.class_of(claim)
        if storage_class is None:
            message = f'storageclass.storage.k8s.io "{wanted}" not found'
            self._recorder.warning(claim, "ProvisioningFailed", message)
            return
        provisioner = storage_class["provisioner"]
        if provisioner.startswith(_IN_TREE):
            message = f"no volume plugin matched name: {provisioner}"
            self._recorder.warning(claim, "ProvisioningFailed", message)
            return
        await self._writer.set_provisioner(claim, provisioner)
        self._recorder.normal(
            claim,
            "ExternalProvisioning",
            f"Waiting for a volume to be created either by the external provisioner "
            f"'{provisioner}' or manually by the system administrator. If volume creation is "
            "delayed, please verify that the provisioner is running and correctly registered.",
        )

    # --- volumes ---------------------------------------------------------------------------------

    async def sync_volume(self, volume: Obj) -> str | None:
        """Bring a volume's phase up to date; gives the key of a claim to look at, if any."""
        reference = volume["spec"].get("claimRef")
        if not reference or not reference.get("uid"):
            await self._writer.set_phase(volume, "Available")
            return join_key(reference["namespace"], reference["name"]) if reference else None
        claim = await self._claim_of(volume, reference)
        if claim is None:
            await self._reclaim(await self._release(volume))
        elif not claim["spec"].get("volumeName"):
            if not matching.modes_differ(claim, volume):
                return key_of(claim)
            self._tell_modes(volume, claim)
        elif claim["spec"]["volumeName"] == volume["metadata"]["name"]:
            await self._writer.set_phase(volume, "Bound")
        elif PROVISIONED_BY in _annotations(volume) and _policy(volume) == "Delete":
            await self._reclaim(await self._release(volume))
        else:
            await self._writer.unbind(volume)
        return None

    async def _claim_of(self, volume: Obj, reference: Obj) -> Obj | None:
        """The claim that a volume was bound to, if it still exists.

        A cache that does not know the claim is not believed: it may be younger than the cache.
        """
        key = join_key(reference["namespace"], reference["name"])
        claim = self._view.claims.get(key)
        if claim is not None and uid_of(claim) == reference["uid"]:
            return claim
        if claim is None and (volume.get("status") or {}).get("phase") in _ENDED:
            return None
        try:
            claim = await self._client.get(
                PERSISTENTVOLUMECLAIMS, reference["name"], namespace=reference["namespace"]
            )
        except errors.NotFound:
            return None
        return claim if uid_of(claim) == reference["uid"] else None

    def _tell_modes(self, volume: Obj, claim: Obj) -> None:
        name = claim["metadata"]["name"]
        self._recorder.warning(
            volume,
            "VolumeMismatch",
            f'Cannot bind PersistentVolume to requested PersistentVolumeClaim "{name}" due to '
            "incompatible volumeMode.",
        )
        name = volume["metadata"]["name"]
        self._recorder.warning(
            claim,
            "VolumeMismatch",
            f'Cannot bind PersistentVolume "{name}" to requested PersistentVolumeClaim due to '
            "incompatible volumeMode.",
        )

    async def _release(self, volume: Obj) -> Obj:
        if (volume.get("status") or {}).get("phase") in _ENDED:
            return volume
        return await self._writer.set_phase(volume, "Released")

    async def _reclaim(self, volume: Obj) -> None:
        """What is deleted, its provisioner deletes; we have no volumes of our own to delete."""
        provisioner = _annotations(volume).get(PROVISIONED_BY, "")
        match _policy(volume):
            case "Retain":
                return
            case "Delete" if provisioner and not provisioner.startswith(_IN_TREE):
                return
            case "Delete":
                name = volume["metadata"]["name"]
                why = f'error getting deleter volume plugin for volume "{name}"'
                message = f"{why}: no deletable volume plugin matched"
                await self._fail(volume, "VolumeFailedDelete", message)
            case "Recycle":
                message = "No recycler plugin found for the volume!"
                await self._fail(volume, "VolumeFailedRecycle", message)
            case _:
                message = "Volume has unrecognized PersistentVolumeReclaimPolicy"
                await self._fail(volume, "VolumeUnknownReclaimPolicy", message)

    async def _fail(self, volume: Obj, reason: str, message: str) -> None:
        if (volume.get("status") or {}).get("phase") != "Failed":
            failed = await self._writer.set_phase(volume, "Failed", message)
            self._recorder.warning(failed, reason, message)


def _policy(volume: Obj) -> str:
    return str(volume["spec"].get("persistentVolumeReclaimPolicy") or "Retain")
