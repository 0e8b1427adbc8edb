"""The same means, bit for bit, when all vectors are at hand: floats first, exactness where needed.

With every vector there, the sums need not be kept. They are made in float64, whose error has a
strict bound; where both ends of that interval give the same float32, this *is* the float32 that the
exact sum gives, since dividing and rounding never change the order of two numbers. The others,
some in a million, are added exactly. So a result never tells which way it was computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from corral.learning.exact.blocks import Singles
from corral.learning.exact.digits import Digits, Ints

BLOCK = 32 * 1024
_CHUNK = 4096


@dataclass
class Piece:
    """What came of one piece: vectors that are not finite, elements that are not decided."""

    bad: set[int] = field(default_factory=set)
    undecided: list[Ints] = field(default_factory=list)


def mean_of_piece(
    vectors: Sequence[Singles], weights: Sequence[int], out: Singles, *, start: int, stop: int
) -> Piece:
    """Writes the weighted mean of the elements from `start` to `stop`, but for the undecided."""
    piece = Piece()
    total = np.empty(BLOCK)
    term = np.empty(BLOCK)
    with np.errstate(all="ignore"):
        for first in range(start, stop, BLOCK):
            last = min(first + BLOCK, stop)
            block = [vector[first:last] for vector in vectors]
            size = last - first
            largest = _add(block, weights, total=total[:size], term=term[:size], bad=piece.bad)
            if not piece.bad:
                bound = (len(vectors) + 2) * 2.0**-52 * sum(weights) * largest
                doubt = _decide(
                    total[:size], term[:size], out[first:last], bound=bound, weight=sum(weights)
                )
                if len(doubt):
                    piece.undecided.append(doubt + first)
    return piece


def _add(
    block: Sequence[Singles],
    weights: Sequence[int],
    *,
    total: np.ndarray[tuple[int, ...], np.dtype[np.float64]],
    term: np.ndarray[tuple[int, ...], np.dtype[np.float64]],
    bad: set[int],
) -> float:
    """The sum in float64; the largest magnitude there was."""
    largest = 0.0
    target = total
    for index, values in enumerate(block):
        magnitude = _magnitude(values)
        if not magnitude < np.inf:
            bad.add(index)
        largest = max(largest, magnitude)
        np.copyto(target, values)
        np.multiply(target, float(weights[index]), out=target)
        if target is term:
            np.add(total, term, out=total)
        target = term
    return largest


def _magnitude(values: Singles) -> float:
    """A bound of all magnitudes; infinity when one is not finite.

    All exponents or-ed are at least the largest of them: one pass, and close enough for values
    below 1, which models are made of. Others are looked at twice.
    """
    exponents = int(np.bitwise_or.reduce(values.view(np.uint32))) >> 23 & 0xFF
    if exponents < 0x80:
        return 2.0 ** (exponents - 126)
    high, low = float(np.maximum.reduce(values)), float(np.minimum.reduce(values))
    return max(high, -low) if high < np.inf and low > -np.inf else np.inf


def _decide(
    total: np.ndarray[tuple[int, ...], np.dtype[np.float64]],
    term: np.ndarray[tuple[int, ...], np.dtype[np.float64]],
    out: Singles,
    *,
    bound: float,
    weight: int,
) -> Ints:
    """Writes the means; the places where the bound leaves two float32 (or two zeros) possible.

    `bound` is twice the error that summing can have made, so it also covers its own rounding.
    """
    np.subtract(total, bound, out=term)
    np.divide(term, float(weight), out=term)
    lowest = term.astype(np.float32)
    np.add(total, bound, out=term)
    np.divide(term, float(weight), out=term)
    np.copyto(out, term, casting="same_kind")
    return np.flatnonzero(lowest.view(np.uint32) != out.view(np.uint32))


def settle(
    vectors: Sequence[Singles], weights: Sequence[int], out: Singles, *, where: Ints
) -> None:
    """Writes the means at some places from exact sums."""
    factors = np.array(weights, np.int64)
    for first in range(0, len(where), _CHUNK):
        places = where[first : first + _CHUNK]
        values = np.stack([vector[places] for vector in vectors]).astype(np.float64)
        exact = Digits(len(places))
        exact.add(
            values.reshape(-1),
            np.repeat(factors, len(places)),
            at=np.tile(np.arange(len(places)), len(vectors)),
        )
        out[places] = exact.rounded() / float(sum(weights))
