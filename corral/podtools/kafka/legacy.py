"""Arrays that were pickled, read without making anything that a pickle asks for.

The names of NumPy in a pickle are taken for stand-ins that note what was said; the array is made
from these notes when all of them were checked. NumPy's own functions are not safe to hand out: they
make arrays of objects from any bytes, and arrays larger than any memory.
"""

from __future__ import annotations

import io
import math
import pickle
from typing import Any, Final, NoReturn

import numpy as np

__all__ = ["array_from_pickle"]

Array = np.ndarray[Any, np.dtype[Any]]

_CODES: Final = frozenset("b1 i1 i2 i4 i8 u1 u2 u4 u8 f2 f4 f8".split())
_ORDERS: Final = frozenset("<>|=")
_DIMENSIONS: Final = 32
_NUMPY: Final = ("numpy", "numpy.core", "numpy._core")


class _Dtype:
    """``numpy.dtype(code, align, copy)``, then its state: version, byte order, and nothing more."""

    __slots__ = ("_code", "_order")

    def __init__(self, code: object = None, align: object = False, copy: object = True) -> None:
        if not isinstance(code, str) or code not in _CODES:
            raise pickle.UnpicklingError("it is of no kind of number")
        self._code = code
        self._order = "="

    def __setstate__(self, state: object) -> None:
        order = state[1] if isinstance(state, tuple) and len(state) > 4 else None
        if not isinstance(state, tuple) or order not in _ORDERS or any(state[2:5]):
            raise pickle.UnpicklingError("its numbers are of no plain kind")
        self._order = str(order)

    def real(self) -> np.dtype[Any]:
        return np.dtype(self._order.replace("|", "=") + self._code)


class _Notes:
    """What was said about an array."""

    __slots__ = ("parts",)

    def __init__(self) -> None:
        self.parts: tuple[object, object, object, object] | None = None

    def __setstate__(self, state: object) -> None:
        if not isinstance(state, tuple) or len(state) != 5:
            raise pickle.UnpicklingError("its state is not that of an array")
        _, shape, dtype, fortran, data = state
        self.parts = (data, dtype, shape, "F" if fortran else "C")


class _Ndarray:
    """The class, which is named and never called."""

    __slots__ = ()

    def __call__(self, *_: object) -> NoReturn:
        raise pickle.UnpicklingError("it calls for an array past the way arrays are pickled")


class _Reconstruct:
    __slots__ = ()

    def __call__(self, kind: object, shape: object, code: object) -> _Notes:
        if not isinstance(kind, _Ndarray):
            raise pickle.UnpicklingError("it is no plain array")
        return _Notes()


class _FromBuffer:
    __slots__ = ()

    def __call__(self, data: object, dtype: object, shape: object, order: object) -> _Notes:
        notes = _Notes()
        notes.parts = (data, dtype, shape, order)
        return notes


class _Encode:
    """How the oldest pickles write bytes."""

    __slots__ = ()

    def __call__(self, text: object, encoding: object) -> bytes:
        if not isinstance(text, str) or encoding != "latin1":
            raise pickle.UnpicklingError("it encodes something that is no bytes")
        return text.encode("latin1")


class _NoBytes:
    """How they write no bytes at all."""

    __slots__ = ()

    def __call__(self) -> bytes:
        return b""


_KNOWN: Final[dict[tuple[str, str], object]] = {
    ("numpy", "ndarray"): _Ndarray(),
    ("numpy", "dtype"): _Dtype,
    ("_codecs", "encode"): _Encode(),
    ("__builtin__", "bytes"): _NoBytes(),
    ("builtins", "bytes"): _NoBytes(),
    **{(f"{root}.multiarray", "_reconstruct"): _Reconstruct() for root in _NUMPY},
    **{(f"{root}.numeric", "_frombuffer"): _FromBuffer() for root in _NUMPY},
}


class _NotesOnly(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        try:
            return _KNOWN[module, name]
        except KeyError:
            raise pickle.UnpicklingError(
                f"it names {module}.{name}, which is no part of an array"
            ) from None

    def persistent_load(self, pid: Any) -> Any:
        raise pickle.UnpicklingError("it refers to something outside")


def array_from_pickle(data: bytes) -> Array:
    """A pickled array of numbers; nothing else is made of a pickle. Raises ValueError."""
    try:
        notes = _NotesOnly(io.BytesIO(data)).load()
    except Exception as error:  # a pickle can raise anything that its words can make
        raise ValueError(str(error) or type(error).__name__) from error
    if not isinstance(notes, _Notes) or notes.parts is None:
        raise ValueError("it is something else than an array")
    return _made(*notes.parts)


def _made(data: object, dtype: object, shape: object, order: object) -> Array:
    if not isinstance(dtype, _Dtype) or not isinstance(data, bytes | bytearray):
        raise ValueError("it is no array of numbers")
    if order not in ("C", "F") or not isinstance(shape, tuple) or len(shape) > _DIMENSIONS:
        raise ValueError("it has no shape")
    if not all(type(size) is int and size >= 0 for size in shape):
        raise ValueError("its shape is not of numbers")
    real = dtype.real()
    if math.prod(shape) * real.itemsize != len(data):
        raise ValueError("its length is not that of its shape")
    flat = np.frombuffer(bytes(data), real)
    return flat.reshape(shape[::-1]).T if order == "F" else flat.reshape(shape)
