"""PersistentVolumeClaims and PersistentVolumes."""

from __future__ import annotations

import posixpath

from corral.cluster.apiserver.builtin.validation.fields import check
from corral.cluster.apiserver.builtin.validation.fields.differences import difference
from corral.cluster.apiserver.builtin.validation.fields.errors import IMMUTABLE, Errors, same
from corral.cluster.apiserver.builtin.validation.fields.meta import check_annotations, check_labels
from corral.cluster.apiserver.builtin.validation.fields.paths import check_no_backsteps
from corral.cluster.apiserver.builtin.validation.fields.quantities import (
    canonical,
    cmp_quantity,
    nano,
    value_of,
)
from corral.cluster.apiserver.builtin.validation.fields.rules import Kinds, Rules
from corral.cluster.apiserver.builtin.validation.fields.selectors import check_selector
from corral.cluster.apiserver.builtin.validation.pods.scheduling import check_node_selector
from corral.cluster.apiserver.builtin.validation.pods.volumes import (
    MORE_THAN_ONE,
    REPORTED_AS,
    SOURCE_CHECKS,
    check_csi_driver_name,
)
from corral.kube.types import Obj

__all__ = ["CLAIM_SPEC", "KINDS", "check_claim_template"]

_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_VOLUME_MODE = check.choice("Block", "Filesystem")
_RECLAIM = check.choice("Delete", "Recycle", "Retain")
_CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"


def _check_modes(errs: Errors, modes: list[str], path: str) -> None:
    for mode in modes:
        if mode not in _MODES:
            errs.not_supported(path, mode, _MODES)
    known = [m for m in modes if m in _MODES]
    if "ReadWriteOncePod" in known and any(m != "ReadWriteOncePod" for m in known):
        errs.forbidden(path, "may not use ReadWriteOncePod with other access modes")


def _check_core_kind(errs: Errors, source: Obj, path: str) -> None:
    if not source.get("apiGroup") and source.get("kind") != "PersistentVolumeClaim":
        why = "must be 'PersistentVolumeClaim' when referencing the default apiGroup"
        errs.invalid(path, source.get("kind") or "", why)


_DATA_SOURCE = check.struct(
    check.needed("name kind"),
    _check_core_kind,
    check.optional("apiGroup", check.SUBDOMAIN),
    check.optional("namespace", check.LABEL),
)


def _check_data_sources(errs: Errors, spec: Obj, path: str) -> None:
    source, ref = spec.get("dataSource"), spec.get("dataSourceRef")
    check.pointer("dataSource dataSourceRef", _DATA_SOURCE)(errs, spec, path)
    if source is None or ref is None:
        return
    if ref.get("namespace"):
        errs.invalid(path, {}, "may not be specified when dataSourceRef.namespace is specified")
    elif any(source.get(k) != ref.get(k) for k in ("apiGroup", "kind", "name")):
        errs.invalid(path, {}, "must match dataSourceRef")


def _check_storage(errs: Errors, spec: Obj, path: str) -> None:
    storage = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    where = f"{path}.resources[storage]"
    if storage is None:
        errs.required(where)
    elif nano(storage) <= 0:
        errs.invalid(where, canonical(storage), "must be greater than zero")


CLAIM_SPEC = check.struct(
    check.needed("accessModes", why="at least 1 access mode is required"),
    check.pointer("selector", check_selector),
    check.optional("accessModes", _check_modes),
    _check_storage,
    check.optional("storageClassName", check.SUBDOMAIN),
    check.pointer("volumeMode", _VOLUME_MODE),
    _check_data_sources,
    check.optional("volumeAttributesClassName", check.SUBDOMAIN),
)
"""The spec of a claim."""


def check_claim_template(errs: Errors, template: Obj, path: str) -> None:
    """The claim an ephemeral volume makes: of its metadata only labels and annotations count."""
    meta = template.get("metadata") or {}
    check_annotations(errs, meta.get("annotations"), f"{path}.metadata.annotations")
    check_labels(errs, meta.get("labels"), f"{path}.metadata.labels")
    for name, value in meta.items():
        if value and name not in ("annotations", "labels"):
            errs.forbidden(f"{path}.metadata.{name}", "cannot be set")
    CLAIM_SPEC(errs, template.get("spec") or {}, f"{path}.spec")


def validate_claim(errs: Errors, obj: Obj) -> None:
    CLAIM_SPEC(errs, obj.get("spec") or {}, "spec")


def _class_annotation(obj: Obj) -> str:
    annotations = (obj.get("metadata") or {}).get("annotations") or {}
    return str(annotations.get(_CLASS_ANNOTATION) or "")


def _comparable(new: Obj, old: Obj) -> Obj:
    """The new claim spec without what a user may change."""
    after, before = dict(new.get("spec") or {}), old.get("spec") or {}
    if not before.get("volumeName"):
        after.pop("volumeName", None)
    if before.get("storageClassName") is None and after.get("storageClassName") is not None:
        annotated = _class_annotation(old)
        if not annotated or annotated == after["storageClassName"]:
            after.pop("storageClassName")
    if (new.get("status") or {}).get("phase") == "Bound":
        old_resources = before.get("resources") or {}
        resources = dict(after.get("resources") or {})
        requests = dict(resources.get("requests") or {})
        if requests:
            requests["storage"] = (old_resources.get("requests") or {}).get("storage")
            after["resources"] = {**resources, "requests": requests}
        if before.get("volumeAttributesClassName") is None:
            after.pop("volumeAttributesClassName", None)
        else:
            after["volumeAttributesClassName"] = before["volumeAttributesClassName"]
    return after


def _storage(obj: Obj) -> str:
    requests = ((obj.get("spec") or {}).get("resources") or {}).get("requests") or {}
    return str(requests.get("storage") or "0")


def validate_claim_update(errs: Errors, new: Obj, old: Obj) -> None:
    validate_claim(errs, new)
    if _class_annotation(new) != _class_annotation(old):
        errs.invalid(f"metadata.annotations.{_CLASS_ANNOTATION}", _class_annotation(new), IMMUTABLE)
    before = dict(old.get("spec") or {})
    after = _comparable(new, old)
    if not same(after, before):
        why = (
            "spec is immutable after creation except resources.requests and "
            "volumeAttributesClassName for bound claims\n"
        )
        errs.forbidden("spec", why + difference("core.PersistentVolumeClaimSpec", before, after))
    if cmp_quantity(_storage(new), _storage(old)) < 0:
        capacity = ((old.get("status") or {}).get("capacity") or {}).get("storage") or "0"
        if cmp_quantity(_storage(new), capacity) <= 0:
            why = "field can not be less than status.capacity"
            errs.forbidden("spec.resources.requests.storage", why)
    spec = new.get("spec") or {}
    errs.immutable("volumeMode", spec.get("volumeMode"), before.get("volumeMode"))


def validate_claim_status(errs: Errors, new: Obj, old: Obj) -> None:
    if not (new.get("spec") or {}).get("accessModes"):
        errs.required("Spec.accessModes")
    for name, amount in ((new.get("status") or {}).get("capacity") or {}).items():
        _check_basic(errs, amount, f"status.capacity[{name}]")


def _check_basic(errs: Errors, amount: str, path: str) -> None:
    if value_of(amount) < 0:
        errs.invalid(path, value_of(amount), "must be a valid resource quantity")


_SECRET_REF = check.struct(
    check.needed("name", check.SUBDOMAIN), check.needed("namespace", check.LABEL)
)
_CSI = check.struct(
    check.always("driver", check_csi_driver_name),
    check.needed("volumeHandle"),
    check.pointer(
        "controllerPublishSecretRef controllerExpandSecretRef nodePublishSecretRef "
        "nodeExpandSecretRef",
        _SECRET_REF,
    ),
)
_NOT_PERSISTENT = (
    "emptyDir",
    "gitRepo",
    "secret",
    "persistentVolumeClaim",
    "downwardAPI",
    "configMap",
    "projected",
    "ephemeral",
    "image",
)
_SOURCES = {
    **{k: v for k, v in SOURCE_CHECKS.items() if k not in (*_NOT_PERSISTENT, "csi", "storageos")},
    "local": check.needed("path", check_no_backsteps),
    "storageos": SOURCE_CHECKS["storageos"],
    "csi": _CSI,
}


def _check_capacity(errs: Errors, spec: Obj, path: str) -> None:
    capacity = spec.get("capacity") or {}
    if not capacity:
        errs.required("spec.capacity")
    if "storage" not in capacity or len(capacity) > 1:
        errs.not_supported("spec.capacity", spec.get("capacity"), ("storage",))
    for name, amount in capacity.items():
        where = f"spec.capacity[{name}]"
        _check_basic(errs, amount, where)
        if nano(amount) <= 0:
            errs.invalid(where, canonical(amount), "must be greater than zero")


def _check_sources(errs: Errors, spec: Obj, path: str) -> None:
    kinds = [k for k in _SOURCES if spec.get(k) is not None]
    if not kinds:
        errs.required("spec", "must specify a volume type")
        return
    for i, kind in enumerate(kinds):
        if i:
            errs.forbidden(f"spec.{kind}", MORE_THAN_ONE)
            continue
        _SOURCES[kind](errs, spec[kind], f"spec.{REPORTED_AS.get(kind, kind)}")
        if kind == "local" and spec.get("nodeAffinity") is None:
            errs.required("spec.nodeAffinity", "Local volume requires node affinity")


def _check_recycled(errs: Errors, spec: Obj, path: str) -> None:
    mounted = (spec.get("hostPath") or {}).get("path")
    reclaim = spec.get("persistentVolumeReclaimPolicy")
    if mounted and posixpath.normpath(mounted) == "/" and reclaim == "Recycle":
        why = "may not be 'recycle' for a hostPath mount of '/'"
        errs.forbidden(f"{path}.persistentVolumeReclaimPolicy", why)


_AFFINITY = check.given("required", check_node_selector, "must specify required node constraints")
_VOLUME_SPEC = check.struct(
    check.needed("accessModes", _check_modes),
    _check_capacity,
    check.optional("persistentVolumeReclaimPolicy", _RECLAIM),
    check.pointer("nodeAffinity", _AFFINITY),
    _check_sources,
    _check_recycled,
    check.optional("storageClassName", check.SUBDOMAIN),
    check.pointer("volumeMode", _VOLUME_MODE),
)


def validate_volume(errs: Errors, obj: Obj) -> None:
    _VOLUME_SPEC(errs, obj.get("spec") or {}, "spec")


def _source_of(spec: Obj, old: Obj) -> Obj:
    out = {k: spec[k] for k in _SOURCES if spec.get(k) is not None}
    old_csi, csi = old.get("csi"), out.get("csi")
    if csi and old_csi and "controllerExpandSecretRef" not in old_csi:
        out["csi"] = {k: v for k, v in csi.items() if k != "controllerExpandSecretRef"}
    return out


def validate_volume_update(errs: Errors, new: Obj, old: Obj) -> None:
    validate_volume(errs, new)
    after, before = new.get("spec") or {}, old.get("spec") or {}
    new_source, old_source = _source_of(after, before), _source_of(before, before)
    if not same(new_source, old_source):
        why = "spec.persistentvolumesource is immutable after creation\n"
        shown = difference("core.PersistentVolumeSource", old_source, new_source)
        errs.forbidden("spec.persistentvolumesource", why + shown)
    errs.immutable("volumeMode", after.get("volumeMode"), before.get("volumeMode"))
    affinity = before.get("nodeAffinity")
    if affinity is not None and not same(after.get("nodeAffinity"), affinity):
        why = f"{IMMUTABLE}, except for updating from beta label to GA"
        errs.invalid("nodeAffinity", after.get("nodeAffinity"), why)


KINDS: Kinds = {
    ("", "PersistentVolumeClaim"): Rules(
        validate_claim, validate_claim_update, validate_claim_status),
    ("", "PersistentVolume"): Rules(validate_volume, validate_volume_update, namespaced=False),
}  # fmt: skip
