"""How much one client's word about its own samples may weigh.

A sample count is what a client says of itself. Without a bound the largest lie takes the model;
with one, a false count is worth no more than ten honest ones.
"""

from __future__ import annotations

from collections.abc import Sequence

from corral.learning.exact import MAX_TOTAL_WEIGHT

__all__ = ["FACTOR", "bounded", "fitting"]

FACTOR = 10
"""Samples count up to so many times the median of the round, where no limit was declared."""


def bounded(samples: Sequence[int], *, limit: int = 0) -> list[int]:
    """The counts, none above the bound: ``limit``, or `FACTOR` times the median of all counts.

    Of an even number of counts the lower one of the two in the middle is the median.
    """
    if not samples:
        return []
    bound = limit or FACTOR * max(sorted(samples)[(len(samples) - 1) // 2], 1)
    return [min(count, bound) for count in samples]


def fitting(weights: Sequence[int]) -> list[int]:
    """The weights in proportion, made so small that their sum is one that can be added up."""
    total = sum(weights)
    if total <= MAX_TOTAL_WEIGHT:
        return list(weights)
    room = MAX_TOTAL_WEIGHT - len(weights)
    return [max(weight * room // total, min(weight, 1)) for weight in weights]
