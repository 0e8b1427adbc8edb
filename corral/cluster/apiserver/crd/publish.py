"""The OpenAPI v3 schema published for a custom kind, as kube-apiserver builds it."""

from __future__ import annotations

from typing import Any

from corral.kube.types import Obj

__all__ = ["list_schema", "model_name", "published_schema"]

_DOCS = "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md"
_REF = "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1."
_API_VERSION = (
    "APIVersion defines the versioned schema of this representation of an object. Servers should "
    "convert recognized schemas to the latest internal value, and may reject unrecognized values. "
    f"More info: {_DOCS}#resources"
)
_KIND = (
    "Kind is a string value representing the REST resource this object represents. Servers may "
    "infer this from the endpoint the client submits requests to. Cannot be updated. In "
    f"CamelCase. More info: {_DOCS}#types-kinds"
)
_EMBEDDED_API_VERSION = (
    "apiVersion defines the versioned schema of this representation of an object. More info: "
    f"{_DOCS}#resources"
)
_EMBEDDED_KIND = (
    "kind is a string value representing the type of this object. In CamelCase. More info: "
    f"{_DOCS}#types-kinds"
)
_META = f"Standard object's metadata. More info: {_DOCS}#metadata"
_LIST_META = f"Standard list metadata. More info: {_DOCS}#types-kinds"
_INT_OR_STRING = [{"type": "integer"}, {"type": "string"}]


def model_name(group: str, version: str, kind: str) -> str:
    """``com.example.v1.Kind``: the group reversed."""
    return ".".join([*reversed(group.split(".")), version, kind])


def _text(description: str) -> Obj:
    return {"description": description, "type": "string"}


def _metadata(description: str, kind: str) -> Obj:
    return {"description": description, "allOf": [{"$ref": f"{_REF}{kind}"}]}


def published_schema(crd: Obj, version: Obj) -> Obj:
    """The schema of the kind in one version; the CRD's own is not modified."""
    spec = crd["spec"]
    source = (version.get("schema") or {}).get("openAPIV3Schema")
    if source is None:
        out: Obj = {"type": "object"}
    else:
        out = _publish(source)
        props = {
            "apiVersion": _text(_API_VERSION),
            "kind": _text(_KIND),
            "metadata": _metadata(_META, "ObjectMeta"),
        }
        out["properties"] = {**out.get("properties", {}), **props}
    return out | _extensions(spec, version, spec["names"]["kind"])


def list_schema(crd: Obj, version: Obj) -> Obj:
    """The schema of the kind's list."""
    spec = crd["spec"]
    names = spec["names"]
    ref = f"#/components/schemas/{model_name(spec['group'], version['name'], names['kind'])}"
    items = {
        "description": f"List of {names['plural']}. More info: {_DOCS}",
        "type": "array",
        "items": {"$ref": ref},
    }
    out = {
        "description": f"{names['listKind']} is a list of {names['kind']}",
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": _text(_API_VERSION),
            "items": items,
            "kind": _text(_KIND),
            "metadata": _metadata(_LIST_META, "ListMeta"),
        },
    }
    return out | _extensions(spec, version, names["listKind"])


def _extensions(spec: Obj, version: Obj, kind: str) -> Obj:
    gvk = {"group": spec["group"], "kind": kind, "version": version["name"]}
    out: Obj = {"x-kubernetes-group-version-kind": [gvk]}
    if version.get("selectableFields"):
        out["x-kubernetes-selectable-fields"] = [
            {"fieldPath": f["jsonPath"].removeprefix(".")} for f in version["selectableFields"]
        ]
    return out


def _publish(schema: Obj) -> Obj:
    """A copy with int-or-string spelled out and embedded resources given their metadata."""
    out: Obj = {name: _value(name, value) for name, value in schema.items()}
    if out.get("x-kubernetes-int-or-string") and not _spells_types(out):
        if out.get("anyOf"):
            out["allOf"] = [{"anyOf": _INT_OR_STRING}, *out.get("allOf", ())]
        else:
            out["anyOf"] = list(_INT_OR_STRING)
    if out.get("x-kubernetes-embedded-resource"):
        extra = {
            "apiVersion": _text(_EMBEDDED_API_VERSION),
            "kind": _text(_EMBEDDED_KIND),
            "metadata": _metadata(_META, "ObjectMeta"),
        }
        out["properties"] = {**out.get("properties", {}), **extra}
        needed = list(out.get("required", ()))
        out["required"] = needed + [n for n in ("kind", "apiVersion") if n not in needed]
    return out


def _spells_types(schema: Obj) -> bool:
    first = (schema.get("allOf") or [{}])[0]
    return _INT_OR_STRING in (schema.get("anyOf"), first.get("anyOf"))


def _value(name: str, value: Any) -> Any:
    if name == "properties":
        return {key: _publish(sub) for key, sub in value.items()}
    if name in ("items", "additionalProperties") and isinstance(value, dict):
        return _publish(value)
    return value
