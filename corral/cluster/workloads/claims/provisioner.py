"""The provisioner ``corral.dev/folder``: a folder for every claim that asks for one.

Works with our binder and with kube-controller-manager alike, as any external provisioner does.

Guarantees:
- A claim has one volume, ``pvc-<uid>``, and one folder of that name, however often it is tried.
- A folder is removed only when its volume's policy is Delete and its claim is gone, as the API
  server says at that moment; never anything outside the folder given, never through a link.
- A volume goes after its folder: a crash in between is finished by the next look.
- A claim that grows gets its new size: folders have no limit of their own.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Final

from corral.cluster.workloads.claims import matching
from corral.cluster.workloads.claims.folders import make_folder, remove_folder
from corral.cluster.workloads.claims.names import (
    FOLDER_FINALIZER,
    PROVISIONED_BY,
    PROVISIONER,
    STORAGE_PROVISIONER,
)
from corral.cluster.workloads.pods import is_deleting
from corral.kube import errors
from corral.kube.resources import PERSISTENTVOLUMECLAIMS, PERSISTENTVOLUMES, STORAGECLASSES
from corral.kube.types import Obj
from corral.runtime import (
    Change,
    Manager,
    Result,
    TerminalError,
    has_finalizer,
    key_of,
    remove_finalizer,
    uid_of,
    version_of,
)

__all__ = ["FOLDER_VARIABLE", "FolderProvisioner", "register"]

FOLDER_VARIABLE: Final = "CORRAL_CLAIMS_DIR"
FIELD_MANAGER: Final = PROVISIONER
_WORKERS: Final = 4
_CONFLICT_DELAY: Final = 0.02


def register(manager: Manager, folder: Path | None = None) -> None:
    """Add the provisioner to a manager.

    Args:
        manager: That of the workload controllers, or one beside kube-controller-manager.
        folder: Where the folders of claims are; by default what CORRAL_CLAIMS_DIR says.

    Raises:
        ValueError: no folder was given, or it is not absolute.
    """
    if folder is None:
        named = os.environ.get(FOLDER_VARIABLE)
        if not named:
            raise ValueError(f"no folder for claims: give one, or set {FOLDER_VARIABLE}")
        folder = Path(named)
    if not folder.is_absolute():
        raise ValueError(f"the folder for claims must be an absolute path: {folder}")
    FolderProvisioner(manager, folder)


class FolderProvisioner:
    """Makes and deletes volumes: two queues, claims by key and volumes by name."""

    def __init__(self, manager: Manager, folder: Path) -> None:
        claims = manager.informer(PERSISTENTVOLUMECLAIMS)
        volumes, classes = manager.informer(PERSISTENTVOLUMES), manager.informer(STORAGECLASSES)
        self._client = manager.client
        self._folder = folder
        self._claims, self._volumes, self._classes = claims.store, volumes.store, classes.store
        self._recorder = manager.recorder(PROVISIONER)
        making = manager.controller("folder-provisioner", self.provision, workers=_WORKERS)
        making.watch(claims, when=lambda change: change.new is not None)
        making.informers += [volumes, classes]
        removing = manager.controller("folder-deleter", self.remove, workers=_WORKERS)
        removing.watch(volumes, when=_is_ours)
        removing.informers.append(claims)

    # --- making ----------------------------------------------------------------------------------

    async def provision(self, key: str) -> Result | None:
        """Make the volume of a claim that waits for us; grow one that has grown."""
        claim = self._claims.get(key)
        if claim is None or is_deleting(claim):
            return None
        if claim["spec"].get("volumeName"):
            return await self._grow(claim)
        storage_class = self._wanted_class(claim)
        if storage_class is None or self._volume_name(claim) in self._volumes:
            return None
        why = _unsupported(claim, storage_class)
        if why:
            self._recorder.warning(
                claim,
                "ProvisioningFailed",
                f'failed to provision volume with StorageClass "{matching.class_of(claim)}": {why}',
            )
            return None
        await self._make(claim, storage_class)
        return None

    def _wanted_class(self, claim: Obj) -> Obj | None:
        """The class of a claim that the binder has given to us, and that waits for nothing."""
        annotations = claim["metadata"].get("annotations") or {}
        storage_class = self._classes.get(matching.class_of(claim) or "-")
        if annotations.get(STORAGE_PROVISIONER) != PROVISIONER or storage_class is None:
            return None
        if storage_class["provisioner"] != PROVISIONER:
            return None
        return None if matching.waits_for_node(claim, storage_class) else storage_class

    def _volume_name(self, claim: Obj) -> str:
        return f"pvc-{uid_of(claim)}"

    async def _make(self, claim: Obj, storage_class: Obj) -> None:
        name = self._volume_name(claim)
        self._recorder.normal(
            claim,
            "Provisioning",
            f'External provisioner is provisioning volume for claim "{key_of(claim)}"',
        )
        path = self._folder / name
        try:
            await asyncio.to_thread(make_folder, path)
        except OSError as err:
            message = (
                f'failed to provision volume with StorageClass "{matching.class_of(claim)}": {err}'
            )
            self._recorder.warning(claim, "ProvisioningFailed", message)
            raise
        try:
            await self._client.create(
                PERSISTENTVOLUMES,
                _volume(claim, storage_class, name=name, path=path),
                field_manager=FIELD_MANAGER,
            )
        except errors.AlreadyExists:
            return  # an earlier try of ours that the cache has not seen
        self._recorder.normal(
            claim, "ProvisioningSucceeded", f"Successfully provisioned volume {name}"
        )

    async def _grow(self, claim: Obj) -> Result | None:
        volume = self._volumes.get(claim["spec"]["volumeName"])
        status = claim.get("status") or {}
        if volume is None or status.get("phase") != "Bound" or not _made_by_us(volume):
            return None
        wanted = matching.requested(claim)
        size = claim["spec"]["resources"]["requests"]["storage"]
        try:
            if matching.capacity(volume) < wanted:
                meta = {"resourceVersion": version_of(volume)}
                await self._client.patch(
                    PERSISTENTVOLUMES,
                    volume["metadata"]["name"],
                    patch={"metadata": meta, "spec": {"capacity": {"storage": size}}},
                    field_manager=FIELD_MANAGER,
                )
            if matching.capacity({"spec": status}) < wanted:
                await self._client.patch(
                    PERSISTENTVOLUMECLAIMS,
                    claim["metadata"]["name"],
                    namespace=claim["metadata"]["namespace"],
                    patch={
                        "metadata": {"resourceVersion": version_of(claim)},
                        "status": {"capacity": {"storage": size}},
                    },
                    subresource="status",
                    field_manager=FIELD_MANAGER,
                )
                self._recorder.normal(claim, "VolumeResizeSuccessful", "Resize volume succeeded")
        except errors.Conflict:
            return Result(requeue_after=_CONFLICT_DELAY)
        return None

    # --- removing --------------------------------------------------------------------------------

    async def remove(self, key: str) -> Result | None:
        """Remove folder and volume when nobody needs them any more."""
        volume = self._volumes.get(key)
        if volume is None or not _made_by_us(volume):
            return None
        try:
            if volume["spec"].get("persistentVolumeReclaimPolicy") != "Delete":
                if is_deleting(volume):
                    await self._let_go(volume)
            elif _is_released(volume) and not await self._is_claimed(volume):
                await self._remove_folder(volume)
                await self._delete(volume)
        except errors.Conflict:
            return Result(requeue_after=_CONFLICT_DELAY)
        return None

    async def _is_claimed(self, volume: Obj) -> bool:
        """Whether the claim exists and has this volume or none: the server's word, not ours."""
        reference = volume["spec"].get("claimRef")
        if not reference:
            return False
        try:
            claim = await self._client.get(
                PERSISTENTVOLUMECLAIMS, reference["name"], namespace=reference["namespace"]
            )
        except errors.NotFound:
            return False
        if uid_of(claim) != reference.get("uid"):
            return False
        return claim["spec"].get("volumeName") in (None, "", volume["metadata"]["name"])

    async def _remove_folder(self, volume: Obj) -> None:
        name = volume["metadata"]["name"]
        path = Path((volume["spec"].get("hostPath") or {}).get("path", ""))
        if path != self._folder / name:
            message = f"{path} is not the folder of {name} in {self._folder}"
            self._recorder.warning(volume, "VolumeFailedDelete", message)
            raise TerminalError(message)
        try:
            await asyncio.to_thread(remove_folder, path)
        except OSError as err:
            self._recorder.warning(volume, "VolumeFailedDelete", str(err))
            raise

    async def _delete(self, volume: Obj) -> None:
        if not is_deleting(volume):
            try:
                left = await self._client.delete(
                    PERSISTENTVOLUMES, volume["metadata"]["name"], uid=uid_of(volume)
                )
            except errors.NotFound:
                return
            if left.get("kind") == "PersistentVolume":
                volume = left
        await self._let_go(volume)

    async def _let_go(self, volume: Obj) -> None:
        if has_finalizer(volume, FOLDER_FINALIZER):
            await remove_finalizer(
                self._client,
                PERSISTENTVOLUMES,
                volume,
                finalizer=FOLDER_FINALIZER,
                field_manager=FIELD_MANAGER,
            )


def _unsupported(claim: Obj, storage_class: Obj) -> str:
    """What a folder cannot be; empty when it can be all that is asked."""
    spec = claim["spec"]
    if (spec.get("volumeMode") or "Filesystem") != "Filesystem":
        return f"{PROVISIONER} does not support block volume provisioning"
    if spec.get("selector") is not None:
        return "claim Selector is not supported"
    if spec.get("dataSource") or spec.get("dataSourceRef"):
        return "claims with a data source are not supported"
    if storage_class.get("mountOptions"):
        return "mount options are not supported"
    return ""


def _volume(claim: Obj, storage_class: Obj, *, name: str, path: Path) -> Obj:
    spec, meta = claim["spec"], claim["metadata"]
    policy = storage_class.get("reclaimPolicy") or "Delete"
    volume_meta: Obj = {"name": name, "annotations": {PROVISIONED_BY: PROVISIONER}}
    if policy == "Delete":
        volume_meta["finalizers"] = [FOLDER_FINALIZER]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": volume_meta,
        "spec": {
            "accessModes": spec["accessModes"],
            "capacity": {"storage": spec["resources"]["requests"]["storage"]},
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": meta["namespace"],
                "name": meta["name"],
                "uid": meta["uid"],
                "resourceVersion": version_of(claim),
            },
            "hostPath": {"path": str(path), "type": "DirectoryOrCreate"},
            "persistentVolumeReclaimPolicy": policy,
            "storageClassName": matching.class_of(claim),
            "volumeMode": "Filesystem",
        },
    }


def _made_by_us(volume: Obj) -> bool:
    annotations = volume["metadata"].get("annotations") or {}
    return bool(annotations.get(PROVISIONED_BY) == PROVISIONER)


def _is_ours(change: Change) -> bool:
    return change.new is not None and _made_by_us(change.new)


def _is_released(volume: Obj) -> bool:
    phase = (volume.get("status") or {}).get("phase")
    return phase in ("Released", "Failed") or (is_deleting(volume) and phase != "Bound")
