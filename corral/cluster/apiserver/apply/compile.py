"""Compiling OpenAPI into the types that ownership needs.

Built-in kinds come from the OpenAPI definitions, custom resources from the structural schema of
their CRD version. Compiled definitions are shared between kinds and kept for good.
"""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Any

import orjson

from corral.cluster.apiserver.apply.types import (
    ANY,
    DEDUCED,
    LEAF,
    MAP_LIST,
    SET,
    STRUCT,
    UNTYPED_ATOMIC,
    Type,
    TypeSchema,
    scalar,
)
from corral.cluster.apiserver.schema import INT_OR_STRING, QUANTITY, definitions
from corral.kube.types import Obj

_RAW_EXTENSION = "io.k8s.apimachinery.pkg.runtime.RawExtension"
_OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"

_KEY_DEFAULTS = {
    "io.k8s.api.core.v1.ContainerPort": {"protocol": "TCP"},
    "io.k8s.api.core.v1.ServicePort": {"protocol": "TCP"},
}
"""Defaults of list keys that are optional; the definitions we have come without defaults."""

_SCALARS = {
    "string": scalar("string"),
    "integer": scalar("numeric"),
    "number": scalar("numeric"),
    "boolean": scalar("boolean"),
}
_UNTYPED = scalar("untyped")

_named: dict[str, Type] = {}


@cache
def builtin_schema(definition: str) -> TypeSchema:
    """The schema of a built-in kind, by the name of its OpenAPI definition."""
    gvks = definitions()[definition].get("x-kubernetes-group-version-kind") or [{}]
    gvk = gvks[0]
    path = f"{gvk.get('group', '')}/{gvk.get('version', '')}/{gvk.get('kind', '')}"
    zero = _zero_objects().get(path, {"metadata": {}})
    return TypeSchema(_definition(definition), kind=gvk.get("kind", ""), zero=zero)


def crd_schema(openapi_v3_schema: Obj | None, *, preserve_unknown: bool) -> TypeSchema:
    """The schema of a custom resource version; None = nothing is known but the object itself."""
    if openapi_v3_schema is None:
        return TypeSchema(DEDUCED)
    top = {"type": "object", **openapi_v3_schema}
    top["properties"] = {**(top.get("properties") or {}), **_embedded()}
    return TypeSchema(_Compiler(preserve_unknown=preserve_unknown).node(top))


def _embedded() -> Obj:
    return {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": {"$ref": f"#/definitions/{_OBJECT_META}"},
    }


@cache
def _zero_objects() -> dict[str, Obj]:
    """By group/version/kind: the fields that are there in a built-in object with nothing set.

    Upstream they are Go structs, in which nested structs and required fields exist from the start;
    so nobody becomes the owner of, say, ``spec`` itself by creating an object.
    """
    raw = (resources.files(__package__) / "zero.json").read_bytes()
    found: dict[str, Obj] = orjson.loads(raw)
    return found


def _definition(name: str) -> Type:
    known = _named.get(name)
    if known is not None:
        return known
    if name in (QUANTITY, INT_OR_STRING):
        return _named.setdefault(name, _UNTYPED)
    if name == _RAW_EXTENSION:
        return _named.setdefault(name, UNTYPED_ATOMIC)
    node = definitions()[name]
    compiler = _Compiler(preserve_unknown=False)
    if node.get("type") != "object":
        return _named.setdefault(name, compiler.node(node))
    # Registered before it is filled: definitions refer to themselves.
    type_ = _named[name] = Type(STRUCT, "map")
    return compiler.fill_struct(type_, node)


class _Compiler:
    """Compiles one schema tree; ``preserve_unknown`` is inherited downwards."""

    def __init__(self, *, preserve_unknown: bool) -> None:
        self._preserve = preserve_unknown

    def node(self, node: dict[str, Any]) -> Type:
        ref = node.get("$ref")
        if ref is None and len(node.get("allOf") or ()) == 1:
            ref = node["allOf"][0].get("$ref")
        if ref is not None:
            return _relationship(_definition(ref.rsplit("/", 1)[1]), node)
        if node.get("x-kubernetes-preserve-unknown-fields") and not self._preserve:
            return _Compiler(preserve_unknown=True).node(node)
        kind = node.get("type", "")
        if kind == "object":
            return self.fill_struct(Type(STRUCT, "map"), node)
        if kind == "array":
            return self._list(node)
        if kind == "":
            type_ = self.fill_struct(Type(ANY, "any"), node)
            return DEDUCED if not type_.fields and type_.elem is DEDUCED else type_
        if kind == "string" and node.get("format") not in (None, "", "byte"):
            return _UNTYPED
        return _SCALARS.get(kind, _UNTYPED)

    def fill_struct(self, type_: Type, node: dict[str, Any]) -> Type:
        properties = node.get("properties") or {}
        if node.get("x-kubernetes-embedded-resource"):
            properties = {**properties, **_embedded()}
        # In place: an atomic copy may share the dict already.
        for name, sub in properties.items():
            type_.fields[name] = ("f:" + name, self.node(sub))
        type_.elem = self._free_keys(node, has_fields=bool(properties))
        if node.get("x-kubernetes-map-type") == "atomic":
            type_.kind = LEAF
        return type_

    def _free_keys(self, node: dict[str, Any], *, has_fields: bool) -> Type | None:
        extra = node.get("additionalProperties")
        if extra is None:
            return DEDUCED if self._preserve or not has_fields else None
        if isinstance(extra, dict):
            # A reference keeps its own definition's idea of unknown fields.
            return self.node(extra)
        return DEDUCED if extra else None

    def _list(self, node: dict[str, Any]) -> Type:
        items = node.get("items")
        type_ = Type(LEAF, "list")
        type_.elem = self.node(items) if isinstance(items, dict) else UNTYPED_ATOMIC
        kind, keys = _list_kind(node)
        type_.kind = kind
        if kind == MAP_LIST:
            type_.keys = tuple(sorted(keys))
            type_.defaults = _key_defaults(items, keys)
        return type_


def _list_kind(node: dict[str, Any]) -> tuple[int, list[str]]:
    declared = node.get("x-kubernetes-list-type")
    if declared is not None:
        if declared == "map":
            return MAP_LIST, list(node.get("x-kubernetes-list-map-keys") or ())
        return (SET if declared == "set" else LEAF), []
    if node.get("x-kubernetes-patch-strategy") in ("merge", "merge,retainKeys"):
        key = node.get("x-kubernetes-patch-merge-key")
        return (MAP_LIST, [key]) if key else (SET, [])
    return LEAF, []


def _key_defaults(items: Any, keys: list[str]) -> dict[str, Any]:
    """What items that leave out a key count as having there.

    In built-in types a key field that is not optional has its zero value, so to say.
    """
    if not isinstance(items, dict):
        return {}
    ref = items.get("$ref")
    if ref is None:
        properties = items.get("properties") or {}
        found = {key: (properties.get(key) or {}).get("default") for key in keys}
        return {key: value for key, value in found.items() if value is not None}
    name = ref.rsplit("/", 1)[1]
    node = definitions()[name]
    zeros = {
        key: 0 if node["properties"][key].get("type") == "integer" else ""
        for key in keys
        if key in node.get("required", ())
    }
    return {**zeros, **_KEY_DEFAULTS.get(name, {})}


def _relationship(type_: Type, node: dict[str, Any]) -> Type:
    """Honour a map type that stands beside a reference."""
    declared = node.get("x-kubernetes-map-type")
    if declared == "atomic" and type_.kind != LEAF:
        return type_.atomic_copy()
    return type_
