"""One block of a float32 sum: 64 bits an element, as fast as adding floats.

Each element is an int64 that counts a power of two, the *grain*, common to the block. A float32
that is a multiple of the grain and not too large becomes an integer by adding one constant to it as
a float64 (the low bits of the result *are* the integer); multiplying by the weight and adding
are then integer operations, which round nothing. The few values that do not fit the grain
(too small or too large beside the block's first update) are set aside, exactly, and a block turns
into `Digits` when more were set aside than it has elements. What is represented is always the
exact sum; only the way it is written down depends on the order.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from corral.learning import native
from corral.learning.exact.digits import Digits, Floats, Ints

Singles = npt.NDArray[np.float32]

HEADROOM = 3
"""Bits by which later updates may exceed the largest value of a block's first update."""

SIGNIFICANT = 50
"""Bits of one value: what the constant leaves, less one for the sign and one to spare."""


class Scratch:
    """What one thread needs while it adds blocks of up to `size` elements."""

    def __init__(self, size: int) -> None:
        self.magnitudes = np.empty(size, np.float32)
        self.shifted = np.empty(size, np.float64)
        self.places = np.empty(size, np.int64)


class Block:
    """The exact sums of `size` neighbouring elements."""

    __slots__ = (
        "_aside",
        "_constant",
        "_count",
        "_grain",
        "_large",
        "_odd",
        "_small",
        "_sums",
        "_wide",
        "size",
    )

    def __init__(self, sums: Ints) -> None:
        self.size = len(sums)
        self._sums = sums
        self._wide: Digits | None = None
        self._aside: list[tuple[npt.NDArray[np.int32], Singles, int]] = []
        self._odd = 0  # how many values were set aside
        self._count = 0  # the weight that was added, each unit of it with the constant
        self._constant = 0.0
        self._grain: int | None = None
        self._small = self._large = np.float32(0)

    def add(self, values: Singles, weight: int, *, bits: int, scratch: Scratch) -> bool:
        """Adds `weight * values`; False, and nothing added, when a value is not finite."""
        if native.kernel is not None and self._wide is None:
            return self._add_natively(native.kernel, values, weight, bits=bits, scratch=scratch)
        size = len(values)
        magnitudes = np.abs(values, out=scratch.magnitudes[:size])
        largest = np.maximum.reduce(magnitudes)
        if not largest < np.inf:
            return False
        if self._wide is not None:
            self._wide.add(values.astype(np.float64), weight)
            return True
        if self._grain is None:
            if largest == 0:
                return True
            self._choose(float(largest), bits)
        shifted = scratch.shifted[:size]
        np.copyto(shifted, values)
        if np.minimum.reduce(magnitudes) < self._small or largest > self._large:
            self._set_aside(values, weight, magnitudes=magnitudes, shifted=shifted)
        np.add(shifted, self._constant, out=shifted)
        integers = shifted.view(np.int64)
        if weight != 1:
            np.multiply(integers, weight, out=integers)
        np.add(self._sums, integers, out=self._sums)
        self._added(weight)
        return True

    def _add_natively(
        self, kernel: native.Kernel, values: Singles, weight: int, *, bits: int, scratch: Scratch
    ) -> bool:
        if self._grain is None:
            largest = kernel.largest(values, values.itemsize, 1)
            if largest == 0 or not largest < np.inf:
                return largest == 0
            self._choose(largest, bits)
        places = scratch.places
        aside = kernel.gather(
            self._sums,
            values,
            weight,
            self._constant,
            float(self._small),
            float(self._large),
            places,
        )
        if aside < 0:
            return False
        if aside:
            self._keep_aside(places[:aside], values, weight)
        self._added(weight)
        return True

    def _added(self, weight: int) -> None:
        self._count += weight
        if self._odd > self.size:
            self.widen()

    def _choose(self, largest: float, bits: int) -> None:
        exponent = int(np.frexp(largest)[1]) + HEADROOM
        grain = max(exponent - bits, -149)
        self._grain = grain
        # 1.5 * 2**52 grains: in that binade of float64 the last bit counts one grain
        self._constant = float(np.ldexp(1.5, 52 + grain))
        self._large = np.float32(np.ldexp(1.0, exponent) if exponent < 128 else np.inf)
        # from here on the last bit of a float32 is a whole grain
        self._small = np.float32(np.ldexp(1.0, grain + 23)) if grain > -149 else np.float32(0)

    def _set_aside(
        self, values: Singles, weight: int, *, magnitudes: Singles, shifted: Floats
    ) -> None:
        odd = (magnitudes < self._small) | (magnitudes > self._large)
        odd &= magnitudes != 0
        where = np.flatnonzero(odd)
        if len(where):
            shifted[where] = 0.0
            self._keep_aside(where, values, weight)

    def _keep_aside(self, where: Ints, values: Singles, weight: int) -> None:
        self._aside.append((where.astype(np.int32), values[where], weight))
        self._odd += len(where)

    def widen(self) -> None:
        """Turns into digits, which have room for any weight."""
        if self._wide is not None:
            return
        self._wide = Digits(len(self._sums))
        if self._grain is not None:
            self._wide.add_integers(self._integers(), self._grain)
        for where, values, weight in self._aside:
            self._wide.add(values, weight, at=where)
        self._sums, self._aside = np.zeros(0, np.int64), []

    def _shift(self) -> int:
        """What the constants have added to each sum, as an int64 wraps it."""
        constant = int(np.float64(self._constant).view(np.int64)) * self._count
        return (constant + (1 << 63)) % (1 << 64) - (1 << 63)

    def _integers(self) -> Ints:
        """The sums in grains, without the constant."""
        return self._sums - np.int64(self._shift())

    def divided(self, divisor: float, out: Singles | Floats) -> None:
        """Writes the sums, each rounded once, divided and rounded again."""
        single = out.dtype == np.float32
        if native.kernel is None or self._grain is None or self._wide is not None or not single:
            result = self.rounded()
            result /= divisor
            out[:] = result
            return
        grain = float(np.ldexp(1.0, self._grain))
        native.kernel.divide(self._sums, out, self._shift(), grain, divisor)
        if self._aside:
            elements, sums = self._put_together()
            out[elements] = sums / divisor

    def rounded(self) -> Floats:
        """The sums, each rounded once to float64."""
        if self._wide is not None:
            return self._wide.rounded()
        if self._grain is None:
            return np.zeros(len(self._sums))
        result = self._integers().astype(np.float64)
        result *= float(np.ldexp(1.0, self._grain))
        if self._aside:
            elements, sums = self._put_together()
            result[elements] = sums
        return result

    def _put_together(self) -> tuple[Ints, Floats]:
        """The elements of which a part was set aside, and their sums."""
        assert self._grain is not None
        there = np.zeros(self.size, bool)
        for where, _, _ in self._aside:
            there[where] = True
        elements = np.flatnonzero(there)
        place = np.cumsum(there) - 1
        whole = Digits(len(elements))
        whole.add_integers(self._sums[elements] - np.int64(self._shift()), self._grain)
        for where, values, weight in self._aside:
            whole.add(values, weight, at=place[where])
        return elements, whole.rounded()
