"""OpenAPI version 2 from the parts of version 3.

What version 2 cannot say is left out, as the clients that still read it (kubectl explain, and its
validation of kinds the server does not have) cannot cope with it. Go clients fetch the document in
protobuf only: see :mod:`.openapi_proto`.
"""

from __future__ import annotations

from typing import Any

from corral.cluster.apiserver import schema as builtin
from corral.cluster.apiserver.http.openapi.proto import encode_document as encode
from corral.kube.types import Obj

__all__ = ["PROTOBUF", "document", "encode", "to_v2_operation", "to_v2_schema"]

PROTOBUF = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_BEARER = {
    "description": "Bearer Token authentication",
    "type": "apiKey",
    "name": "authorization",
    "in": "header",
}

_PRODUCES = ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"]
_STREAMS = ["application/json;stream=watch", "application/vnd.kubernetes.protobuf;stream=watch"]
_JUNCTORS = frozenset({"oneOf", "anyOf", "not", "nullable"})
_UNKNOWN_KEPT = "x-kubernetes-preserve-unknown-fields"


def document(version: str, paths: Obj, schemas: Obj) -> Obj:
    """The whole document, from the paths and schemas of all version 3 documents."""
    known = builtin.definitions()
    return {
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": version},
        "paths": {
            path: {
                key: _parameters(part) if key == "parameters" else to_v2_operation(part)
                for key, part in item.items()
            }
            for path, item in paths.items()
        },
        "definitions": {
            name: known.get(name) or _definition(published) for name, published in schemas.items()
        },
        "securityDefinitions": {"BearerToken": _BEARER},
        "security": [{"BearerToken": []}],
    }


def _definition(published: Obj) -> Obj:
    """A definition of a custom kind; one that is open at the root says nothing of its parts."""
    if not published.get(_UNKNOWN_KEPT):
        return to_v2_schema(published)
    extensions = ("x-kubernetes-group-version-kind", "x-kubernetes-selectable-fields")
    return {"type": "object"} | {k: published[k] for k in extensions if k in published}


def to_v2_operation(operation: Obj) -> Obj:
    """One operation of a version 3 document, in version 2."""
    out = {
        k: v for k, v in operation.items() if k not in ("parameters", "requestBody", "responses")
    }
    listing = operation.get("x-kubernetes-action") == "list"
    out["consumes"] = ["*/*"]
    out["produces"] = _PRODUCES + _STREAMS if listing else list(_PRODUCES)
    out["schemes"] = ["https"]
    parameters: list[Obj] = []
    if body := operation.get("requestBody"):
        media, content = next(iter(body["content"].items()))
        if media != "*/*":
            out["consumes"] = list(body["content"])
        schema = to_v2_schema(content["schema"])
        parameters.append({"name": "body", "in": "body", "required": True, "schema": schema})
    parameters += _parameters(operation.get("parameters") or [])
    if parameters:
        out["parameters"] = parameters
    out["responses"] = {
        code: _response(answer) for code, answer in operation["responses"].items()
    } | {"401": {"description": "Unauthorized"}}
    return out


def _parameters(parameters: list[Obj]) -> list[Obj]:
    return [
        parameter["schema"] | {k: v for k, v in parameter.items() if k != "schema"}
        for parameter in parameters
    ]


def _response(answer: Obj) -> Obj:
    out: Obj = {"description": answer["description"]}
    for content in (answer.get("content") or {}).values():
        out["schema"] = to_v2_schema(content["schema"])
        break
    return out


def to_v2_schema(schema: Obj) -> Obj:
    """A published version 3 schema without what version 2 has no words for."""
    ref = schema.get("$ref")
    if isinstance(ref, str):
        return {"$ref": ref.replace("#/components/schemas/", "#/definitions/")}
    out: Obj = {k: _value(k, v) for k, v in schema.items() if k not in _JUNCTORS}
    references: list[Obj] = [part for part in out.pop("allOf", None) or () if "$ref" in part]
    if references:
        return {k: v for k, v in out.items() if k == "description"} | references[0]
    loose = bool(schema.get(_UNKNOWN_KEPT))
    if schema.get("nullable") or loose:
        # kubectl reads neither a value without a type nor an open object when it has parts.
        out.pop("items", None)
        out.pop("properties", None)
    kind = out.get("type")
    if (
        schema.get("nullable")
        or (loose and kind == "object")
        or (kind == "array" and "items" not in out)
    ):
        out.pop("type", None)
    return _without_nullable_required(schema, out)


def _without_nullable_required(schema: Obj, out: Obj) -> Obj:
    required = out.get("required")
    if not required:
        return out
    properties = schema.get("properties") or {}
    kept = [name for name in required if not (properties.get(name) or {}).get("nullable")]
    if kept:
        out["required"] = kept
    else:
        del out["required"]
    return out


def _value(name: str, value: Any) -> Any:
    if name == "properties":
        return {key: to_v2_schema(part) for key, part in value.items()}
    if name == "allOf":
        return [to_v2_schema(part) for part in value]
    if name in ("items", "additionalProperties") and isinstance(value, dict):
        return to_v2_schema(value)
    return value
