"""Version 2 of the OpenAPI document: what is left out, and the protobuf form."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import pytest

from corral.cluster.apiserver.http.openapi.proto import encode_document
from corral.cluster.apiserver.http.openapi.v2 import document, to_v2_operation, to_v2_schema

NAME = "test.example.v1.Thing"
REF = {"$ref": f"#/components/schemas/{NAME}"}


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        pytest.param(REF, {"$ref": f"#/definitions/{NAME}"}, id="reference"),
        pytest.param(
            {"description": "d", "allOf": [REF]},
            {"description": "d", "$ref": f"#/definitions/{NAME}"},
            id="reference with words",
        ),
        pytest.param(
            {"type": "integer", "anyOf": [{"minimum": 1}], "oneOf": [{}], "not": {}},
            {"type": "integer"},
            id="junctors",
        ),
        pytest.param(
            {"type": "array", "nullable": True, "items": {"type": "string"}}, {}, id="nullable"
        ),
        pytest.param(
            {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": {}},
            {"x-kubernetes-preserve-unknown-fields": True},
            id="open object",
        ),
        pytest.param({"type": "array"}, {}, id="array of anything"),
        pytest.param(
            {
                "type": "object",
                "required": ["a", "b"],
                "properties": {"a": {"type": "string", "nullable": True}, "b": {"type": "string"}},
            },
            {
                "type": "object",
                "required": ["b"],
                "properties": {"a": {}, "b": {"type": "string"}},
            },
            id="required but nullable",
        ),
        pytest.param(
            {"type": "object", "additionalProperties": {"type": "array", "items": REF}},
            {
                "type": "object",
                "additionalProperties": {
                    "type": "array", "items": {"$ref": f"#/definitions/{NAME}"},
                },
            },
            id="nested",
        ),
    ],
)  # fmt: skip
def test_schemas(schema: dict[str, Any], expected: dict[str, Any]) -> None:
    assert to_v2_schema(schema) == expected


def test_operations() -> None:
    operation = {
        "description": "d",
        "parameters": [{"name": "q", "in": "query", "schema": {"type": "string"}}],
        "requestBody": {"content": {"application/x": {"schema": REF}}, "required": True},
        "responses": {
            "200": {"description": "OK", "content": {"application/json": {"schema": REF}}}
        },
        "x-kubernetes-action": "patch",
    }
    schema = {"$ref": f"#/definitions/{NAME}"}
    found = to_v2_operation(operation)
    assert found["consumes"] == ["application/x"]
    assert found["parameters"] == [
        {"name": "body", "in": "body", "required": True, "schema": schema},
        {"type": "string", "name": "q", "in": "query"},
    ]
    assert found["responses"] == {
        "200": {"description": "OK", "schema": schema},
        "401": {"description": "Unauthorized"},
    }
    assert found["x-kubernetes-action"] == "patch"


# -- protobuf ------------------------------------------------------------------------------


def fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """Numbers and values of a message, read as the wire format says."""
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        number, kind = divmod(varint(), 8)
        if kind == 0:
            yield number, varint()
        elif kind == 1:
            yield number, struct.unpack_from("<d", data, at)[0]
            at += 8
        else:
            size = varint()
            yield number, data[at : at + size]
            at += size


def find(data: bytes, *path: int) -> list[Any]:
    """All values at a path of field numbers."""
    values: list[Any] = [data]
    for number in path:
        values = [value for part in values for n, value in fields(part) if n == number]
    return values


def named(data: bytes, name: str) -> bytes:
    """The value of a name in a message of pairs."""
    pair = next(p for _, p in fields(data) if find(p, 1) == [name.encode()])
    value: bytes = find(pair, 2)[0]
    return value


def test_protobuf_schema() -> None:
    thing = {
        "type": "object",
        "description": "é" * 100,
        "required": ["a", "b"],
        "x-kubernetes-group-version-kind": [{"kind": "Thing"}],
        "properties": {
            "a": {"type": "array", "items": {"type": "string"}},
            "b": {"type": "object", "additionalProperties": REF, "maxLength": 300, "minimum": 0.5},
            "c": {"additionalProperties": False, "default": {"x": 1}, "enum": ["p", "q"]},
        },
    }
    data = encode_document(document("1.2", {}, {NAME: thing}))
    assert find(data, 1) == [b"2.0"]
    assert find(data, 2, 2) == [b"1.2"]
    schema = named(find(data, 9)[0], NAME)
    assert find(schema, 22, 1) == [b"object"]
    assert find(schema, 4) == [("é" * 100).encode()]
    assert find(schema, 19) == [b"a", b"b"]
    assert find(schema, 31, 1) == [b"x-kubernetes-group-version-kind"]
    assert find(schema, 31, 2, 2) == [b'[{"kind":"Thing"}]']
    properties = find(schema, 25)[0]
    assert find(named(properties, "a"), 23, 1, 22, 1) == [b"string"]
    b = named(properties, "b")
    assert find(b, 21, 1, 1) == [f"#/definitions/{NAME}".encode()]
    assert (find(b, 11), find(b, 9)) == ([300], [0.5])
    c = named(properties, "c")
    assert find(c, 21, 2) == [0]
    assert find(c, 5, 2) == [b'{"x":1}']
    assert find(c, 20, 2) == [b'"p"', b'"q"']


def test_protobuf_path() -> None:
    operation = {
        "operationId": "listThing",
        "parameters": [{"name": "watch", "in": "query", "schema": {"type": "boolean"}}],
        "requestBody": {"content": {"*/*": {"schema": REF}}},
        "responses": {"200": {"description": "OK"}},
    }
    item = {
        "get": operation,
        "parameters": [
            {"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}
        ],
    }
    data = encode_document(document("1.2", {"/things/{name}": item}, {}))
    path = find(data, 8, 2)[0]
    assert find(path, 1) == [b"/things/{name}"]
    assert find(path, 2, 2, 5) == [b"listThing"]
    body, query = find(path, 2, 2, 8)
    assert find(body, 1, 1, 5, 1) == [f"#/definitions/{NAME}".encode()]
    assert find(query, 1, 2, 3, 4) == [b"watch"]
    assert find(query, 1, 2, 3, 6) == [b"boolean"]
    assert find(path, 2, 2, 9, 1, 1) == [b"200", b"401"]
    assert find(path, 2, 9, 1, 2, 4, 4) == [b"name"]
    assert find(path, 2, 9, 1, 2, 4, 1) == [1]
