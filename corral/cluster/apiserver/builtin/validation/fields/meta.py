"""Object metadata: names, labels, annotations, owners, finalizers, and what may never change."""

from __future__ import annotations

from typing import Any

from corral.cluster.apiserver.builtin.validation.fields.errors import (
    NEGATIVE,
    Errors,
    FieldError,
    repeated,
)
from corral.cluster.apiserver.builtin.validation.fields.names import (
    NameRule,
    dns_label,
    label_value,
    name_is_subdomain,
    qualified_name,
)
from corral.cluster.apiserver.errors import show
from corral.kube.types import Obj

__all__ = [
    "check_annotations",
    "check_finalizers",
    "check_kube_finalizers",
    "check_labels",
    "check_meta_changes",
    "check_object_meta",
    "validate_object_meta",
    "validate_object_meta_update",
]

_ANNOTATIONS_LIMIT = 256 * 1024
_MANAGER_LIMIT = 128
_STANDARD_FINALIZERS = frozenset(("kubernetes", "orphan", "foregroundDeletion"))
_NOT_QUALIFIED = "name is neither a standard finalizer name nor is it fully qualified"


def check_labels(errs: Errors, labels: dict[str, str] | None, path: str) -> None:
    """Keys must be qualified names, values label values."""
    if not labels:
        return
    for key, value in labels.items():
        if found := qualified_name(key):
            errs.invalid_each(path, key, found)
        if value and (found := label_value(value)):
            errs.invalid_each(path, value, found)


def check_annotations(errs: Errors, annotations: dict[str, str] | None, path: str) -> None:
    """Keys must be qualified names whatever their case; the whole has a size limit."""
    if not annotations:
        return
    size = 0
    for key, value in annotations.items():
        if found := qualified_name(key.lower()):
            errs.invalid_each(path, key, found)
        size += len(key) + len(value)
    # Characters are at least bytes: only count exactly when it can matter.
    if size > _ANNOTATIONS_LIMIT // 4:
        size = sum(len(k.encode()) + len(v.encode()) for k, v in annotations.items())
        if size > _ANNOTATIONS_LIMIT:
            errs.too_long(path, _ANNOTATIONS_LIMIT)


def _check_owner(errs: Errors, ref: Obj, path: str) -> None:
    version = ref.get("apiVersion") or ""
    if not version:
        errs.required(f"{path}.apiVersion", "must not be empty")
    elif version.count("/") > 1 or version.endswith("/"):
        errs.invalid(f"{path}.apiVersion", version, "must be <group>/<version> or <version>")
    for name in ("kind", "name", "uid"):
        if not ref.get(name):
            errs.required(f"{path}.{name}", "must not be empty")
    if version == "v1" and ref.get("kind") == "Event":
        errs.invalid(path, ref, "/v1, Kind=Event is disallowed from being an owner")


def _check_owners(errs: Errors, refs: list[Obj], path: str) -> None:
    first = shown = ""
    times = sum(bool(ref.get("controller")) for ref in refs)
    for i, ref in enumerate(refs):
        _check_owner(errs, ref, f"{path}[{i}]")
        if not ref.get("controller"):
            continue
        current = f"{ref.get('kind', '')}/{ref.get('name', '')}"
        if first:
            why = (
                "Only one reference can have Controller set to true. Found "
                f'"true" in references for {first} and {current}'
            )
            shown = shown or repeated(show(refs), times)
            errs.append(FieldError("FieldValueInvalid", path, f"Invalid value: {shown}: {why}"))
        else:
            first = repeated(current, times)


def check_finalizers(errs: Errors, finalizers: list[str], path: str) -> None:
    for name in finalizers:
        errs.format(path, name, qualified_name)
    if "orphan" in finalizers and "foregroundDeletion" in finalizers:
        errs.invalid(path, finalizers, "finalizer orphan and foregroundDeletion cannot be both set")


def check_kube_finalizers(errs: Errors, obj: Obj) -> None:
    """Finalizers of the built-in kinds are qualified, or one of the three standard names."""
    for i, name in enumerate((obj.get("metadata") or {}).get("finalizers") or ()):
        if "/" not in name and name not in _STANDARD_FINALIZERS:
            errs.invalid(f"metadata.finalizers[{i}]", name, _NOT_QUALIFIED)


def _check_managed_fields(errs: Errors, entries: list[Obj], path: str) -> None:
    for i, entry in enumerate(entries):
        operation = entry.get("operation") or ""
        where = f"{path}[{i}].operation"
        if not operation:
            errs.required(where, "must not be empty")
        elif operation not in ("Apply", "Update"):
            errs.not_supported(where, operation, ("Apply", "Update"))
        kind = entry.get("fieldsType") or "FieldsV1"
        if kind != "FieldsV1":
            errs.invalid(f"{path}[{i}].fieldsType", kind, "must be `FieldsV1`")
        manager = entry.get("manager") or ""
        if len(manager) > _MANAGER_LIMIT:
            errs.too_long(f"{path}[{i}].manager", _MANAGER_LIMIT)
        if not manager.isprintable():
            _check_printable(errs, manager, f"{path}[{i}].manager")
        if len(entry.get("subresource") or "") > 256:
            errs.too_long(f"{path}[{i}].subresource", 256)


def _check_printable(errs: Errors, text: str, path: str) -> None:
    for i, char in enumerate(text[:_MANAGER_LIMIT]):  # what is longer is refused as such
        if not char.isprintable():
            why = f"invalid character U+{ord(char):04X} (at position {i})"
            errs.invalid(path, repeated(text, _MANAGER_LIMIT), why)


def _check_common(errs: Errors, meta: Obj, path: str, namespaced: bool) -> None:
    namespace = meta.get("namespace") or ""
    if namespaced:
        if not namespace:
            errs.required(f"{path}.namespace")
        elif found := dns_label(namespace):
            errs.invalid_each(f"{path}.namespace", namespace, found)
    elif namespace:
        errs.forbidden(f"{path}.namespace", "not allowed on this type")
    generation = meta.get("generation")
    if generation is not None and generation < 0:
        errs.invalid(f"{path}.generation", generation, NEGATIVE)
    _check_collections(errs, meta, path)
    if finalizers := meta.get("finalizers"):
        check_finalizers(errs, finalizers, f"{path}.finalizers")
    if entries := meta.get("managedFields"):
        _check_managed_fields(errs, entries, f"{path}.managedFields")


def _check_collections(errs: Errors, meta: Obj, path: str) -> None:
    if labels := meta.get("labels"):
        check_labels(errs, labels, f"{path}.labels")
    if annotations := meta.get("annotations"):
        check_annotations(errs, annotations, f"{path}.annotations")
    if refs := meta.get("ownerReferences"):
        _check_owners(errs, refs, f"{path}.ownerReferences")


def check_object_meta(
    errs: Errors, obj: Obj, *, namespaced: bool, name_rule: NameRule = name_is_subdomain
) -> None:
    """Check the metadata of an object that is to be written."""
    meta: Obj = obj.get("metadata") or {}
    if prefix := meta.get("generateName"):
        errs.invalid_each("metadata.generateName", prefix, name_rule(prefix, True))
    name = meta.get("name")
    if not name:
        errs.required("metadata.name", "name or generateName is required")
    elif found := name_rule(name, False):
        errs.invalid_each("metadata.name", name, found)
    _check_common(errs, meta, "metadata", namespaced)


def validate_object_meta(obj: Obj, *, namespaced: bool) -> Errors:
    """Everything wrong with the metadata of an object that is to be written."""
    errs = Errors()
    check_object_meta(errs, obj, namespaced=namespaced)
    return errs


def _go_strings(values: list[str]) -> str:
    return "[]string{" + ", ".join(show(v) for v in sorted(values)) + "}"


def _check_deletion(errs: Errors, new: Obj, old: Obj) -> None:
    added = set(new.get("finalizers") or ()) - set(old.get("finalizers") or ())
    if added:
        why = (
            "no new finalizers can be added if the object is being deleted, found new finalizers "
            + _go_strings(list(added))
        )
        errs.forbidden("metadata.finalizers", why)


def check_meta_changes(errs: Errors, new: Obj, old: Obj) -> None:
    """Check what may not change in the metadata of an object."""
    meta: Obj = new.get("metadata") or {}
    before: Obj = old.get("metadata") or {}
    if before.get("deletionTimestamp"):
        _check_deletion(errs, meta, before)
    if not meta.get("resourceVersion"):
        errs.invalid("metadata.resourceVersion", "", "must be specified for an update")
    generation: Any = meta.get("generation") or 0
    if generation < 0:
        errs.invalid("metadata.generation", generation, NEGATIVE)
    if generation < (before.get("generation") or 0):
        errs.invalid("metadata.generation", generation, "must not be decremented")
    for name in ("name", "namespace", "uid"):
        errs.immutable(f"metadata.{name}", meta.get(name) or "", before.get(name) or "")
    for name in ("creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"):
        errs.immutable(f"metadata.{name}", meta.get(name), before.get(name))


def validate_object_meta_update(new: Obj, old: Obj) -> Errors:
    """Everything wrong with the metadata of an update; names are not looked at again."""
    errs, meta = Errors(), new.get("metadata") or {}
    check_meta_changes(errs, new, old)
    _check_collections(errs, meta, "metadata")
    if entries := meta.get("managedFields"):
        _check_managed_fields(errs, entries, "metadata.managedFields")
    return errs
