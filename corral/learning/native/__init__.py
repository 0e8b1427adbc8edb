"""The engine's hot loops in C, where there was a compiler; `kernel` is None where there was none.

Every caller has the same loop in NumPy beside it, and both give the same bits. `CORRAL_NATIVE=0`
turns the kernel off. One built from other sources is not used: `make install` builds it anew.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib import import_module
from typing import Protocol, cast

import numpy as np
import numpy.typing as npt

from corral.learning.workers import cores

INTERFACE = 1
"""What this package expects of the kernel; kernel.c says the same number."""

_SMALL = 1 << 16
"""Elements below which a second thread costs more than it gives."""

Array = npt.NDArray[np.generic]
Text = bytes | bytearray | memoryview


class Kernel(Protocol):
    """The functions of kernel.c. Arrays are contiguous; none of them is copied."""

    INTERFACE: int

    def mean(
        self, vectors: Sequence[Array], weights: Sequence[int], out: Array, threads: int, /
    ) -> tuple[list[int], bytes]:
        """Writes the weighted mean of float32 vectors.

        Returns the indexes of vectors with values that are not finite (there is no mean then), and
        as int64 the places that must be summed by other means.
        """

    def gather(
        self,
        sums: Array,
        values: Array,
        weight: int,
        constant: float,
        small: float,
        large: float,
        places: Array,
        /,
    ) -> int:
        """Adds `weight * values` in grains to int64 sums.

        Returns how many values do not fit the grain (their places are written) or -1, and
        nothing is added, when one is not finite.
        """

    def divide(self, sums: Array, out: Array, shift: int, grain: float, divisor: float, /) -> None:
        """Writes `(sums - shift) * grain / divisor` as float32."""

    def largest(self, values: Array, width: int, threads: int, /) -> float:
        """The largest magnitude of floats of `width` bytes; NaN when there is one."""

    def order(
        self,
        rows: Array,
        count: int,
        width: int,
        first: int,
        last: int,
        halves: bool,
        out: Array,
        /,
    ) -> None:
        """Of each column, the mean of its sorted values from `first` to `last`.

        With `halves`: the sum of half of each, which cannot overflow.
        """

    def gram(self, rows: Array, count: int, width: int, product: Array, /) -> None:
        """Adds the products of all pairs of rows, each less the first row, to float64 sums."""

    def commas(self, text: Text, /) -> int:
        """How many commas there are."""

    def numbers(self, text: Text, powers: bytes, out: Array, /) -> bool:
        """Reads a JSON array of numbers; False when it is none, or not of that many."""


def load() -> Kernel | None:
    """The kernel, when there is one that fits this package and it is not turned off."""
    if os.environ.get("CORRAL_NATIVE", "1") == "0":
        return None
    try:
        found = cast(Kernel, import_module("corral.learning.native.kernel"))
    except ImportError:
        return None
    return found if found.INTERFACE == INTERFACE else None


kernel = load()


def threads(elements: int) -> int:
    """How many threads are worth their while."""
    return cores() if elements > _SMALL else 1


def is_finite(values: Array) -> bool:
    """Whether there is no NaN and no infinity among floats."""
    return bool(np.isfinite(largest(values)))


def largest(values: Array) -> float:
    """The largest magnitude among floats; not finite where one of them is not."""
    if not values.size:
        return 0.0
    if kernel is not None:
        return float(kernel.largest(values, values.itemsize, threads(values.size)))
    # a sum would do in one pass, but may overflow; the extremes of an array carry its NaNs
    with np.errstate(invalid="ignore"):
        return max(abs(float(values.max())), abs(float(values.min())))
