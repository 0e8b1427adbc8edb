"""`json-f64`: a JSON array of numbers; nested arrays give a shape.

Flat arrays, the common case, are read by a typed decoder that takes nothing but numbers. Numbers
are written without a needless ".0" and without spaces.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

import msgspec
import numpy as np
import orjson

from corral.learning import native
from corral.learning.codecs.base import Bytes
from corral.learning.errors import InvalidConfig, UpdateRejected
from corral.learning.native.powers import powers
from corral.learning.tensors import Model

Floats = np.ndarray[tuple[int, ...], np.dtype[np.float64]]
_FLAT = msgspec.json.Decoder(list[float])
_PIECE = 1 << 20
"""Bytes of a text whose numbers are objects at the same time."""
_DEEPEST = 64
_BLANK = b" \t\r\n"
_SPACE = re.compile(rb"[ \t\r\n]*")
_OF_NUMBERS = b"0123456789+-.eE[], \t\r\n"
_FRAME = b"[] \t\r\n"
_KINDS = bytes.maketrans(b"123456789+-.eE\t\r\n", b"0" * 14 + b" " * 3)
_MISPLACED = (b"]0", b"0[", b"][")
_WHOLE = re.compile(rb"\.0(?=[,\]])")


class JsonFloats:
    name = "json-f64"

    def decode(self, data: Bytes) -> Model:
        head = bytes(data[:64]).lstrip(b" \t\r\n")
        nested = head[:1] == b"[" and head[1:].lstrip(b" \t\r\n")[:1] == b"["
        array = _nested(bytes(data)) if nested else _flat(data)
        if not array.size:
            raise UpdateRejected("invalid vector: empty")
        if not np.isfinite(array).all():
            raise UpdateRejected("invalid json-f64 payload: a number is too large for a float64")
        return Model.vector(array)

    def pieces(self, model: Model) -> Iterator[Bytes]:
        yield self.encode(model)

    def encode(self, model: Model) -> bytes:
        if len(model.tensors) != 1:
            raise InvalidConfig("json-f64 holds one tensor; use safetensors for several")
        values = np.asarray(model.tensors[0].array, np.float64)
        return _WHOLE.sub(b"", orjson.dumps(np.ascontiguousarray(values).tolist()))


def _flat(data: Bytes) -> Floats:
    if native.kernel is not None:
        result = np.empty(native.kernel.commas(data) + 1)
        if native.kernel.numbers(data, powers(), result):
            return result
        del result
    # without the kernel; and what it does not take is taken, or refused with a reason, here
    try:
        return _by_pieces(memoryview(data).cast("B"))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UpdateRejected(f"invalid json-f64 payload: {error}") from error


def _by_pieces(data: memoryview) -> Floats:
    """A flat array; an object for each of its numbers at once would take 16 times the text."""
    if len(data) <= _PIECE:
        return _numbers(data)
    begin, end = _SPACE.match(data).end(), len(data)  # type: ignore[union-attr]
    while end and data[end - 1] in _BLANK:
        tail = bytes(data[max(end - _PIECE, 0) : end])
        end -= len(tail) - len(tail.rstrip(_BLANK))
    if bytes(data[begin : begin + 1]) != b"[" or bytes(data[end - 1 : end]) != b"]":
        raise UpdateRejected("invalid json-f64 payload: it is no array of numbers")
    found: list[Floats] = []
    start, last = begin + 1, end - 1
    while start <= last:
        text = bytes(data[start : min(start + _PIECE, last)])
        if start + len(text) < last:
            text = text[: max(text.rfind(b","), 0)]
        found.append(_numbers(b"[%b]" % text))
        if not found[-1].size:
            raise UpdateRejected("invalid json-f64 payload: a number is missing, or has no end")
        start += len(text) + 1
    return np.concatenate(found)


def _numbers(data: Bytes) -> Floats:
    numbers = _FLAT.decode(data)
    return np.fromiter(numbers, np.float64, len(numbers))


def _nested(data: bytes) -> Floats:
    """Numbers are read as if they were flat; brackets and commas alone say what the shape is."""
    strange = data.translate(None, _OF_NUMBERS)
    if strange:
        raise UpdateRejected(f"invalid json-f64 payload: {strange[:1]!r} is not of a number")
    kinds = data.translate(_KINDS)
    frame = kinds.translate(None, b" ")
    if b"[]" in frame:
        raise UpdateRejected("invalid vector: empty")
    shape = _shape(frame.translate(None, b"0"))
    whole = _count(kinds) == math.prod(shape)  # or some have blanks in them
    if not whole or any(pair in frame for pair in _MISPLACED):
        raise UpdateRejected("invalid json-f64 payload: its lists are not all alike")
    del kinds, frame
    array = _flat(b"[%b]" % data.translate(None, _FRAME))
    if array.size != math.prod(shape):
        raise UpdateRejected("invalid json-f64 payload: its lists are not all alike")
    return array.reshape(shape)


def _count(kinds: bytes) -> int:
    """How many numbers there are: each begins where there was none before."""
    there = np.frombuffer(kinds, np.uint8) == ord("0")
    return int(np.count_nonzero(there[1:] > there[:-1]))


def _shape(frame: bytes) -> list[int]:
    """Of the brackets and commas of an array in which all lists of a depth are alike."""
    depth = len(frame) - len(frame.lstrip(b"["))
    if depth > _DEEPEST:
        raise UpdateRejected(f"invalid json-f64 payload: it is deeper than {_DEEPEST} lists")
    sides: list[int] = []
    below, length = 1, 0
    for closing in range(1, depth + 1):
        # the first list of a depth ends where so many brackets close together for the first time
        end = frame.find(b"]" * closing)
        count = frame.count(b",", 0, max(end, 0)) + 1
        if end < 0 or count % below:
            raise UpdateRejected("invalid json-f64 payload: its lists are not all alike")
        sides.append(count // below)
        below, length = count, 2 + sides[-1] * length + sides[-1] - 1
    if length == len(frame):
        wanted = b""
        for side in sides:
            wanted = b"[" + (wanted + b",") * (side - 1) + wanted + b"]"
        if wanted == frame:
            return sides[::-1]
    raise UpdateRejected("invalid json-f64 payload: its lists are not all alike")
