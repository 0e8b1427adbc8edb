"""The checkpoint volume and the report token of a pod, and what containers are told. No I/O.

A claim or a folder of the machine holds the checkpoints themselves; for object stores the pod has
an empty directory in which it prepares what it sends. A template that mounts something at the path
itself, or has a volume of that name, keeps it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from corral.api.fields import span_seconds
from corral.checkpoints.places import PlaceRefused
from corral.families.trainingjob.checkpoints.places import local_folder
from corral.families.trainingjob.names import claim_name
from corral.families.trainingjob.objects.problems import NoLocalStorage
from corral.kube.types import Obj
from corral.runtime.pods.reports import CHECKPOINT_VOLUME

__all__ = [
    "add_volume",
    "checkpoint_env",
    "checkpoint_volume",
    "mount_path",
]

_VOLUMES: Final = ("pvc", "local")


def mount_path(spec: Obj) -> str:
    """Where containers find the checkpoint volume."""
    return str(spec["checkpoint"].get("mountPath") or "/checkpoints")


def checkpoint_env(spec: Obj, restore_from: str) -> dict[str, str]:
    """What containers are told about checkpoints; nothing if the job makes none."""
    checkpoint = spec.get("checkpoint")
    if not checkpoint:
        return {}
    kept = any(checkpoint["storage"].get(kind) is not None for kind in _VOLUMES)
    return {
        "CORRAL_CHECKPOINT_DIR": mount_path(spec),
        "CORRAL_CHECKPOINT_STORE": "volume" if kept else "remote",
        "CORRAL_CHECKPOINT_INTERVAL": str(span_seconds(checkpoint.get("interval") or "10m")),
        "CORRAL_RESTORE_FROM": restore_from,
    }


def checkpoint_volume(job: Obj, *, local_root: Path | None) -> Obj | None:
    """The volume at the mount path; None if the job makes no checkpoints.

    Raises:
        NoLocalStorage: folders of the machine are not to be had in this cluster.
    """
    checkpoint = job["spec"].get("checkpoint")
    if not checkpoint:
        return None
    storage = checkpoint["storage"]
    if storage.get("pvc") is not None:
        claim = {"claimName": claim_name(job["metadata"]["name"])}
        return {"name": CHECKPOINT_VOLUME, "persistentVolumeClaim": claim}
    if storage.get("local") is None:
        return {"name": CHECKPOINT_VOLUME, "emptyDir": {}}
    try:
        folder = local_folder(job, local_root)
    except PlaceRefused as error:
        raise NoLocalStorage(str(error)) from error
    place = {"path": str(folder), "type": "DirectoryOrCreate"}
    return {"name": CHECKPOINT_VOLUME, "hostPath": place}


def add_volume(pod: Obj, volume: Obj, path: str, *, read_only: bool = False) -> None:
    """Mount a volume in every container of a pod's spec, in place."""
    volumes = pod.setdefault("volumes", [])
    if not any(known.get("name") == volume["name"] for known in volumes):
        volumes.append(volume)
    mount: Obj = {"name": volume["name"], "mountPath": path}
    if read_only:
        mount["readOnly"] = True
    for container in pod.get("containers") or ():
        mounts = container.setdefault("volumeMounts", [])
        if not any(_same(known.get("mountPath", ""), path) for known in mounts):
            mounts.append(dict(mount))


def _same(one: str, other: str) -> bool:
    return one.rstrip("/") == other.rstrip("/")
