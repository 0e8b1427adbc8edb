"""The OpenAPI 3.1 document, made of the route table: every kind with exactly what it can do."""

from __future__ import annotations

from functools import cache
from typing import Final

import orjson

from corral import __version__
from corral.client.kinds import KINDS, JobKind, kind_of
from corral.gateway.problems import MEDIA_TYPE, TITLES
from corral.gateway.rest.kafkaml.table import KAFKAML, TAG
from corral.gateway.rest.routes import OPERATIONS, Answer, Header, Operation
from corral.gateway.rest.schemas import HEADERS, PATH_PARAMETERS, components, reference
from corral.kube.types import Obj

__all__ = ["document", "document_bytes"]

_DESCRIPTION: Final = (
    "Jobs of every kind over HTTP. Each request goes to the Kubernetes API with the token it came "
    "with: what you may do here is what you may do there. Refusals are RFC 9457 problems."
)


def document() -> Obj:
    """The whole document."""
    paths: dict[str, Obj] = {}
    for kind in KINDS:
        for operation in OPERATIONS:
            if operation.fits(kind):
                path = operation.path.replace("{plural}", kind.plural)
                paths.setdefault(path, {})[operation.method.lower()] = _operation(operation, kind)
    for operation in KAFKAML:
        made = _operation(operation, kind_of(operation.plural))
        paths.setdefault(operation.path, {})[operation.method.lower()] = made
    return {
        "openapi": "3.1.0",
        "info": {"title": "Corral gateway", "version": __version__, "description": _DESCRIPTION},
        "servers": [{"url": "/"}],
        "security": [{"bearer": []}],
        "tags": [
            {"name": kind.plural, "description": f"{kind.kind}, {kind.api_version}"}
            for kind in KINDS
        ]
        + [{"name": TAG, "description": "The objects of kafkaml.corral.dev as Kafka-ML has them"}],
        "paths": {**_pages(), **paths},
        "components": {
            "schemas": components(),
            "headers": HEADERS,
            "responses": {str(code): _refusal(code) for code in _codes()},
            "parameters": PATH_PARAMETERS,
            "securitySchemes": {
                "bearer": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "A token of the cluster, such as `kubectl create token` makes.",
                }
            },
        },
    }


@cache
def document_bytes() -> bytes:
    """The document as JSON."""
    return orjson.dumps(document())


def _operation(operation: Operation, kind: JobKind) -> Obj:
    return {
        "operationId": _operation_id(operation, kind),
        "tags": [TAG if operation.plural else kind.plural],
        "summary": operation.summary,
        "parameters": [
            *(
                {"$ref": f"#/components/parameters/{name}"}
                for name in PATH_PARAMETERS
                if f"{{{name}}}" in operation.path
            ),
            *(param.as_object() for param in operation.params),
            *(_header(header) for header in operation.headers),
        ],
        **({"requestBody": _body(operation, kind)} if operation.body else {}),
        "responses": {
            **{str(answer.status): _answer(answer, kind) for answer in operation.answers},
            **{str(c): {"$ref": f"#/components/responses/{c}"} for c in operation.all_refusals},
            **({"400": _in_words()} if operation.plural else {}),
        },
    }


def _in_words() -> Obj:
    """A 400 that may be plain text."""
    out = _refusal(400)
    return {**out, "content": {**out["content"], "text/plain": {"schema": {"type": "string"}}}}


def _operation_id(operation: Operation, kind: JobKind) -> str:
    if operation.name:
        return operation.name
    words = [operation.verb, kind.plural if operation.verb == "list" else kind.singular]
    if "/logs/" in operation.path:
        words.append(operation.path.split("/logs/")[1].partition("/")[0])
    if operation.verb == "watch" and "{name}" not in operation.path:
        words[1] = kind.plural
    if "{namespace}" not in operation.path:
        words.append("everywhere")
    return "_".join(words)


def _header(header: Header) -> Obj:
    return {
        "name": header.name,
        "in": "header",
        "description": header.description,
        "required": False,
        "schema": {"type": "string", "maxLength": header.longest},
    }


def _schema(name: str, kind: JobKind) -> Obj:
    named = {"object": kind.kind, "list": f"{kind.kind}List"}.get(name, name)
    return reference(named)


def _body(operation: Operation, kind: JobKind) -> Obj:
    schema = _schema(operation.body, kind)
    return {
        "required": True,
        "content": {kind_: {"schema": schema} for kind_ in operation.body_types},
    }


def _answer(answer: Answer, kind: JobKind) -> Obj:
    names = (*answer.headers, "X-Request-Id", "Warning")
    out: Obj = {"description": answer.description, "headers": _headers(names)}
    if answer.schema in ("sse", "log"):
        # a stream has no schema: its parts are described in words
        out["content"] = {media: {} for media in answer.media}
    elif answer.schema:
        schema = _schema(answer.schema, kind)
        out["content"] = {media: {"schema": schema} for media in answer.media}
    return out


def _headers(names: tuple[str, ...]) -> Obj:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in names}


def _codes() -> list[int]:
    return sorted({code for code, _ in TITLES.values()})


def _refusal(code: int) -> Obj:
    titles = [title for status, title in TITLES.values() if status == code]
    names = ("X-Request-Id", *(("WWW-Authenticate",) if code == 401 else ()))
    return {
        "description": "; or: ".join(titles),
        "headers": _headers(names),
        "content": {MEDIA_TYPE: {"schema": reference("Problem")}},
    }


def _pages() -> dict[str, Obj]:
    """What is served to everybody."""

    def page(summary: str, media: str, *more: int) -> Obj:
        answers: Obj = {"200": {"description": "It is.", "content": {media: {}}}}
        answers |= {str(code): {"$ref": f"#/components/responses/{code}"} for code in more}
        return {
            "get": {"summary": summary, "security": [], "tags": ["gateway"], "responses": answers}
        }

    return {
        "/healthz": page("Whether the gateway lives", "text/plain"),
        "/readyz": page("Whether the gateway and the Kubernetes API serve", "text/plain", 503),
        "/metrics": page("Metrics for Prometheus", "text/plain"),
        "/openapi.json": page("This document", "application/json"),
        "/docs": page("This document for people", "text/html"),
        "/api/v1": page("The kinds there are and what they can do", "application/json"),
    }
