r"""Kubernetes protobuf request bodies, decoded into the JSON form of the same object.

A body is the magic ``k8s\0`` and a ``runtime.Unknown``: the type of the object and its bytes. The
bytes are read by the field numbers of the Go struct tags into a JSON-like dict, and the normaliser
of the message does the rest, so the result equals what the JSON body would have given.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable
from functools import cache
from typing import Any

import orjson

from corral.cluster.apiserver.codec import refusal
from corral.cluster.apiserver.codec.normal import Mismatch, normaliser
from corral.cluster.apiserver.codec.types import (
    Field,
    Message,
    Type,
    message,
    message_for,
    wrapped_lists,
)
from corral.cluster.apiserver.codec.values import from_unix, nanoseconds_text
from corral.kube.types import Obj

__all__ = ["MAGIC", "decode_protobuf"]

MAGIC = b"k8s\x00"
_MAX_DEPTH = 100
_VARINT, _FIXED64, _BYTES, _GROUP, _GROUP_END, _FIXED32 = 0, 1, 2, 3, 4, 5

Pairs = list[tuple[int, int, Any]]
"""(field number, wire type, value) as read: an int for numbers, bytes for the rest."""
Reader = Callable[[int, Any, int], Any]
"""Takes (wire type, value, depth); gives the JSON form."""


def decode_protobuf(body: bytes, msg: Message | None) -> Obj:
    """The object in ``body``, with ``apiVersion`` and ``kind`` set, in normal form.

    The type named in the body decides; ``msg`` is the type expected, and is used where the body
    names none.

    Raises:
        errors.BadRequest: the body is not such a message.
    """
    expected = msg.kind if msg else "object"
    if not body:
        raise refusal.unrecognized(expected, "empty data", body)
    if not body.startswith(MAGIC):
        text = (
            "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"
        )
        raise refusal.unrecognized(expected, text, body)
    if len(body) == len(MAGIC):
        raise refusal.unrecognized(expected, "empty body", body)
    try:
        api_version, kind, raw = _envelope(body[len(MAGIC) :])
    except ValueError as err:
        raise refusal.unrecognized(expected, str(err), body) from None
    group, _, version = api_version.rpartition("/")
    actual = message_for(group, version, kind) if api_version and kind else msg
    if msg is not None and actual is not msg:
        raise refusal.other_kind(msg, actual, api_version, kind)
    if actual is None:
        raise refusal.unrecognized(expected, f'no kind "{kind}" is registered', body)
    try:
        return _object(actual, raw, kind or actual.kind, api_version or actual.api_version, 0)
    except (ValueError, Mismatch, RecursionError) as err:
        text = str(err) or "proto: malformed value"
        raise refusal.cannot_handle(actual, actual.kind, actual.version, text) from None


def _object(msg: Message, raw: bytes, kind: str, api_version: str, depth: int) -> Obj:
    obj = _message(msg, raw, depth)
    obj["kind"], obj["apiVersion"] = kind, api_version
    out: Obj = normaliser(msg)(obj, [])
    return out


def _envelope(data: bytes) -> tuple[str, str, bytes]:
    api_version = kind = ""
    raw = b""
    for number, wire, value in _pairs(data):
        if number in (1, 2) and wire != _BYTES:
            raise ValueError(f"proto: wrong wireType = {wire} for field Unknown")
        if number == 1:
            for inner, inner_wire, text in _pairs(value):
                if inner_wire == _BYTES and inner == 1:
                    api_version = text.decode("utf-8", "replace")
                elif inner_wire == _BYTES and inner == 2:
                    kind = text.decode("utf-8", "replace")
        elif number == 2:
            raw = value
    return api_version, kind, raw


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data):
            raise ValueError("unexpected EOF")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, at
        shift += 7
        if shift >= 64:
            raise ValueError("proto: integer overflow")


def _pairs(data: bytes) -> Pairs:
    """Split a message into its fields; groups, which Kubernetes never writes, are skipped."""
    out: Pairs = []
    at, end, group = 0, len(data), 0
    while at < end:
        tag, at = _varint(data, at)
        number, wire = tag >> 3, tag & 7
        value: int | bytes
        if wire == _VARINT:
            value, at = _varint(data, at)
        elif wire == _BYTES:
            length, at = _varint(data, at)
            value, at = data[at : at + length], at + length
        elif wire in (_FIXED64, _FIXED32):
            length = 8 if wire == _FIXED64 else 4
            value, at = data[at : at + length], at + length
        elif wire in (_GROUP, _GROUP_END):
            group += 1 if wire == _GROUP else -1
            if group < 0:
                raise ValueError("proto: wiretype end group for non-group")
            continue
        else:
            raise ValueError(f"proto: illegal wireType {wire}")
        if at > end:
            raise ValueError("unexpected EOF")
        if number <= 0 or number > 0x1FFFFFFF:
            raise ValueError(f"proto: illegal tag {number} (wire type {wire})")
        if not group:
            out.append((number, wire, value))
    if group:
        raise ValueError("unexpected EOF")
    return out


def _message(msg: Message, data: bytes, depth: int) -> Obj:
    if depth > _MAX_DEPTH:
        raise ValueError("proto: message is nested too deep")
    table = _table(msg)
    out: Obj = {}
    for number, wire, value in _pairs(data):
        store = table.get(number)
        if store is not None:
            store(out, wire, value, depth)
    return out


Store = Callable[[Obj, int, Any, int], None]


@cache
def _table(msg: Message) -> dict[int, Store]:
    """How to store each field of ``msg``, by its number."""
    return {field.number: _store(field) for field in msg.own if field.number}


def _store(field: Field) -> Store:
    kind = field.type
    if kind.shape == "pointer" and kind.elem is not None:
        kind = kind.elem
    if field.embedded:
        return _store_embedded(message(kind.text))
    if kind.shape == "list" and kind.elem is not None and kind.text not in wrapped_lists():
        return _store_item(field.name, kind.elem)
    if kind.shape == "map" and kind.elem is not None:
        return _store_entry(field.name, kind.elem)
    read, name = _reader(kind), field.name

    def store(out: Obj, wire: int, value: Any, depth: int) -> None:
        item = read(wire, value, depth)
        # A message in two pieces is one message.
        if type(item) is dict and name in out and kind.shape == "struct":
            out[name].update(item)
        else:
            out[name] = item

    return store


def _store_embedded(msg: Message) -> Store:
    def store(out: Obj, wire: int, value: Any, depth: int) -> None:
        out.update(_message(msg, _expect(wire, _BYTES, value), depth + 1))

    return store


def _store_item(name: str, elem: Type) -> Store:
    read = _reader(elem)
    packable = elem.shape in ("int", "bool")

    def store(out: Obj, wire: int, value: Any, depth: int) -> None:
        items = out.setdefault(name, [])
        if packable and wire == _BYTES:
            at = 0
            while at < len(value):
                number, at = _varint(value, at)
                items.append(read(_VARINT, number, depth))
        else:
            items.append(read(wire, value, depth))

    return store


def _store_entry(name: str, elem: Type) -> Store:
    read = _reader(elem)
    empty = b"" if elem.shape not in ("int", "bool") else 0
    empty_wire = _VARINT if empty == 0 else _BYTES

    def store(out: Obj, wire: int, value: Any, depth: int) -> None:
        key, item_wire, item = "", empty_wire, empty
        for number, inner, part in _pairs(_expect(wire, _BYTES, value)):
            if number == 1:
                key = _expect(inner, _BYTES, part).decode("utf-8", "replace")
            elif number == 2:
                item_wire, item = inner, part
        out.setdefault(name, {})[key] = read(item_wire, item, depth + 1)

    return store


def _expect(wire: int, wanted: int, value: Any) -> Any:
    if wire != wanted:
        raise ValueError(f"proto: wrong wireType = {wire}")
    return value


def _reader(kind: Type) -> Reader:
    shape = kind.shape
    if shape == "struct":
        return _read_struct(kind.text)
    if shape == "int":
        return _read_int32 if kind.base in ("int32", "int") else _read_int64
    if shape == "list":
        return _read_wrapped(kind)
    return _READERS[shape]


def _read_struct(name: str) -> Reader:
    # Looked up at run time: a schema contains itself.
    return lambda wire, value, depth: _message(
        message(name), _expect(wire, _BYTES, value), depth + 1
    )


def _read_wrapped(kind: Type) -> Reader:
    """A named list: a message with the items as field 1."""
    assert kind.elem is not None
    read = _reader(kind.elem)

    def items(wire: int, value: Any, depth: int) -> list[Any]:
        pairs = _pairs(_expect(wire, _BYTES, value))
        return [read(inner, item, depth + 1) for number, inner, item in pairs if number == 1]

    return items


def _read_text(wire: int, value: Any, depth: int) -> str:
    text: str = _expect(wire, _BYTES, value).decode("utf-8", "replace")
    return text


def _read_bool(wire: int, value: Any, depth: int) -> bool:
    return bool(_expect(wire, _VARINT, value))


def _read_int64(wire: int, value: Any, depth: int) -> int:
    number: int = _expect(wire, _VARINT, value)
    return number - 2**64 if number >= 2**63 else number


def _read_int32(wire: int, value: Any, depth: int) -> int:
    number: int = _expect(wire, _VARINT, value) & 0xFFFFFFFF
    return number - 2**32 if number >= 2**31 else number


def _read_float(wire: int, value: Any, depth: int) -> float:
    layout = {_FIXED64: "<d", _FIXED32: "<f"}.get(wire)
    if layout is None:
        raise ValueError(f"proto: wrong wireType = {wire}")
    number: float = struct.unpack(layout, value)[0]
    return number


def _read_bytes(wire: int, value: Any, depth: int) -> str:
    return base64.b64encode(_expect(wire, _BYTES, value)).decode()


def _first(wire: int, value: Any) -> dict[int, Any]:
    """The fields of a small message, the last of each number."""
    return {number: item for number, _, item in _pairs(_expect(wire, _BYTES, value))}


def _read_quantity(wire: int, value: Any, depth: int) -> str:
    text = _first(wire, value).get(1, b"0")
    return _read_text(_BYTES if type(text) is bytes else _VARINT, text, depth)


def _read_int_or_string(wire: int, value: Any, depth: int) -> int | str:
    parts = _first(wire, value)
    if parts.get(1, 0) == 1:
        text = parts.get(3, b"")
        return _read_text(_BYTES if type(text) is bytes else _VARINT, text, depth)
    number = parts.get(2, 0)
    return _read_int32(_VARINT if type(number) is int else _BYTES, number, depth)


def _read_moment(*, micro: bool) -> Reader:
    def read(wire: int, value: Any, depth: int) -> str | None:
        if not _expect(wire, _BYTES, value):
            return None
        parts = _first(wire, value)
        seconds, nanos = parts.get(1, 0), parts.get(2, 0)
        if type(seconds) is not int or type(nanos) is not int:
            raise ValueError("proto: wrong wireType for field Timestamp")
        return from_unix(
            _read_int64(_VARINT, seconds, 0), _read_int32(_VARINT, nanos, 0), micro=micro
        )

    return read


def _read_duration(wire: int, value: Any, depth: int) -> str:
    number = _first(wire, value).get(1, 0)
    total = _read_int64(_VARINT if type(number) is int else _BYTES, number, depth)
    return f"-{nanoseconds_text(-total)}" if total < 0 else nanoseconds_text(total)


def _read_raw(wire: int, value: Any, depth: int) -> Any:
    raw = _first(wire, value).get(1, b"")
    if type(raw) is not bytes:
        raise ValueError("proto: wrong wireType for field Raw")
    if not raw:
        return None
    if raw.startswith(MAGIC):
        return _nested(raw, depth)
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError as err:
        raise ValueError(f"invalid JSON in raw field: {err}") from None


def _nested(raw: bytes, depth: int) -> Any:
    api_version, kind, data = _envelope(raw[len(MAGIC) :])
    group, _, version = api_version.rpartition("/")
    msg = message_for(group, version, kind)
    if msg is None:
        raise ValueError(f'no kind "{kind}" is registered for version "{api_version}"')
    return _object(msg, data, kind, api_version, depth + 10)


def _read_schema_or_bool(wire: int, value: Any, depth: int) -> Any:
    parts = _first(wire, value)
    if 2 in parts:
        return _SCHEMA(_BYTES, _blob(parts[2]), depth)
    return bool(parts.get(1, 0))


def _read_schema_or_list(wire: int, value: Any, depth: int) -> Any:
    pairs = _pairs(_expect(wire, _BYTES, value))
    many = [_SCHEMA(inner, item, depth) for number, inner, item in pairs if number == 2]
    one = [_SCHEMA(inner, item, depth) for number, inner, item in pairs if number == 1]
    return many or (one[-1] if one else None)


def _read_schema_or_strings(wire: int, value: Any, depth: int) -> Any:
    pairs = _pairs(_expect(wire, _BYTES, value))
    many = [_read_text(inner, item, depth) for number, inner, item in pairs if number == 2]
    one = [_SCHEMA(inner, item, depth) for number, inner, item in pairs if number == 1]
    return many or (one[-1] if one else None)


def _blob(value: Any) -> bytes:
    if type(value) is not bytes:
        raise ValueError("proto: wrong wireType")
    return value


_SCHEMA = _read_struct("apiextensions/v1.JSONSchemaProps")
_READERS: dict[str, Reader] = {
    "string": _read_text,
    "bool": _read_bool,
    "float": _read_float,
    "bytes": _read_bytes,
    "quantity": _read_quantity,
    "int-or-string": _read_int_or_string,
    "time": _read_moment(micro=False),
    "microtime": _read_moment(micro=True),
    "duration": _read_duration,
    "raw": _read_raw,
    "schema-or-bool": _read_schema_or_bool,
    "schema-or-list": _read_schema_or_list,
    "schema-or-strings": _read_schema_or_strings,
}
