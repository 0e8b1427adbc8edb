"""Models as the engine sees them: named tensors over flat little-endian arrays.

A tensor is a view on the bytes it was decoded from wherever the format allows: nothing is copied,
and the bytes live as long as the tensor. Only float32 and float64 can be averaged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from corral.learning.errors import UpdateRejected
from corral.learning.native import is_finite, largest

Vector = npt.NDArray[np.float32] | npt.NDArray[np.float64]
Layout = tuple[tuple[str, tuple[int, ...], str], ...]
"""Name, shape and type of each tensor, in order."""

_FLOATS = {np.dtype(np.float32): "float32", np.dtype(np.float64): "float64"}
SQUARED = {"float32": 1e15, "float64": 1e140}
"""The largest values whose squares, of a model or of many rounds, are numbers of their type."""


@dataclass(frozen=True)
class Tensor:
    """One named array; `values` is flat."""

    name: str
    shape: tuple[int, ...]
    values: Vector

    @classmethod
    def of(cls, name: str, array: npt.NDArray[np.generic]) -> Tensor:
        """Takes float32 and float64 as they are, float16 as float32; refuses the rest."""
        if array.dtype == np.float16:
            array = array.astype(np.float32)
        if array.dtype.newbyteorder("=") not in _FLOATS:
            raise UpdateRejected(f"tensor {name!r} is {array.dtype}: only floats can be averaged")
        native = np.ascontiguousarray(array, array.dtype.newbyteorder("="))
        return cls(name, array.shape, native.reshape(-1))

    @property
    def array(self) -> npt.NDArray[np.generic]:
        return self.values.reshape(self.shape)

    @property
    def dtype(self) -> str:
        return _FLOATS[self.values.dtype]


@dataclass(frozen=True)
class Model:
    """Tensors in the order of their file; at least one element in all."""

    tensors: tuple[Tensor, ...]

    def __post_init__(self) -> None:
        if not any(len(tensor.values) for tensor in self.tensors):
            raise UpdateRejected("invalid vector: empty")
        if len({tensor.name for tensor in self.tensors}) != len(self.tensors):
            raise UpdateRejected("two tensors have the same name")

    @classmethod
    def vector(cls, values: npt.ArrayLike) -> Model:
        """A model of one tensor without a name."""
        return cls((Tensor.of("", np.asarray(values)),))

    @classmethod
    def of(cls, arrays: dict[str, npt.NDArray[np.generic]]) -> Model:
        return cls(tuple(Tensor.of(name, array) for name, array in arrays.items()))

    @property
    def layout(self) -> Layout:
        return tuple((tensor.name, tensor.shape, tensor.dtype) for tensor in self.tensors)

    @property
    def vectors(self) -> list[Vector]:
        return [tensor.values for tensor in self.tensors]

    @property
    def size(self) -> int:
        return sum(len(tensor.values) for tensor in self.tensors)

    def __iter__(self) -> Iterator[Tensor]:
        return iter(self.tensors)

    def like(self, vectors: Sequence[Vector]) -> Model:
        """The same names and shapes with other values."""
        return Model(
            tuple(
                Tensor(tensor.name, tensor.shape, values)
                for tensor, values in zip(self.tensors, vectors, strict=True)
            )
        )

    def is_finite(self) -> bool:
        """Whether there is no NaN and no infinity."""
        return all(is_finite(values) for values in self.vectors)

    def too_large(self) -> str:
        """Which tensor holds values that cannot be squared, or nothing; a NaN is not looked for."""
        for tensor in self.tensors:
            if SQUARED[tensor.dtype] < largest(tensor.values) < float("inf"):
                return f"tensor {tensor.name!r} holds a value above {SQUARED[tensor.dtype]:g}"
        return ""


def matches(layout: Layout, other: Layout) -> str:
    """Why two layouts differ, or nothing."""
    if layout == other:
        return ""
    if [shape for _, shape, _ in layout] != [shape for _, shape, _ in other]:
        return "cannot aggregate: mismatched vector dimensions"
    if [kind for _, _, kind in layout] != [kind for _, _, kind in other]:
        return "cannot aggregate: mismatched types of tensors"
    return "cannot aggregate: mismatched names of tensors"


@dataclass(frozen=True)
class Update:
    """What one client sent: its model, or opaque bytes, and for how many samples it stands."""

    client: str
    samples: int
    model: Model | None = None
    payload: bytes = b""
