"""Numbers of any size as digits of base 2**32, one int64 array per digit.

The general way to add exactly: a float64 is cut into digits on a grid that is the same for
everybody, each digit is multiplied by the integer weight and added as an integer. Digits exist only
where some value has bits; a place where few elements have any is a list of those, so that memory
is that of the bits there are, whatever lies between the largest and the smallest. It is slower and
larger than the narrow form of `blocks`, and holds everything: denormals, 1e308 beside 1e-308, any
mixture.

Bound: with |digit| <= 2**32 and a total weight below 2**31 no digit can overflow.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

BITS = 32
_MASK = np.int64((1 << BITS) - 1)
_ROOM = 64
"""Bits by which the sum of finite numbers may be larger than the largest of them."""
_TOP = 1024 // BITS - 1  # one place higher and 2**1024 itself would be a digit: infinity
_TOGETHER = 4
"""Places that are cut off all elements at once: those of ordinary numbers lie in so many."""
_LISTS = 32
"""Lists of one place, of one addition each, before they become one."""
_WORK = 1 << 20
"""Digits that are rounded at once."""

Singles = npt.NDArray[np.float32]
Indexes = Ints | npt.NDArray[np.int32]
Few = list[tuple[npt.NDArray[np.int32], Ints]]
"""Indexes, which may be repeated, and what is added there."""


class Digits:
    """Exact sums of `size` numbers, one beside the other."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.digits: dict[int, Ints] = {}
        """By place, where most elements have one."""
        self._few: dict[int, Few] = {}
        """By place, where few have."""

    @property
    def nbytes(self) -> int:
        few = sum(len(where) for lists in self._few.values() for where, _ in lists)
        return 8 * self.size * len(self.digits) + 12 * few

    def add(
        self, values: Floats | Singles, weights: int | Ints, *, at: Indexes | None = None
    ) -> None:
        """Adds `weights * values`, to all sums or to those at the (maybe repeated) indexes."""
        rest = np.array(values, np.float64)
        largest = float(np.max(np.abs(rest), initial=0.0))
        place = min(int(np.frexp(largest)[1]) // BITS, _TOP)
        for _ in range(_TOGETHER):
            if not rest.any():
                return
            # rounded up, the largest float64 would be 2**1024 there: an infinity, and no end
            digit = (np.trunc if place == _TOP else np.rint)(np.ldexp(rest, -BITS * place))
            rest -= np.ldexp(digit, BITS * place)
            self._add_digit(place, digit.astype(np.int64) * weights, at)
            place -= 1
        left = np.flatnonzero(rest)
        each = weights[left] if isinstance(weights, np.ndarray) else weights
        self._add_each(rest[left], each, left if at is None else at[left])

    def _add_each(self, rest: Floats, weights: int | Ints, at: Indexes) -> None:
        """Adds numbers that are not zero, each cut into the two or three digits that it has."""
        while len(rest):
            places = (np.frexp(rest)[1] - 1) // BITS
            digit = np.rint(np.ldexp(rest, -BITS * places))
            rest = rest - np.ldexp(digit, BITS * places)
            amounts = digit.astype(np.int64) * weights
            order = np.argsort(places, kind="stable")
            bounds = np.flatnonzero(np.diff(places[order])) + 1
            for chosen in np.split(order, bounds):
                self._add_few(int(places[chosen[0]]), at[chosen], amounts[chosen])
            left = np.flatnonzero(rest)
            rest, at = rest[left], at[left]
            weights = weights[left] if isinstance(weights, np.ndarray) else weights

    def add_integers(self, values: Ints, exponent: int, *, at: Ints | None = None) -> None:
        """Add `values * 2**exponent` to the sums."""
        place, shift = divmod(exponent, BITS)
        low = (values & _MASK) << shift
        high = (values >> BITS) << shift
        # each part has up to 63 bits: its own lower and upper half go to neighbouring digits
        self._add_digit(place, low & _MASK, at)
        self._add_digit(place + 1, ((low >> BITS) & _MASK) + (high & _MASK), at)
        self._add_digit(place + 2, high >> BITS, at)

    def _add_digit(self, place: int, values: Ints, at: Indexes | None) -> None:
        digit = self.digits.get(place)
        if digit is None:
            where = np.flatnonzero(values)
            self._add_few(place, where if at is None else at[where], values[where])
        elif at is None:
            digit += values
        else:
            np.add.at(digit, at, values)

    def _add_few(self, place: int, where: Indexes, values: Ints) -> None:
        digit = self.digits.get(place)
        if digit is not None:
            np.add.at(digit, where, values)
            return
        if not len(where):
            return
        few = self._few.setdefault(place, [])
        few.append((where.astype(np.int32), values))
        if 3 * sum(len(where) for where, _ in few) > 2 * self.size:
            digit = self.digits[place] = np.zeros(self.size, np.int64)
            self._put(self._few.pop(place), digit)
        elif len(few) > _LISTS:
            indexes, amounts = zip(*few, strict=True)
            few[:] = [(np.concatenate(indexes), np.concatenate(amounts))]

    @staticmethod
    def _put(few: Few, digit: Ints) -> None:
        for where, values in few:
            np.add.at(digit, where, values)

    def mean(self, divisor: float) -> Floats:
        """The sums divided; finite also where a sum itself is too large for a float64."""
        result = self.rounded() / divisor
        large = ~np.isfinite(result)
        if large.any():
            small = self.rounded(shift=_ROOM)[large] / divisor
            limit = np.finfo(np.float64).max
            result[large] = np.clip(np.ldexp(small, _ROOM), -limit, limit)
        return result

    def rounded(self, *, shift: int = 0) -> Floats:
        """The sums by 2**shift, each rounded once to the nearest float64 (ties to even)."""
        places = self.digits.keys() | self._few.keys()
        result = np.zeros(self.size)
        if not places:
            return result
        lowest, highest = min(places), max(places)
        rows = np.zeros((highest - lowest + 3, self.size), np.int64)
        for place, digit in self.digits.items():
            rows[place - lowest] = digit
        for place, few in self._few.items():
            self._put(few, rows[place - lowest])
        step = max(_WORK // len(rows), 1)
        for start in range(0, self.size, step):
            piece = slice(start, start + step)
            result[piece] = _rounded(rows[:, piece], lowest, shift)
        return result


def _rounded(rows: Ints, lowest: int, shift: int) -> Floats:
    """Digits, which are used up, as the nearest float64."""
    _carry(rows)
    negative = rows[-1] < 0
    rows[:, negative] = -rows[:, negative]
    _carry(rows)
    result = _nearest(rows, lowest, shift)
    np.negative(result, out=result, where=negative)
    return result


def _carry(rows: Ints) -> None:
    """Makes every digit but the last lie in [0, 2**32)."""
    for place in range(len(rows) - 1):
        rows[place + 1] += rows[place] >> BITS
        rows[place] &= _MASK


def _nearest(rows: Ints, lowest: int, shift: int) -> Floats:
    """Digits of numbers that are not negative, by 2**shift, as the nearest float64."""
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
        places = BITS * (top - 2 + lowest).astype(np.int32) - np.int32(shift)
        result: Floats = np.ldexp(mantissa, places)
    return result
