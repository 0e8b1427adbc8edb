"""Numbers of any size as digits of base 2**32, one int64 array per digit.

The general way to add exactly: a float64 is cut into digits on a grid that is the same for
everybody, each digit is multiplied by the integer weight and added as an integer. Digits exist only
where some value has bits. It is slower and larger than the narrow form of `blocks`, and holds
everything: denormals, 1e308 beside 1e-308, any mixture.

Bound: with |digit| <= 2**32 and a total weight below 2**31 no digit can overflow.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

BITS = 32
_MASK = np.int64((1 << BITS) - 1)
_TOP = 1024 // BITS - 1  # one place higher and 2**1024 itself would be a digit: infinity


class Digits:
    """`size` exact sums."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.digits: dict[int, Ints] = {}

    @property
    def nbytes(self) -> int:
        return 8 * self.size * len(self.digits)

    def _digit(self, place: int) -> Ints:
        if place not in self.digits:
            self.digits[place] = np.zeros(self.size, np.int64)
        return self.digits[place]

    def add(self, values: Floats, weights: int | Ints, *, at: Ints | None = None) -> None:
        """Adds `weights * values`, to all sums or to those at the (maybe repeated) indexes."""
        rest = np.array(values, np.float64)
        largest = float(np.max(np.abs(rest), initial=0.0))
        place = min(int(np.frexp(largest)[1]) // BITS, _TOP)
        while rest.any():
            digit = np.rint(np.ldexp(rest, -BITS * place))
            rest -= np.ldexp(digit, BITS * place)
            self._add_digit(place, digit.astype(np.int64) * weights, at)
            place -= 1

    def add_integers(self, values: Ints, exponent: int, *, at: Ints | None = None) -> None:
        """Adds `values * 2**exponent`."""
        place, shift = divmod(exponent, BITS)
        low = (values & _MASK) << shift
        high = (values >> BITS) << shift
        # each part has up to 63 bits: its own lower and upper half go to neighbouring digits
        self._add_digit(place, low & _MASK, at)
        self._add_digit(place + 1, ((low >> BITS) & _MASK) + (high & _MASK), at)
        self._add_digit(place + 2, high >> BITS, at)

    def _add_digit(self, place: int, values: Ints, at: Ints | None) -> None:
        digit = self._digit(place)
        if at is None:
            digit += values
        else:
            np.add.at(digit, at, values)

    def rounded(self) -> Floats:
        """The sums, each rounded once to the nearest float64 (ties to even)."""
        if not self.digits:
            return np.zeros(self.size)
        lowest, highest = min(self.digits), max(self.digits)
        rows = np.zeros((highest - lowest + 3, self.size), np.int64)
        for place, digit in self.digits.items():
            rows[place - lowest] = digit
        _carry(rows)
        negative = rows[-1] < 0
        rows[:, negative] = -rows[:, negative]
        _carry(rows)
        result = _nearest(rows, lowest)
        np.negative(result, out=result, where=negative)
        return result


def _carry(rows: Ints) -> None:
    """Makes every digit but the last lie in [0, 2**32)."""
    for place in range(len(rows) - 1):
        rows[place + 1] += rows[place] >> BITS
        rows[place] &= _MASK


def _nearest(rows: Ints, lowest: int) -> Floats:
    """Digits of numbers that are not negative, as the nearest float64."""
    count, size = rows.shape
    columns = np.arange(size)
    top = count - 1 - np.argmax(rows[::-1] != 0, axis=0)
    padded = np.vstack([np.zeros((2, size), np.int64), rows])
    first, second, third = (padded[top + 2 - step, columns] for step in range(3))
    below = np.zeros((count + 2, size), bool)
    np.logical_or.accumulate(padded[:-1] != 0, axis=0, out=below[1:])
    # 33 to 64 bits, then 32 more whose last one stands for everything below them
    high = (first.astype(np.uint64) << np.uint64(BITS)) | second.astype(np.uint64)
    low = third | below[top, columns]
    # two exact float64 that overlap nowhere: their sum is rounded once
    upper = (high >> np.uint64(12)).astype(np.float64) * 2.0**44
    lower = ((high & np.uint64(0xFFF)) << np.uint64(BITS)) | low.astype(np.uint64)
    mantissa = upper + lower.astype(np.float64)
    with np.errstate(over="ignore", under="ignore"):
        result: Floats = np.ldexp(mantissa, BITS * (top - 2 + lowest).astype(np.int32))
    return result
