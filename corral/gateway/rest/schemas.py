"""The schemas of the OpenAPI document: problems, answers of our own, and the kinds.

A kind that is ours (`corral.api`) has the schema of its definition; any other is an object with
metadata. Bodies need neither type nor namespace: the path says both.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from corral.client.kinds import KINDS, JobKind
from corral.client.summary import Summary
from corral.gateway.problems import TITLES
from corral.gateway.rest.asks import NAME, NAMESPACE
from corral.gateway.rest.kafkaml.schemas import kafkaml_schemas
from corral.kube.types import Obj

__all__ = ["HEADERS", "PATH_PARAMETERS", "components", "reference"]

_TEXT: Final[Obj] = {"type": "string"}
_WHOLE: Final[Obj] = {"type": "integer"}
_FREE: Final[Obj] = {"type": "object"}

HEADERS: Final[dict[str, Obj]] = {
    "ETag": {"description": "Which object in which version this is.", "schema": _TEXT},
    "Link": {"description": 'The next page, as rel="next"; absent on the last.', "schema": _TEXT},
    "X-Total-Count": {"description": "How many objects match in all.", "schema": _WHOLE},
    "Location": {"description": "Where the new object is.", "schema": _TEXT},
    "Idempotency-Replayed": {"description": "`true` for a repetition.", "schema": _TEXT},
    "Retry-After": {"description": "Seconds to wait.", "schema": _WHOLE},
    "WWW-Authenticate": {"description": "How to say who asks.", "schema": _TEXT},
    "X-Request-Id": {"description": "Of this request, as in the audit log.", "schema": _TEXT},
    "Warning": {"description": "What the API server warns about.", "schema": _TEXT},
    "ML-Framework": {"description": "What a model is for: tf, pth or numpy.", "schema": _TEXT},
    "Allow": {"description": "The methods that can be used here.", "schema": _TEXT},
}

PATH_PARAMETERS: Final[dict[str, Obj]] = {
    "namespace": {
        "name": "namespace", "in": "path", "required": True, "description": "The namespace.",
        "schema": {"type": "string", "pattern": f"^{NAMESPACE}$"},
    },
    "name": {
        "name": "name", "in": "path", "required": True, "description": "The name of the object.",
        "schema": {"type": "string", "pattern": f"^{NAME}$"},
    },
    "index": {
        "name": "index", "in": "path", "required": True, "description": "The index of the worker.",
        "schema": {"type": "integer", "minimum": 0, "maximum": 999_999},
    },
}  # fmt: skip


def reference(name: str) -> Obj:
    return {"$ref": f"#/components/schemas/{name}"}


def _list_of(items: Obj) -> Obj:
    return {"type": "array", "items": items}


def _object(properties: dict[str, Obj], *, required: tuple[str, ...] = ()) -> Obj:
    out: Obj = {"type": "object", "properties": properties}
    return {**out, "required": list(required)} if required else out


def _problem() -> Obj:
    return _object(
        {
            "type": {"type": "string", "enum": [f"urn:corral:problem:{kind}" for kind in TITLES]},
            "title": _TEXT,
            "status": {"type": "integer", "minimum": 400, "maximum": 599},
            "detail": _TEXT,
            "instance": _TEXT,
            "requestId": _TEXT,
            "hint": {**_TEXT, "description": "What to do about it."},
            "errors": _list_of(
                _object({"field": _TEXT, "detail": _TEXT}, required=("field", "detail"))
            ),
            "retryAfter": _WHOLE,
            "manifest": {**_FREE, "description": "What could not be created again."},
        },
        required=("type", "title", "status", "detail"),
    )


def _explanation() -> Obj:
    names = ("phase", "headline", "reasons", "hints")
    many = _list_of(_TEXT)
    return _object(dict(zip(names, (_TEXT, _TEXT, many, many), strict=True)), required=names)


def _metrics() -> Obj:
    number: Obj = {"type": "number"}
    count: Obj = {"type": "integer", "minimum": 0}
    figures = {"type": "object", "additionalProperties": number}
    sums = {
        **dict.fromkeys(("samples", "bytes"), count),
        "durationSeconds": number,
        "metrics": figures,
    }
    part = _object(
        {
            **dict.fromkeys(("propletId", "status", "receivedTime", "message"), _TEXT),
            **{key: {"type": "boolean"} for key in ("counted", "rejected")},
            "roundsLate": count,
            **sums,
        },
        required=("propletId", "counted", "rejected"),
    )
    words = ("name", "phase", "startTime", "endTime", "modelRef", "message")
    round_ = _object(
        {
            **dict.fromkeys(words, _TEXT),
            **dict.fromkeys(("round", "updates", "required", "rejected"), count),
            **dict.fromkeys(("aggregationSeconds", "epsilon"), number),
            **sums,
            "participants": _list_of(part),
        },
        required=("round", "phase", "participants"),
    )
    proplet = _object(
        {
            **dict.fromkeys(("propletId", "status", "lastUpdate"), _TEXT),
            **dict.fromkeys(("updates", "rejected", "failed"), count),
            **sums,
        },
        required=("propletId", "status", "updates", "rejected", "failed"),
    )
    rounds = ("currentRound", "completedRounds", "totalRounds")
    required = ("kind", "namespace", "name", "phase", "algorithm", *rounds, "rounds", "proplets")
    return _object(
        {
            **dict.fromkeys(("kind", "namespace", "name", "phase", "algorithm", "modelRef"), _TEXT),
            **dict.fromkeys(rounds, count),
            "rounds": _list_of(round_),
            "proplets": _list_of(proplet),
            "privacy": _FREE,
        },
        required=required,
    )


def _object_of(kind: JobKind) -> Obj:
    metadata = _object({"name": _TEXT, "namespace": _TEXT, "labels": _FREE, "annotations": _FREE})
    schema = _defined().get(kind.qualified) or _object({"spec": _FREE, "status": _FREE})
    properties = {
        **schema.get("properties", {}),
        "apiVersion": {"const": kind.api_version},
        "kind": {"const": kind.kind},
        "metadata": metadata,
    }
    return {"type": "object", **schema, "properties": properties}


@cache
def _defined() -> dict[str, Obj]:
    """The schemas of the kinds that are ours, as JSON Schema has them."""
    from corral.api import all_kinds

    return {kind.resource().qualified: _converted(kind.schema()) for kind in all_kinds()}


def _converted(schema: Any) -> Any:
    """A structural schema without what only an API server understands."""
    if isinstance(schema, list):
        return [_converted(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("x-kubernetes-int-or-string"):
        return {"type": ["integer", "string"]}
    out = {
        key: _converted(value)
        for key, value in schema.items()
        if not (key.startswith("x-kubernetes") or key in ("nullable", "format"))
        or not isinstance(value, bool | str | list)
    }
    if schema.get("nullable") is True and isinstance(out.get("type"), str):
        out["type"] = [out["type"], "null"]
    return out


def components() -> dict[str, Obj]:
    """Every schema by its name."""
    out: dict[str, Obj] = {
        "Problem": _problem(),
        **Summary.json_schema(),
        "Explanation": _explanation(),
        "Metrics": _metrics(),
        "EventList": _object({"items": _list_of(_FREE)}, required=("items",)),
        "Scale": _object(
            {"replicas": {"type": "integer", "minimum": 0, "maximum": 100_000}},
            required=("replicas",),
        ),
        "deleted": _object(
            {"namespace": _TEXT, "name": _TEXT, "deleted": {"type": "boolean"}},
            required=("namespace", "name", "deleted"),
        ),
        **kafkaml_schemas(),
    }
    for kind in KINDS:
        out[kind.kind] = _object_of(kind)
        out[f"{kind.kind}List"] = _object(
            {
                "apiVersion": {"const": kind.api_version},
                "kind": {"const": f"{kind.kind}List"},
                "metadata": _object(
                    {"resourceVersion": _TEXT, "total": _WHOLE, "continue": _TEXT},
                    required=("total",),
                ),
                "items": _list_of(reference(kind.kind)),
            },
            required=("apiVersion", "kind", "metadata", "items"),
        )
    return out
