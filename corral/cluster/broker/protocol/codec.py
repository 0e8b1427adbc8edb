"""Requests from bytes, answers to bytes, in the version that was asked for.

An answer is a dict in the shape of the newest version; what an older one does not have is left
out. Records in an answer may be slices of files: they stay what they are until they are sent.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from datetime import timedelta
from functools import cache
from struct import Struct
from struct import error as StructError
from types import NoneType, UnionType
from typing import Any, Final, cast, get_args, get_origin

from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer

from corral.cluster.broker.storage.files import FileSlice

__all__ = [
    "Malformed",
    "Part",
    "RequestHead",
    "check_produce",
    "head_of",
    "items_in",
    "milliseconds",
    "read",
    "write",
]

Part = bytes | FileSlice

_HEAD: Final = Struct(">hhih")
_SIZE: Final = Struct(">i")
_TAGS: Final = 100
"""Of one place in a request; nobody sends more than a few."""


class Malformed(Exception):
    """This is no request."""


class RequestHead:
    """What every request begins with."""

    __slots__ = ("client", "correlation", "key", "version")

    def __init__(self, key: int, version: int, correlation: int, client: str) -> None:
        self.key = key
        self.version = version
        self.correlation = correlation
        self.client = client


def head_of(frame: bytes | bytearray | memoryview) -> RequestHead:
    """Raises Malformed."""
    if len(frame) < _HEAD.size:
        raise Malformed("the header is cut off")
    key, version, correlation, length = _HEAD.unpack_from(frame)
    end = _HEAD.size + max(length, 0)
    if end > len(frame):
        raise Malformed("the client's name is cut off")
    return RequestHead(key, version, correlation, str(frame[_HEAD.size : end], "utf-8", "replace"))


_FLEXIBLE_PRODUCE: Final = 9
"""Version of Produce from which lengths are varints."""


def check_produce(frame: bytes | bytearray, version: int, most: int) -> None:
    """That a Produce names few partitions. Raises Malformed.

    It is the only large request: bytes of records cost nothing to read, partitions do.
    """
    flexible = version >= _FLEXIBLE_PRODUCE
    data = memoryview(frame)
    try:
        at = _HEAD.size + max(_HEAD.unpack_from(data)[3], 0)
        if flexible:
            at = _past_tags(data, at)
        at = _past(data, at, 2, flexible) + 6  # the transaction, acks and the time limit
        topics, at = _length(data, at, 4, flexible)
        left = most
        for _ in range(topics):
            at = _past(data, at, 2, flexible)
            count, at = _length(data, at, 4, flexible)
            left -= count + 1
            if left < 0:
                raise Malformed(f"a request to produce to more than {most} partitions")
            for _ in range(count):
                at = _past(data, at + 4, 4, flexible)
                at = _past_tags(data, at) if flexible else at
            at = _past_tags(data, at) if flexible else at
    except (IndexError, StructError):
        raise Malformed("the request is cut off") from None


def _length(data: memoryview, at: int, size: int, flexible: bool) -> tuple[int, int]:
    """Of a text, of bytes or of a list, and the place behind it; nothing at all has 0."""
    if flexible:
        length, at = _unsigned(data, at)
        return max(length - 1, 0), at
    if at + size > len(data):
        raise IndexError
    return max(int.from_bytes(data[at : at + size], "big", signed=True), 0), at + size


def _past(data: memoryview, at: int, size: int, flexible: bool) -> int:
    length, at = _length(data, at, size, flexible)
    return at + length


def _past_tags(data: memoryview, at: int) -> int:
    count, at = _unsigned(data, at)
    if count > _TAGS:
        raise Malformed(f"{count} tags")
    for _ in range(count):
        _, at = _unsigned(data, at)
        length, at = _unsigned(data, at)
        at += length
    return at


def _unsigned(data: memoryview, at: int) -> tuple[int, int]:
    byte = data[at]
    if byte < 0x80:
        return byte, at + 1
    value = shift = 0
    while shift < 35:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise Malformed("a number is too long")


def items_in(request: Any) -> int:
    """Topics, partitions and names in a request, as far as they make work."""
    count = 0
    kind: Any = type(request)
    for name, depth in _lists(kind):
        rows = getattr(request, name) or ()
        count += len(rows)
        for inner in depth:
            count += sum(len(getattr(row, inner) or ()) for row in rows)
    return count


@cache
def _lists(kind: Any) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Fields that are lists, each with those of its rows that are."""
    return tuple(
        (field.name, tuple(f.name for f in fields(inner) if _is_list(f.type)) if inner else ())
        for field in fields(kind)
        if _is_list(field.type)
        for inner in (_inner(field.type),)
    )


def _is_list(hint: Any) -> bool:
    if get_origin(hint) is UnionType:
        hint = next(part for part in get_args(hint) if part is not NoneType)
    return get_origin(hint) is tuple


def read(frame: bytes | bytearray, key: int, version: int) -> Any:
    """The request in a frame. Raises Malformed."""
    header, payload = _readers(key, version)
    data = memoryview(frame).toreadonly()
    try:
        _, start = header(data, 0)
        request, _ = payload(data, start)  # librdkafka leaves bytes behind some requests
    except Exception as err:  # whatever a parser of bytes from anybody may find
        raise Malformed(f"{type(err).__name__}: {err}") from err
    return request


@cache
def _readers(key: int, version: int) -> tuple[Callable[..., Any], Callable[..., Any]]:
    kind = load_request_schema(key, version)
    return entity_reader(kind.__header_schema__), entity_reader(kind)


class _Parts:
    """What the library takes for a stream."""

    def __init__(self) -> None:
        self.parts: list[Part] = []
        self._text = io.BytesIO()

    def write(self, data: Part) -> None:
        if isinstance(data, FileSlice):
            self._cut()
            self.parts.append(data)
        else:
            self._text.write(data)

    def _cut(self) -> None:
        if text := self._text.getvalue():
            self.parts.append(text)
            self._text = io.BytesIO()

    def done(self) -> list[Part]:
        self._cut()
        return self.parts


def write(key: int, version: int, correlation: int, answer: Mapping[str, Any]) -> list[Part]:
    """The frame of an answer."""
    kind, header_kind, write_header, write_payload = _writers(key, version)
    stream = _Parts()
    write_header(stream, header_kind(correlation_id=correlation))
    write_payload(stream, _shaped(kind, answer))
    first, *rest = stream.done()
    size = _SIZE.pack(len(first) + sum(map(len, rest)))
    return [size + cast(bytes, first), *rest]


@cache
def _writers(key: int, version: int) -> tuple[Any, Any, Callable[..., Any], Callable[..., Any]]:
    kind = load_response_schema(key, version)
    header = kind.__header_schema__
    return kind, header, entity_writer(header), entity_writer(kind)


def _shaped(kind: Any, answer: Mapping[str, Any]) -> Any:
    values = {}
    for name, inner, default in _plan(kind):
        value = answer.get(name, default)
        if value is MISSING:
            raise TypeError(f"{kind.__name__} has no {name}")
        if inner is not None and value is not None and value is not default:
            if isinstance(value, Mapping):
                value = _shaped(inner, value)
            else:
                value = tuple([_shaped(inner, item) for item in value])
        values[name] = value
    return kind(**values)


@cache
def _plan(kind: Any) -> tuple[tuple[str, Any, Any], ...]:
    """Name, kind of what is inside and default of each field."""
    zero = {"throttle_time": timedelta()}
    return tuple(
        (field.name, _inner(field.type), zero.get(field.name, field.default))
        for field in fields(kind)
    )


def _inner(hint: Any) -> Any:
    if get_origin(hint) is UnionType:
        hint = next(part for part in get_args(hint) if part is not NoneType)
    if get_origin(hint) is tuple:
        hint = get_args(hint)[0]
    return hint if is_dataclass(hint) else None


def milliseconds(span: object) -> float:
    """A span of time in a request, in seconds."""
    return cast(timedelta, span).total_seconds()
