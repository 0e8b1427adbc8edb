"""Printed forms of whole structures inside messages.

The API prints some bad values as its own internal structures: every field, Go names, nulls
included. The few that people meet are rebuilt here.
"""

from __future__ import annotations

from typing import Any

from corral.kube.types import Obj

__all__ = ["capitalised", "claim", "disruption_budget_spec", "security_context", "toleration"]


def _capital(name: str) -> str:
    return name[:1].upper() + name[1:]


def capitalised(value: Any) -> Any:
    """A structure with Go-style names: the fields that are set, in the order they came."""
    if isinstance(value, dict):
        return {_capital(k): capitalised(v) for k, v in value.items()}
    if isinstance(value, list):
        return [capitalised(v) for v in value]
    return value


def _pick(obj: Obj, names: tuple[str, ...]) -> Obj:
    return {_capital(n): capitalised(obj.get(n)) for n in names}


_SECURITY = (
    "capabilities",
    "privileged",
    "seLinuxOptions",
    "windowsOptions",
    "runAsUser",
    "runAsGroup",
    "runAsNonRoot",
    "readOnlyRootFilesystem",
    "allowPrivilegeEscalation",
    "procMount",
    "seccompProfile",
    "appArmorProfile",
)


def security_context(context: Obj) -> Obj:
    shown = _pick(context, _SECURITY)
    out = {("SELinuxOptions" if k == "SeLinuxOptions" else k): v for k, v in shown.items()}
    if (caps := context.get("capabilities")) is not None:
        out["Capabilities"] = {"Add": caps.get("add"), "Drop": caps.get("drop")}
    return out


def disruption_budget_spec(spec: Obj) -> Obj:
    return {
        "MinAvailable": spec.get("minAvailable"),
        "Selector": spec.get("selector"),
        "MaxUnavailable": spec.get("maxUnavailable"),
        "UnhealthyPodEvictionPolicy": spec.get("unhealthyPodEvictionPolicy"),
    }


def toleration(item: Obj) -> Obj:
    return {
        "Key": item.get("key") or "",
        "Operator": item.get("operator") or "",
        "Value": item.get("value") or "",
        "Effect": item.get("effect") or "",
        "TolerationSeconds": item.get("tolerationSeconds"),
    }


_CLAIM_SPEC = (
    "accessModes",
    "selector",
    "resources",
    "volumeName",
    "storageClassName",
    "volumeMode",
    "dataSource",
    "dataSourceRef",
    "volumeAttributesClassName",
)
_CLAIM_STATUS = (
    "phase",
    "accessModes",
    "capacity",
    "conditions",
    "allocatedResources",
    "allocatedResourceStatuses",
    "currentVolumeAttributesClassName",
    "modifyVolumeStatus",
    "healthStatus",
)


def claim(obj: Obj) -> Obj:
    """A PersistentVolumeClaim as it stands in a template."""
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    shown = _pick(spec, _CLAIM_SPEC)
    resources = spec.get("resources") or {}
    shown["VolumeName"] = spec.get("volumeName") or ""
    shown["Resources"] = {"Limits": resources.get("limits"), "Requests": resources.get("requests")}
    if (selector := spec.get("selector")) is not None:
        shown["Selector"] = selector
    return {
        **(obj.get("metadata") or {}),
        "Spec": shown,
        "Status": {**_pick(status, _CLAIM_STATUS), "Phase": status.get("phase") or ""},
    }
