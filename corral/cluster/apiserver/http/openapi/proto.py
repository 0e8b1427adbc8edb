"""OpenAPI version 2 in protobuf, the only form in which Go clients fetch it.

The messages are those of gnostic's ``openapi.v2`` package. A table per message says which JSON key
goes into which field and how; keys that no table knows are left out, ``x-…`` keys become vendor
extensions that carry their value as YAML (JSON is YAML).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any

import orjson

from corral.kube.types import Obj

__all__ = ["encode_document"]

Encoder = Callable[[int, Any], bytes]
"""Takes a field number and a JSON value; gives the field, tag and all."""


def encode_document(document: Obj) -> bytes:
    """The body of a ``Document``."""
    return _message(document, _DOCUMENT, extension=16)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _block(number: int, data: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _text(number: int, value: str) -> bytes:
    return _block(number, value.encode()) if value else b""


def _texts(number: int, values: list[str]) -> bytes:
    return b"".join(_block(number, value.encode()) for value in values)


def _flag(number: int, value: bool) -> bytes:
    return _varint(number << 3) + b"\x01" if value else b""


def _count(number: int, value: int) -> bytes:
    return _varint(number << 3) + _varint(value & (2**64 - 1)) if value else b""


def _double(number: int, value: float) -> bytes:
    return _varint(number << 3 | 1) + struct.pack("<d", value) if value else b""


def _any(number: int, value: Any) -> bytes:
    return _block(number, _block(2, orjson.dumps(value)))


def _anys(number: int, values: list[Any]) -> bytes:
    return b"".join(_any(number, value) for value in values)


def _named(value: Callable[[Any], bytes], inner: int = 1) -> Encoder:
    """A message that holds name and value pairs."""

    def encode(number: int, mapping: Obj) -> bytes:
        pairs = (
            _block(inner, _text(1, name) + _block(2, value(item))) for name, item in mapping.items()
        )
        return _block(number, b"".join(pairs))

    return encode


def _message(value: Obj, table: Mapping[str, tuple[int, Encoder]], *, extension: int) -> bytes:
    out: list[bytes] = []
    for key, item in value.items():
        known = table.get(key)
        if known is not None:
            number, encode = known
            out.append(encode(number, item))
        elif extension and key.startswith("x-"):
            named = _text(1, key) + _any(2, item)
            out.append(_block(extension, named))
    return b"".join(out)


def _schema(value: Obj) -> bytes:
    return _message(value, _SCHEMA, extension=31)


def _schema_field(number: int, value: Obj) -> bytes:
    return _block(number, _schema(value))


def _schemas(number: int, values: list[Obj]) -> bytes:
    return b"".join(_schema_field(number, value) for value in values)


def _type(number: int, value: str | list[str]) -> bytes:
    return _block(number, _texts(1, [value] if isinstance(value, str) else value))


def _items(number: int, value: Obj | list[Obj]) -> bytes:
    return _block(number, _schemas(1, [value] if isinstance(value, dict) else value))


def _additional(number: int, value: Obj | bool) -> bytes:
    if isinstance(value, bool):
        # A member of a oneof is written even when it is false.
        return _block(number, _varint(2 << 3) + (b"\x01" if value else b"\x00"))
    return _block(number, _schema_field(1, value))


def _parameter(value: Obj) -> bytes:
    """A ``ParametersItem``: a reference, or a parameter in the body, query, path or header."""
    if "$ref" in value:
        return _block(2, _text(1, value["$ref"]))
    place = value["in"]
    if place == "body":
        return _block(1, _block(1, _message(value, _BODY_PARAMETER, extension=6)))
    # Only query parameters may be given without a value, which moves the numbers behind it.
    number, table, extension = {
        "query": (3, _QUERY_PARAMETER, 23),
        "path": (4, _PLAIN_PARAMETER, 22),
        "header": (1, _PLAIN_PARAMETER, 22),
    }[place]
    plain = _message(value, table, extension=extension)
    return _block(1, _block(2, _block(number, plain)))


def _parameters(number: int, values: list[Obj]) -> bytes:
    return b"".join(_block(number, _parameter(value)) for value in values)


def _response(value: Obj) -> bytes:
    out = _text(1, value.get("description", ""))
    if "schema" in value:
        out += _block(2, _schema_field(1, value["schema"]))
    return _block(1, out)


def _operation(number: int, value: Obj) -> bytes:
    return _block(number, _message(value, _OPERATION, extension=13))


def _path(value: Obj) -> bytes:
    return _message(value, _PATH, extension=10)


def _info(number: int, value: Obj) -> bytes:
    return _block(number, _text(1, value.get("title", "")) + _text(2, value.get("version", "")))


def _requirements(number: int, values: list[Obj]) -> bytes:
    scopes = _named(lambda names: _texts(1, names))
    return b"".join(scopes(number, value) for value in values)


def _api_key(value: Obj) -> bytes:
    table = {"type": (1, _text), "name": (2, _text), "in": (3, _text), "description": (4, _text)}
    return _block(2, _message(value, table, extension=5))


_SCHEMA: dict[str, tuple[int, Encoder]] = {
    "$ref": (1, _text), "format": (2, _text), "title": (3, _text), "description": (4, _text),
    "default": (5, _any), "multipleOf": (6, _double), "maximum": (7, _double),
    "exclusiveMaximum": (8, _flag), "minimum": (9, _double), "exclusiveMinimum": (10, _flag),
    "maxLength": (11, _count), "minLength": (12, _count), "pattern": (13, _text),
    "maxItems": (14, _count), "minItems": (15, _count), "uniqueItems": (16, _flag),
    "maxProperties": (17, _count), "minProperties": (18, _count), "required": (19, _texts),
    "enum": (20, _anys), "additionalProperties": (21, _additional), "type": (22, _type),
    "items": (23, _items), "allOf": (24, _schemas), "properties": (25, _named(_schema)),
    "readOnly": (27, _flag), "example": (30, _any),
}  # fmt: skip
_BODY_PARAMETER: dict[str, tuple[int, Encoder]] = {
    "description": (1, _text), "name": (2, _text), "in": (3, _text), "required": (4, _flag),
    "schema": (5, _schema_field),
}  # fmt: skip
_PLAIN_PARAMETER: dict[str, tuple[int, Encoder]] = {
    "required": (1, _flag), "in": (2, _text), "description": (3, _text), "name": (4, _text),
    "type": (5, _text), "format": (6, _text), "uniqueItems": (19, _flag),
}  # fmt: skip
_QUERY_PARAMETER: dict[str, tuple[int, Encoder]] = {
    "required": (1, _flag), "in": (2, _text), "description": (3, _text), "name": (4, _text),
    "type": (6, _text), "format": (7, _text), "uniqueItems": (20, _flag),
}  # fmt: skip
_OPERATION: dict[str, tuple[int, Encoder]] = {
    "tags": (1, _texts), "description": (3, _text), "operationId": (5, _text),
    "produces": (6, _texts), "consumes": (7, _texts), "parameters": (8, _parameters),
    "responses": (9, _named(_response)), "schemes": (10, _texts), "deprecated": (11, _flag),
}  # fmt: skip
_PATH: dict[str, tuple[int, Encoder]] = {
    "get": (2, _operation), "put": (3, _operation), "post": (4, _operation),
    "delete": (5, _operation), "options": (6, _operation), "head": (7, _operation),
    "patch": (8, _operation), "parameters": (9, _parameters),
}  # fmt: skip
_DOCUMENT: dict[str, tuple[int, Encoder]] = {
    "swagger": (1, _text), "info": (2, _info), "paths": (8, _named(_path, 2)),
    "definitions": (9, _named(_schema)), "security": (12, _requirements),
    "securityDefinitions": (13, _named(_api_key)),
}  # fmt: skip
