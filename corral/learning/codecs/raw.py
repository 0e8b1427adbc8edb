"""`f32-le`, `f64-le`: little-endian floats and nothing else, read in place."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from corral.learning.codecs.base import Bytes
from corral.learning.errors import InvalidConfig, UpdateRejected
from corral.learning.tensors import Model


class RawFloats:
    """Floats of one type, end to end."""

    def __init__(self, name: str, dtype: str) -> None:
        self.name = name
        self._dtype = np.dtype(dtype)

    def decode(self, data: Bytes) -> Model:
        length = memoryview(data).nbytes
        if not length:
            raise UpdateRejected("invalid vector: empty")
        if length % self._dtype.itemsize:
            raise UpdateRejected(
                f"invalid {self.name} payload: {length} bytes are not whole numbers"
                f" of {self._dtype.itemsize} bytes"
            )
        return Model.vector(np.frombuffer(data, self._dtype))

    def encode(self, model: Model) -> bytes:
        return b"".join(self.pieces(model))

    def pieces(self, model: Model) -> Iterator[Bytes]:
        if len(model.tensors) != 1:
            raise InvalidConfig(f"{self.name} holds one tensor; use safetensors for several")
        values = model.tensors[0].values.astype(self._dtype, copy=False)
        yield values.data.cast("B")
