"""ObjectMeta and TypeMeta of resources and of resources embedded in them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from corral.cluster.apiserver.builtin.validation.fields.names import qualified_name
from corral.cluster.apiserver.cel.formats import dns_1035_label
from corral.cluster.apiserver.crd.types import Errors, Validator
from corral.cluster.apiserver.errors import invalid_value, required, show
from corral.kube.types import Obj

__all__ = ["compile_embedded", "compile_embedded_metadata", "finalizer_warnings", "prune_metadata"]

_OWNER = frozenset("apiVersion kind name uid controller blockOwnerDeletion".split())
_MANAGED = frozenset("manager operation apiVersion time fieldsType fieldsV1 subresource".split())
_STRINGS = (
    "name",
    "generateName",
    "namespace",
    "selfLink",
    "uid",
    "resourceVersion",
)
_TIMES = ("creationTimestamp", "deletionTimestamp")
_NUMBERS = ("generation", "deletionGracePeriodSeconds")
_MAPS = ("labels", "annotations")
_FIELDS = frozenset(
    (*_STRINGS, *_TIMES, *_NUMBERS, *_MAPS, "ownerReferences", "finalizers", "managedFields")
)
_NESTED = (("managedFields", _MANAGED), ("ownerReferences", _OWNER))


def prune_metadata(metadata: Any, prefix: str) -> list[str]:
    """Drop unknown fields in place; the paths dropped, each starting with ``prefix``."""
    if type(metadata) is not dict:
        return []
    dropped: list[str] = []
    if not metadata.keys() <= _FIELDS:
        for name in [n for n in metadata if n not in _FIELDS]:
            del metadata[name]
            dropped.append(f"{prefix}.{name}")
    for field, known in _NESTED:
        entries = metadata.get(field)
        for i, entry in enumerate(entries if type(entries) is list else ()):
            if type(entry) is dict and not entry.keys() <= known:
                for name in [n for n in entry if n not in known]:
                    del entry[name]
                    dropped.append(f"{prefix}.{field}[{i}].{name}")
    return sorted(dropped)


_JSON_KINDS = {bool: "bool", int: "number", float: "number", str: "string", list: "array"}


def malformed(metadata: Any) -> str | None:
    """What Go's decoder says about metadata of the wrong types, or None."""
    if type(metadata) is not dict:
        return f"json: cannot unmarshal {_json_kind(metadata)} into Go value of type v1.ObjectMeta"
    wanted: list[tuple[str, type, str]] = [(n, str, "string") for n in _STRINGS] + [
        (n, int, "int64") for n in _NUMBERS
    ]
    wanted += [(n, dict, "map[string]string") for n in _MAPS]
    for name, kind, go_type in wanted:
        value = metadata.get(name)
        if value is not None and type(value) is not kind:
            found = _json_kind(value)
            return (
                f"json: cannot unmarshal {found} into Go struct field "
                f"ObjectMeta.{name} of type {go_type}"
            )
    for name in _MAPS:
        for value in (metadata.get(name) or {}).values():
            if type(value) is not str:
                found = _json_kind(value)
                return (
                    f"json: cannot unmarshal {found} into Go struct field "
                    f"ObjectMeta.{name} of type string"
                )
    return None


def _json_kind(value: Any) -> str:
    return _JSON_KINDS.get(type(value), "object")


_STANDARD_FINALIZERS = frozenset(("orphan", "foregroundDeletion", "kubernetes"))


def finalizer_warnings(new: Obj, old: Obj | None) -> list[str]:
    """What is said about finalizers that a write adds."""
    added = set(new["metadata"].get("finalizers") or ())
    if added and old is not None:
        added.difference_update(old["metadata"].get("finalizers") or ())
    out = []
    for name in sorted(added):
        shown = f"metadata.finalizers: {show(name)}"
        out += [f"{shown}: {why}" for why in qualified_name(name)]
        if "/" not in name and name not in _STANDARD_FINALIZERS:
            path = " including a path (/)" if "." in name else ""
            out.append(
                f"{shown}: prefer a domain-qualified finalizer name{path} to avoid accidental "
                "conflicts with other finalizer writers"
            )
    return out


Walker = Callable[[Any, str], list[str]]


def compile_embedded_metadata(schema: Obj) -> Walker | None:
    """Prunes the metadata of embedded resources below a node; None where there are none.

    Raises (the closure):
        ValueError: metadata of the wrong types; the text says where.
    """
    return _walk(schema, _coerce, root=True)


def _coerce(value: Obj, path: str) -> list[str]:
    for name in ("apiVersion", "kind"):
        if name in value and type(value[name]) is not str:
            raise ValueError(str(invalid_value(f"{path}.{name}", value[name], "must be a string")))
    metadata = value.get("metadata")
    if metadata is None:
        return []
    why = malformed(metadata)
    if why is not None:
        raise ValueError(str(invalid_value(f"{path}.metadata", metadata, why)))
    dropped = prune_metadata(metadata, f"{path}.metadata")
    for name in [n for n, item in metadata.items() if not item and item is not False]:
        del metadata[name]  # written back from a struct: empty fields are left out
    return dropped


def _walk(schema: Obj, visit: Walker, *, root: bool = False) -> Walker | None:
    here = bool(schema.get("x-kubernetes-embedded-resource")) and not root
    children = {
        name: walker
        for name, sub in (schema.get("properties") or {}).items()
        if (walker := _walk(sub, visit)) is not None
    }
    more = schema.get("additionalProperties")
    extra = _walk(more, visit) if isinstance(more, dict) else None
    items = schema.get("items")
    item = _walk(items, visit) if isinstance(items, dict) else None
    if not (here or children or extra or item):
        return None

    def walk(value: Any, path: str) -> list[str]:
        found: list[str] = []
        if type(value) is dict:
            if here:
                found += visit(value, path)
            for name, inner in value.items():
                if name in children:
                    found += children[name](inner, f"{path}.{name}" if path else name)
                elif extra is not None:
                    found += extra(inner, f"{path}[{name}]")
        elif type(value) is list and item is not None:
            for i, inner in enumerate(value):
                found += item(inner, f"{path}[{i}]")
        return found

    return walk


def compile_embedded(schema: Obj) -> Validator | None:
    """Validates type and name of embedded resources; None where there are none."""
    errors: Errors = []

    def visit(value: Obj, path: str) -> list[str]:
        _check_resource(value, path, errors)
        return []

    walker = _walk(schema, visit, root=True)
    if walker is None:
        return None

    def validate(value: Any, path: str, out: Errors, old: Any) -> None:
        errors.clear()
        walker(value, path)
        out.extend(errors)

    return validate


def _check_resource(value: Obj, path: str, out: Errors) -> None:
    out.extend(required(f"{path}.{n}") for n in ("apiVersion", "kind") if n not in value)
    for name in ("apiVersion", "kind"):
        item = value.get(name)
        where = f"{path}.{name}"
        if name not in value:
            continue
        if type(item) is not str:
            out.append(invalid_value(where, item, "must be a string"))
        elif not item:
            out.append(invalid_value(where, item, "must not be empty"))
        elif name == "apiVersion" and item.count("/") > 1:
            out.append(invalid_value(where, item, f"unexpected GroupVersion string: {item}"))
        elif name == "kind" and (why := dns_1035_label(item.lower())):
            text = "may have mixed case, but should otherwise match: " + ",".join(why)
            out.append(invalid_value(where, item, text))
