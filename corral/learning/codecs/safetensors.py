"""`safetensors`: many named tensors after a JSON header; the data is read in place.

The header is checked as strictly as the format asks: offsets must follow each other without holes
or overlaps and end where the file ends. BF16 and F16 are widened to float32.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from corral.learning.codecs.base import Bytes
from corral.learning.errors import UpdateRejected
from corral.learning.tensors import Model, Tensor

_TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}
_NAMES = {"float32": "F32", "float64": "F64"}
_MAX_HEADER = 16 << 20
"""Bytes; a parsed header takes twenty times as much, and a thousand tensors need 100 kB."""


class SafeTensors:
    name = "safetensors"

    def decode(self, data: Bytes) -> Model:
        view = memoryview(data).cast("B")
        header, body = _header(view)
        header.pop("__metadata__", None)
        try:
            entries = sorted(header.items(), key=lambda item: item[1]["data_offsets"][0])
            tensors = []
            end = 0
            for name, entry in entries:
                start, stop = entry["data_offsets"]
                if start != end:
                    raise UpdateRejected(f"invalid safetensors payload: a hole before {name!r}")
                tensors.append(_tensor(name, entry, body[start:stop]))
                end = stop
        except (KeyError, TypeError, IndexError, ValueError) as error:
            if isinstance(error, UpdateRejected):
                raise
            raise UpdateRejected(f"invalid safetensors payload: {error}") from error
        if end != body.nbytes:
            raise UpdateRejected("invalid safetensors payload: its length is not the header's")
        return Model(tuple(tensors))

    def encode(self, model: Model) -> bytes:
        return b"".join(self.pieces(model))

    def pieces(self, model: Model) -> Iterator[Bytes]:
        header: dict[str, Any] = {}
        offset = 0
        for tensor in model:
            stop = offset + tensor.values.nbytes
            header[tensor.name] = {
                "dtype": _NAMES[tensor.dtype],
                "shape": list(tensor.shape),
                "data_offsets": [offset, stop],
            }
            offset = stop
        text = orjson.dumps(header)
        text += b" " * (-len(text) % 8)
        yield struct.pack("<Q", len(text)) + text
        for tensor in model:
            if len(tensor.values):
                yield tensor.values.data.cast("B")


def _header(view: memoryview) -> tuple[dict[str, Any], memoryview]:
    if view.nbytes < 8:
        raise UpdateRejected("invalid safetensors payload: it ends in its header")
    (length,) = struct.unpack("<Q", view[:8])
    if length > min(view.nbytes - 8, _MAX_HEADER):
        raise UpdateRejected("invalid safetensors payload: it ends in its header")
    try:
        header = orjson.loads(view[8 : 8 + length])
    except orjson.JSONDecodeError as error:
        raise UpdateRejected(f"invalid safetensors payload: {error}") from error
    if not isinstance(header, dict):
        raise UpdateRejected("invalid safetensors payload: the header is not an object")
    return header, view[8 + length :]


def _tensor(name: str, entry: dict[str, Any], data: memoryview) -> Tensor:
    kind, shape = entry["dtype"], tuple(entry["shape"])
    if kind not in _TYPES:
        raise UpdateRejected(f"tensor {name!r} is {kind}: only floats can be averaged")
    if not all(isinstance(side, int) and side >= 0 for side in shape):
        raise UpdateRejected(f"invalid safetensors payload: shape of {name!r}")
    array: npt.NDArray[Any] = np.frombuffer(data, _TYPES[kind])
    if kind == "BF16":
        array = (array.astype(np.uint32) << 16).view(np.float32)
    return Tensor.of(name, array.reshape(shape))
