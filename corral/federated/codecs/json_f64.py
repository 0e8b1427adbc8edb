"""`json-f64`: a JSON array of numbers; nested arrays give a shape.

Flat arrays, the common case, are read by a typed decoder that takes nothing but numbers. Numbers
are written without a needless ".0" and without spaces.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec
import numpy as np
import orjson

from corral.federated import native
from corral.federated.codecs.base import Bytes
from corral.federated.errors import InvalidConfig, UpdateRejected
from corral.federated.native.powers import powers
from corral.federated.tensors import Model

_FLAT = msgspec.json.Decoder(list[float])
_OF_NUMBERS = b"0123456789+-.eE[], \t\r\n"
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


def _flat(data: Bytes) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    if native.kernel is not None:
        result = np.empty(native.kernel.commas(data) + 1)
        if native.kernel.numbers(data, powers(), result):
            return result
    # without the kernel; and what it does not take is taken, or refused with a reason, here
    try:
        numbers = _FLAT.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UpdateRejected(f"invalid json-f64 payload: {error}") from error
    return np.fromiter(numbers, np.float64, len(numbers))


def _nested(data: bytes) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    strange = data.translate(None, _OF_NUMBERS)
    if strange:
        raise UpdateRejected(f"invalid json-f64 payload: {strange[:1]!r} is not of a number")
    try:
        return np.array(orjson.loads(data), np.float64)
    except (orjson.JSONDecodeError, ValueError, OverflowError) as error:
        raise UpdateRejected(f"invalid json-f64 payload: {error}") from error
