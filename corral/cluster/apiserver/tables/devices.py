"""Device claims, trust and storage migrations."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from corral.cluster.apiserver.tables.cells import NONE, Row, age, born, labels
from corral.kube.types import Obj

__all__ = ["ROWS"]

_RESOURCES = "resource.k8s.io"
_OUTCOMES = ("Issued", "Denied", "Failed")
_PHASES = ("Running", "Failed", "Succeeded")


def _plain(obj: Obj, now: datetime) -> list[Any]:
    return [obj["metadata"].get("name", ""), born(obj, now)]


def _claim(obj: Obj, now: datetime) -> list[Any]:
    meta, status = obj["metadata"], obj.get("status") or {}
    states = ["deleted"] if "deletionTimestamp" in meta else []
    if status.get("allocation") is not None:
        states.append("allocated")
        if status.get("reservedFor"):
            states.append("reserved")
    elif not states:
        states.append("pending")
    return [meta.get("name", ""), ",".join(states), born(obj, now)]


def _slice(obj: Obj, now: datetime) -> list[Any]:
    spec = obj.get("spec") or {}
    pool = (spec.get("pool") or {}).get("name", "")
    where = spec.get("nodeName", "")
    return [obj["metadata"].get("name", ""), where, spec.get("driver", ""), pool, born(obj, now)]


def _taint_rule(obj: Obj, now: datetime) -> list[Any]:
    taint = (obj.get("spec") or {}).get("taint") or {}
    added = taint.get("timeAdded")
    return [
        obj["metadata"].get("name", ""),
        *(taint.get(key, "") for key in ("key", "value", "effect")),
        age(added, now) if added else "",
        born(obj, now),
    ]


def _trust_bundle(obj: Obj, now: datetime) -> list[Any]:
    signer = (obj.get("spec") or {}).get("signerName") or NONE
    return [obj["metadata"].get("name", ""), signer]


def _certificate_request(obj: Obj, now: datetime) -> list[Any]:
    spec = obj.get("spec") or {}
    state = "Pending"
    for condition in (obj.get("status") or {}).get("conditions") or ():
        if condition.get("type") in _OUTCOMES:
            state = condition["type"]
    names = (spec.get(k, "") for k in ("podName", "serviceAccountName", "nodeName", "signerName"))
    notes = labels(spec.get("unverifiedUserAnnotations"))
    return [obj["metadata"].get("name", ""), *names, state, notes]


def _migration(obj: Obj, now: datetime) -> list[Any]:
    resource = (obj.get("spec") or {}).get("resource") or {}
    named = ".".join(filter(None, (resource.get("resource", ""), resource.get("group", ""))))
    status = "Unknown"
    for condition in (obj.get("status") or {}).get("conditions") or ():
        if condition.get("status") == "True" and condition.get("type") in _PHASES:
            status = condition["type"]
    return [obj["metadata"].get("name", ""), named, status]


ROWS: dict[tuple[str, str], Row] = {
    (_RESOURCES, "DeviceClass"): _plain,
    (_RESOURCES, "DeviceTaintRule"): _taint_rule,
    (_RESOURCES, "ResourceClaim"): _claim,
    (_RESOURCES, "ResourceClaimTemplate"): _plain,
    (_RESOURCES, "ResourceSlice"): _slice,
    ("certificates.k8s.io", "ClusterTrustBundle"): _trust_bundle,
    ("certificates.k8s.io", "PodCertificateRequest"): _certificate_request,
    ("storagemigration.k8s.io", "StorageVersionMigration"): _migration,
}
