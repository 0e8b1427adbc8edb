"""References from a pod to its own fields and resources."""

from __future__ import annotations

from corral.cluster.apiserver.builtin.validation.fields.errors import Errors
from corral.cluster.apiserver.builtin.validation.fields.names import qualified_name
from corral.cluster.apiserver.builtin.validation.fields.quantities import canonical, nano
from corral.kube.types import Obj

__all__ = ["ENV_FIELDS", "VOLUME_FIELDS", "check_field_ref", "check_resource_field_ref"]

ENV_FIELDS = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
)
VOLUME_FIELDS = (
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
)
_KNOWN = frozenset(ENV_FIELDS + VOLUME_FIELDS) | {
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.host",
    "status.phase",
}
_RESOURCES = (
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
)
_UNITS = ("1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei")
_UNIT_LIST = ", ".join(_UNITS)


def check_field_ref(errs: Errors, ref: Obj, allowed: tuple[str, ...], path: str) -> None:
    """A ``fieldRef``: the field must exist, and be one of those allowed here."""
    if not ref.get("apiVersion"):
        errs.required(f"{path}.apiVersion")
        return
    label = ref.get("fieldPath") or ""
    if not label:
        errs.required(f"{path}.fieldPath")
        return
    found = _subscript(label)
    why = _conversion_error(ref["apiVersion"], label, found[0] if found else None)
    if why:
        errs.invalid(f"{path}.fieldPath", label, f"error converting fieldPath: {why}")
    elif found:
        key = found[1].lower() if found[0] == "metadata.annotations" else found[1]
        errs.format(path, key, qualified_name)
    elif label not in allowed:
        field = "spec.nodeName" if label == "spec.host" else label
        if field not in allowed:
            errs.not_supported(f"{path}.fieldPath", field, allowed)


def _subscript(label: str) -> tuple[str, str] | None:
    """``field['key']`` in two; the field ends at the last bracket. None for anything else."""
    head, bracket, key = label.removesuffix("']").rpartition("['")
    return (head, key) if bracket and label.endswith("']") else None


def _conversion_error(version: str, label: str, subscripted: str | None) -> str:
    if version != "v1":
        return f"unsupported pod version: {version}"
    if subscripted is not None:
        if subscripted in ("metadata.annotations", "metadata.labels"):
            return ""
        return f"field label does not support subscript: {label}"
    return "" if label in _KNOWN else f"field label not supported: {label}"


def check_resource_field_ref(errs: Errors, ref: Obj, path: str, *, volume: bool) -> None:
    resource = ref.get("resource") or ""
    huge = resource.startswith(("requests.hugepages-", "limits.hugepages-"))
    if volume and not ref.get("containerName"):
        errs.required(f"{path}.containerName")
    elif not resource:
        errs.required(f"{path}.resource")
    elif resource not in _RESOURCES and not huge:
        errs.not_supported(f"{path}.resource", resource, _RESOURCES)
    divisor = ref.get("divisor")
    if divisor is not None and nano(divisor):
        _check_divisor(errs, resource, canonical(divisor), f"{path}.divisor", huge)


def _check_divisor(errs: Errors, resource: str, divisor: str, path: str, huge: bool) -> None:
    if resource.endswith(".cpu"):
        if divisor not in ("1m", "1"):
            why = "only divisor's values 1m and 1 are supported with the cpu resource"
            errs.invalid(path, resource, why)
        return
    names = {"memory": "memory", "ephemeral-storage": "local ephemeral storage"}
    name = "hugepages" if huge else names.get(resource.partition(".")[2], "")
    if name and divisor not in _UNITS:
        why = f"only divisor's values {_UNIT_LIST} are supported with the {name} resource"
        errs.invalid(path, resource, why)
