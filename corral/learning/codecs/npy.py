"""`npy`: NumPy's own file of one array, without pickle; the data is read in place."""

from __future__ import annotations

import io
import math
from collections.abc import Iterator
from tokenize import TokenError

import numpy as np
from numpy.lib import format as npy_format

from corral.learning.codecs.base import Bytes
from corral.learning.errors import InvalidConfig, UpdateRejected
from corral.learning.tensors import Model

_HEADER = 64 * 1024


class Npy:
    name = "npy"

    def decode(self, data: Bytes) -> Model:
        view = memoryview(data).cast("B")
        head = io.BytesIO(view[:_HEADER])
        try:
            version = npy_format.read_magic(head)
            read = {
                (1, 0): npy_format.read_array_header_1_0,
                (2, 0): npy_format.read_array_header_2_0,
            }[version]
            shape, fortran, dtype = read(head)
        except (ValueError, KeyError, EOFError, SyntaxError, TokenError, RecursionError) as error:
            raise UpdateRejected(f"invalid npy payload: {error}") from error
        if dtype.hasobject:
            raise UpdateRejected("invalid npy payload: it holds Python objects")
        if dtype.kind != "f" or any(side < 0 for side in shape):
            raise UpdateRejected(f"invalid npy payload: {dtype}{list(shape)} is no array of floats")
        body = view[head.tell() :]
        if math.prod(shape) * dtype.itemsize != body.nbytes:
            raise UpdateRejected(f"invalid npy payload: {body.nbytes} bytes for shape {shape}")
        array = np.frombuffer(body, dtype)
        return Model.vector(array.reshape(shape, order="F" if fortran else "C"))

    def encode(self, model: Model) -> bytes:
        return b"".join(self.pieces(model))

    def pieces(self, model: Model) -> Iterator[Bytes]:
        if len(model.tensors) != 1:
            raise InvalidConfig("npy holds one tensor; use safetensors for several")
        tensor = model.tensors[0]
        head = io.BytesIO()
        npy_format.write_array_header_1_0(head, npy_format.header_data_from_array_1_0(tensor.array))
        yield head.getvalue()
        if len(tensor.values):
            yield tensor.values.data.cast("B")
