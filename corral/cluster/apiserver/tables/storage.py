"""Rows of volumes, claims, their classes and the drivers behind them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from corral.cluster.apiserver.tables.cells import NONE, UNSET, Row, born
from corral.kube.types import Obj

__all__ = ["ROWS", "class_rows"]

_CLASS = "volume.beta.kubernetes.io/storage-class"
_DEFAULTS = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
_MODES = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}


def _modes(found: list[str] | None) -> str:
    return ",".join(short for mode, short in _MODES.items() if mode in (found or ()))


def _phase(obj: Obj, status: Obj) -> str:
    deleted = obj["metadata"].get("deletionTimestamp") is not None
    return "Terminating" if deleted else status.get("phase", "")


def _class(obj: Obj, spec: Obj) -> str:
    annotations = obj["metadata"].get("annotations") or {}
    return str(annotations.get(_CLASS, spec.get("storageClassName", "")))


def _volume(obj: Obj, now: datetime) -> list[Any]:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    claim = spec.get("claimRef")
    return [
        obj["metadata"].get("name", ""),
        (spec.get("capacity") or {}).get("storage", "0"),
        _modes(spec.get("accessModes")),
        spec.get("persistentVolumeReclaimPolicy", ""),
        _phase(obj, status),
        f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else "",
        _class(obj, spec),
        spec.get("volumeAttributesClassName", UNSET),
        status.get("reason", ""),
        born(obj, now),
        spec.get("volumeMode", UNSET),
    ]


def _claim(obj: Obj, now: datetime) -> list[Any]:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    volume = spec.get("volumeName", "")
    return [
        obj["metadata"].get("name", ""),
        _phase(obj, status),
        volume,
        (status.get("capacity") or {}).get("storage", "0") if volume else "",
        _modes(status.get("accessModes")) if volume else "",
        _class(obj, spec),
        spec.get("volumeAttributesClassName", UNSET),
        born(obj, now),
        spec.get("volumeMode", UNSET),
    ]


def _storage_class(obj: Obj, now: datetime) -> list[Any]:
    return [
        obj["metadata"].get("name", ""),
        obj.get("provisioner", ""),
        obj.get("reclaimPolicy", "Delete"),
        obj.get("volumeBindingMode", "Immediate"),
        obj.get("allowVolumeExpansion", False),
        born(obj, now),
    ]


def class_rows(objs: list[Obj], now: datetime) -> list[list[Any]]:
    """The rows of a list of classes, with the one marked that claims without a class get.

    That is the newest of the default ones; of two made at the same time the first by name.
    """
    rows = [_storage_class(obj, now) for obj in objs]
    best: tuple[str, str] | None = None
    place = -1
    for at, obj in enumerate(objs):
        meta = obj["metadata"]
        annotations = meta.get("annotations") or {}
        if not any(annotations.get(key) == "true" for key in _DEFAULTS):
            continue
        made, name = meta.get("creationTimestamp") or "", meta.get("name", "")
        if best is None or made > best[0] or (made == best[0] and name < best[1]):
            best, place = (made, name), at
    if best is not None:
        rows[place][0] += " (default)"
    return rows


def _attributes_class(obj: Obj, now: datetime) -> list[Any]:
    return [obj["metadata"].get("name", ""), obj.get("driverName", ""), born(obj, now)]


def _attachment(obj: Obj, now: datetime) -> list[Any]:
    spec = obj.get("spec") or {}
    return [
        obj["metadata"].get("name", ""),
        spec.get("attacher", ""),
        (spec.get("source") or {}).get("persistentVolumeName", ""),
        spec.get("nodeName", ""),
        (obj.get("status") or {}).get("attached", False),
        born(obj, now),
    ]


def _csi_node(obj: Obj, now: datetime) -> list[Any]:
    drivers = (obj.get("spec") or {}).get("drivers") or ()
    return [obj["metadata"].get("name", ""), len(drivers), born(obj, now)]


def _csi_driver(obj: Obj, now: datetime) -> list[Any]:
    spec = obj.get("spec") or {}
    tokens = spec.get("tokenRequests")
    return [
        obj["metadata"].get("name", ""),
        spec.get("attachRequired", True),
        spec.get("podInfoOnMount", False),
        spec.get("storageCapacity", False),
        ",".join(token.get("audience", "") for token in tokens) if tokens else UNSET,
        spec.get("requiresRepublish", False),
        ",".join(spec.get("volumeLifecycleModes") or ()) or NONE,
        born(obj, now),
    ]


ROWS: dict[tuple[str, str], Row] = {
    ("", "PersistentVolume"): _volume,
    ("", "PersistentVolumeClaim"): _claim,
    ("storage.k8s.io", "StorageClass"): _storage_class,
    ("storage.k8s.io", "VolumeAttributesClass"): _attributes_class,
    ("storage.k8s.io", "VolumeAttachment"): _attachment,
    ("storage.k8s.io", "CSINode"): _csi_node,
    ("storage.k8s.io", "CSIDriver"): _csi_driver,
}
