"""Whether a schema is structural, and fit for a CRD.

``structural_problems`` holds the invariants of structural schemas, ``openapi_problems`` what else
a CRD's schema may and may not say. Paths and texts are those of kube-apiserver.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from corral.cluster.apiserver.crd.types import Errors
from corral.cluster.apiserver.errors import (
    FieldError,
    forbidden_field,
    invalid_value,
    not_supported,
    required,
)
from corral.cluster.apiserver.patterns import pattern_problem
from corral.kube.types import Obj

__all__ = ["SchemaContext", "openapi_problems", "structural_problems", "unsupported"]

_INT_OR_STRING = [{"type": "integer"}, {"type": "string"}]
_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_EMPTY_TYPE = {
    "root": "must not be empty at the root",
    "item": "must not be empty for specified array items",
    "field": "must not be empty for specified object fields",
}
META_FIELDS = ("metadata", "kind", "apiVersion")

Found = Iterator[FieldError]


def unsupported(schema: Obj) -> bool:
    """Whether the schema has parts no structural schema can have, so none can be derived."""
    banned = ("$ref", "$schema", "id", "patternProperties", "definitions", "dependencies")
    if any(schema.get(name) for name in (*banned, "additionalItems")):
        return True
    if isinstance(schema.get("items"), list):
        return True
    return any(unsupported(sub) for _, sub in subschemas(schema))


def subschemas(schema: Obj) -> Iterator[tuple[str, Obj]]:
    """Every schema directly below, with its path."""
    for name, sub in (schema.get("properties") or {}).items():
        yield f"properties[{name}]", sub
    for name in ("items", "additionalProperties", "not"):
        if isinstance(schema.get(name), dict):
            yield name, schema[name]
    for name in ("allOf", "anyOf", "oneOf"):
        for i, sub in enumerate(schema.get(name) or ()):
            yield f"{name}[{i}]", sub


def structural_problems(schema: Obj, path: str) -> Errors:
    """What keeps a schema from being structural, sorted."""
    found = [*_invariants(schema, "root", path), *_completeness(schema, schema, path, path)]
    return sorted(found, key=str)


def _invariants(schema: Obj, level: str, path: str) -> Found:
    kind = schema.get("type") or ""
    if kind == "array" and not schema.get("items"):
        if schema.get("items") is None:
            yield required(f"{path}.items", "must be specified")
    if isinstance(schema.get("items"), dict):
        yield from _invariants(schema["items"], "item", f"{path}.items")
    for name, sub in (schema.get("properties") or {}).items():
        yield from _invariants(sub, "field", f"{path}.properties[{name}]")
    more = schema.get("additionalProperties")
    if more is not None:
        if level == "root":
            yield forbidden_field(f"{path}.additionalProperties", "must not be used at the root")
        if isinstance(more, dict):
            yield from _invariants(more, "field", f"{path}.additionalProperties")
    yield from _extensions(schema, path)
    yield from _value_validation(
        schema,
        path,
        skip_any=schema.get("anyOf") == _INT_OR_STRING,
        skip_first=(schema.get("allOf") or [{}])[0].get("anyOf") == _INT_OR_STRING,
    )
    yield from _type_invariants(schema, kind, level, path)
    yield from _metadata_invariants(schema, level, path)


def _extensions(schema: Obj, path: str) -> Found:
    if not schema.get("x-kubernetes-int-or-string"):
        return
    for name in ("x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"):
        if schema.get(name):
            why = "must be false if x-kubernetes-int-or-string is true"
            yield invalid_value(f"{path}.{name}", True, why)


def _type_invariants(schema: Obj, kind: str, level: str, path: str) -> Found:
    embedded = bool(schema.get("x-kubernetes-embedded-resource"))
    preserve = bool(schema.get("x-kubernetes-preserve-unknown-fields"))
    if embedded and kind != "object":
        why = "must be object if x-kubernetes-embedded-resource is true"
        where = f"{path}.type"
        yield invalid_value(where, kind, why) if kind else required(where, why)
    elif not kind and not schema.get("x-kubernetes-int-or-string") and not preserve:
        yield required(f"{path}.type", _EMPTY_TYPE[level])
    if embedded and schema.get("additionalProperties") is not None:
        why = "must not be used if x-kubernetes-embedded-resource is set"
        yield forbidden_field(f"{path}.additionalProperties", why)
    if level == "root" and kind and kind != "object":
        yield invalid_value(f"{path}.type", kind, "must be object at the root")
    if embedded and not preserve and not schema.get("properties"):
        why = (
            "must not be empty if x-kubernetes-embedded-resource is true without "
            "x-kubernetes-preserve-unknown-fields"
        )
        yield required(f"{path}.properties", why)


def _metadata_invariants(schema: Obj, level: str, path: str) -> Found:
    props = schema.get("properties") or {}
    resource = level == "root" or bool(schema.get("x-kubernetes-embedded-resource"))
    if resource:
        for name in ("kind", "apiVersion"):
            if name in props and props[name].get("type") != "string":
                where = f"{path}.properties[{name}].type"
                yield invalid_value(where, props[name].get("type") or "", "must be string")
        meta = props.get("metadata")
        if meta is not None and meta.get("type") != "object":
            where = f"{path}.properties[metadata].type"
            yield invalid_value(where, meta.get("type") or "", "must be object")
    if level == "root" and "metadata" in props and not _only_names(props["metadata"]):
        why = (
            "must not specify anything other than name and generateName, but metadata is "
            "implicitly specified"
        )
        yield forbidden_field(f"{path}.properties[metadata]", why)


def _only_names(meta: Obj) -> bool:
    names = set(meta.get("properties") or {})
    allowed = {"type", "default", "properties"}
    extra = {k for k, v in meta.items() if k not in allowed and v not in (None, "", [], {}, False)}
    return not extra and names <= {"name", "generateName"}


def _value_validation(
    schema: Obj, path: str, *, skip_any: bool = False, skip_first: bool = False
) -> Found:
    if not skip_any:
        for i, sub in enumerate(schema.get("anyOf") or ()):
            yield from _nested(sub, f"{path}.anyOf[{i}]")
    for i, sub in enumerate(schema.get("allOf") or ()):
        yield from _nested(sub, f"{path}.allOf[{i}]", skip_any=skip_first and i == 0)
    for i, sub in enumerate(schema.get("oneOf") or ()):
        yield from _nested(sub, f"{path}.oneOf[{i}]")
    if schema.get("not"):
        yield from _nested(schema["not"], f"{path}.not")
    pattern = schema.get("pattern")
    why = pattern_problem(pattern) if pattern else None
    if why:
        text = f"must be a valid regular expression, but isn't: {why}"
        yield invalid_value(f"{path}.pattern", pattern, text)


_NESTED_FORBIDDEN = (
    ("type", "must be empty to be structural"),
    ("additionalProperties", "must be undefined to be structural"),
    ("default", "must be undefined to be structural"),
    ("title", "must be empty to be structural"),
    ("description", "must be empty to be structural"),
    ("nullable", "must be false to be structural"),
    ("x-kubernetes-preserve-unknown-fields", "must be false to be structural"),
    ("x-kubernetes-embedded-resource", "must be false to be structural"),
    ("x-kubernetes-int-or-string", "must be false to be structural"),
    ("x-kubernetes-list-map-keys", "must be empty to be structural"),
    ("x-kubernetes-list-type", "must be undefined to be structural"),
    ("x-kubernetes-map-type", "must be undefined to be structural"),
    ("x-kubernetes-validations", "must be empty to be structural"),
)


def _nested(schema: Obj, path: str, *, skip_any: bool = False) -> Found:
    yield from _value_validation(schema, path, skip_any=skip_any)
    if isinstance(schema.get("items"), dict):
        yield from _nested(schema["items"], f"{path}.items")
    for name, sub in (schema.get("properties") or {}).items():
        yield from _nested(sub, f"{path}.properties[{name}]")
    for name, why in _NESTED_FORBIDDEN:
        if schema.get(name) not in (None, "", [], False):
            yield forbidden_field(f"{path}.{name}", why)
    if "metadata" in (schema.get("properties") or {}):
        why = "must not be specified in a nested context"
        yield forbidden_field(f"{path}.properties[metadata]", why)


def _completeness(value: Obj, spine: Obj | None, spine_path: str, value_path: str) -> Found:
    """What junctors speak of must be specified outside them."""
    for part, sub in subschemas(value):
        if part.startswith(("allOf", "anyOf", "oneOf", "not")):
            where = f"{value_path}.{part}"
            yield from _nested_completeness(sub, spine, spine_path, where)


def _nested_completeness(value: Obj, spine: Obj | None, spine_path: str, path: str) -> Found:
    if spine is None:
        yield required(spine_path, f"because it is defined in {path}")
        return
    yield from _completeness(value, spine, spine_path, path)
    if isinstance(value.get("items"), dict):
        inner = spine.get("items")
        yield from _nested_completeness(
            value["items"], inner, f"{spine_path}.items", f"{path}.items"
        )
    for name, sub in (value.get("properties") or {}).items():
        part = f"properties[{name}]"
        inner = (spine.get("properties") or {}).get(name)
        yield from _nested_completeness(sub, inner, f"{spine_path}.{part}", f"{path}.{part}")


@dataclass(frozen=True, slots=True)
class SchemaContext:
    """Where in the schema a node stands."""

    root: bool = False
    no_defaults: str | None = None
    inside_meta: bool = False
    uncorrelated: str | None = None
    """The first ancestor whose parts cannot be matched between two revisions."""


def openapi_problems(schema: Obj, path: str, at: SchemaContext) -> Found:
    """What a CRD's schema must not say, at this node and below (rules aside)."""
    yield from _forbidden(schema, path, at)
    more = schema.get("additionalProperties")
    if schema.get("properties") and (more is False or isinstance(more, dict)):
        why = "additionalProperties and properties are mutual exclusive"
        yield forbidden_field(f"{path}.additionalProperties", why)
    for part, sub, where in children(schema, at):
        yield from openapi_problems(sub, f"{path}.{part}", where)
    if schema.get("x-kubernetes-preserve-unknown-fields") is False:
        where_ = f"{path}.x-kubernetes-preserve-unknown-fields"
        yield invalid_value(where_, False, "must be true or undefined")
    yield from _map_type(schema, path)
    yield from _list_type(schema, path)
    yield from _list_keys(schema, path)


def children(schema: Obj, at: SchemaContext) -> Iterator[tuple[str, Obj, SchemaContext]]:
    """The schemas below with the context each stands in."""
    below = replace(at, root=False)
    resource = at.root or bool(schema.get("x-kubernetes-embedded-resource"))
    for part, sub in subschemas(schema):
        inner = below
        if part == "additionalProperties" and at.inside_meta:
            reason = "inside additionalProperties applying to object metadata"
            inner = replace(below, no_defaults=reason)
        elif part == "items" and schema.get("x-kubernetes-list-type") != "map":
            inner = replace(below, uncorrelated=below.uncorrelated or "")
        elif part.startswith("properties[") and resource and part[11:-1] in META_FIELDS:
            inner = replace(below, inside_meta=True)
            if at.root:
                inner = replace(inner, no_defaults=f"in top-level {part[11:-1]}")
        yield part, sub, inner


_UNSUPPORTED = (
    "id",
    "additionalItems",
    "patternProperties",
    "definitions",
    "dependencies",
    "$ref",
)


def _forbidden(schema: Obj, path: str, at: SchemaContext) -> Found:
    kind = schema.get("type")
    if kind and kind not in _TYPES:
        yield not_supported(f"{path}.type", kind, _TYPES)
    if schema.get("default") is not None and at.no_defaults is not None:
        yield forbidden_field(f"{path}.default", f"must not be set {at.no_defaults}".strip())
    for name in _UNSUPPORTED:
        if schema.get(name) not in (None, "", {}):
            yield forbidden_field(f"{path}.{name}", f"{name} is not supported")
    if kind == "null":
        why = "type cannot be set to null, use nullable as an alternative"
        yield forbidden_field(f"{path}.type", why)
    if isinstance(schema.get("items"), list):
        why = "items must be a schema object and not an array"
        yield forbidden_field(f"{path}.items", why)
    if at.inside_meta and schema.get("x-kubernetes-embedded-resource"):
        where = f"{path}.x-kubernetes-embedded-resource"
        yield forbidden_field(where, "must not be used inside of resource meta")
    if schema.get("uniqueItems"):
        why = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield forbidden_field(f"{path}.uniqueItems", why)


def _wrong_type(schema: Obj, path: str, why: str) -> FieldError:
    kind = schema.get("type")
    where = f"{path}.type"
    return invalid_value(where, kind, why) if kind else required(where, why)


def _map_type(schema: Obj, path: str) -> Found:
    kind = schema.get("x-kubernetes-map-type")
    if kind is None:
        return
    if schema.get("type") != "object":
        why = "must be object if x-kubernetes-map-type is specified"
        yield _wrong_type(schema, path, why)
    if kind not in ("atomic", "granular"):
        yield not_supported(f"{path}.x-kubernetes-map-type", kind, ("atomic", "granular"))


def _list_type(schema: Obj, path: str) -> Found:
    kind = schema.get("x-kubernetes-list-type")
    item = schema.get("items") if isinstance(schema.get("items"), dict) else None
    if kind is not None and schema.get("type") != "array":
        yield _wrong_type(schema, path, "must be array if x-kubernetes-list-type is specified")
    elif kind == "set" and item is not None:
        why = "must be atomic as item of a list with x-kubernetes-list-type=set"
        inner = item.get("x-kubernetes-list-type")
        if item.get("type") == "array" and inner not in (None, "atomic"):
            yield invalid_value(f"{path}.items.x-kubernetes-list-type", inner, why)
        if item.get("type") == "object" and item.get("x-kubernetes-map-type") != "atomic":
            yield invalid_value(f"{path}.items.x-kubernetes-map-type", inner, why)
    if kind not in (None, "atomic", "set", "map"):
        where = f"{path}.x-kubernetes-list-type"
        yield not_supported(where, kind, ("atomic", "set", "map"))


def _list_keys(schema: Obj, path: str) -> Found:
    kind = schema.get("x-kubernetes-list-type")
    keys: list[str] = schema.get("x-kubernetes-list-map-keys") or []
    if keys and kind != "map":
        why = "must be map if x-kubernetes-list-map-keys is non-empty"
        where = f"{path}.x-kubernetes-list-type"
        yield required(where, why) if kind is None else invalid_value(where, kind, why)
    if kind == "map":
        yield from _map_list(schema, keys, path)
    if kind in ("map", "set") and isinstance(schema.get("items"), dict):
        yield from _nullable_items(schema, kind, keys, path)


def _map_list(schema: Obj, keys: list[str], path: str) -> Found:
    if not keys:
        where = f"{path}.x-kubernetes-list-map-keys"
        yield required(where, "must not be empty if x-kubernetes-list-type is map")
    item: Any = schema.get("items")
    if item is None:
        yield required(f"{path}.items", "must have a schema if x-kubernetes-list-type is map")
        return
    if not isinstance(item, dict):
        why = "must only have a single schema if x-kubernetes-list-type is map"
        yield invalid_value(f"{path}.items", item, why)
        return
    if item.get("type") != "object":
        why = "must be object if parent array's x-kubernetes-list-type is map"
        yield invalid_value(f"{path}.items.type", item.get("type") or "", why)
        return
    where = f"{path}.x-kubernetes-list-map-keys"
    for i, key in enumerate(keys):
        prop = (item.get("properties") or {}).get(key)
        if prop is None:
            yield invalid_value(where, keys, "entries must all be names of item properties")
        elif prop.get("type") in ("array", "object"):
            why = "must be a scalar type if parent array's x-kubernetes-list-type is map"
            yield invalid_value(f"{path}.items.properties[{key}].type", item["type"], why)
        if key in keys[:i]:
            yield invalid_value(where, keys, "must not contain duplicate entries")


def _nullable_items(schema: Obj, kind: str, keys: list[str], path: str) -> Found:
    item = schema["items"]
    if item.get("nullable"):
        why = f"cannot be nullable when x-kubernetes-list-type is {kind}"
        yield forbidden_field(f"{path}.items.nullable", why)
    if kind != "map":
        return
    for key in keys:
        prop = (item.get("properties") or {}).get(key)
        if prop is None:
            continue
        where = f"{path}.items.properties[{key}]"
        said = "this property is in x-kubernetes-list-map-keys, so it"
        if key not in (item.get("required") or ()) and prop.get("default") is None:
            why = f"{said} must have a default or be a required property"
            yield required(f"{where}.default", why)
        if prop.get("nullable"):
            yield forbidden_field(f"{where}.nullable", f"{said} cannot be nullable")
