"""Rules that look at every element by itself, block by block on all cores."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from corral.learning import native
from corral.learning.collected import Collected, Span
from corral.learning.tensors import Model
from corral.learning.workers import spread

Rows = npt.NDArray[np.floating]


def blockwise(updates: Collected, rule: Callable[[Rows], Rows]) -> Model:
    """The model of `rule(rows of all clients)` of every block."""
    results = updates.empty()

    def reduce(span: Span) -> None:
        results[span.tensor][span.start : span.stop] = rule(updates.rows(span))

    spread(reduce, updates.spans())
    return updates.example.like(results)


def sorted_rows(rows: Rows) -> Rows:
    """Element by element, the values of all clients from low to high, one element a row."""
    elements = np.ascontiguousarray(rows.T)
    elements.sort(axis=1)
    return elements


def middle_mean(rows: Rows, cut: int) -> Rows:
    """Of every element the mean of the clients' values, but for the `cut` lowest and highest.

    They are added from low to high in float64. The median of an even number of values is the sum
    of the halves of two, which cannot overflow. A result is never the negative zero.
    """
    count = len(rows)
    halves = count - 2 * cut == 2
    if native.kernel is not None:
        out = np.empty(rows.shape[1], rows.dtype)
        native.kernel.order(rows, count, rows.itemsize, cut, count - cut, halves, out)
        return out
    kept = np.ascontiguousarray(sorted_rows(rows)[:, cut : count - cut].T)
    total = np.zeros(rows.shape[1])
    with np.errstate(over="ignore", invalid="ignore"):
        for row in kept:
            total += row.astype(np.float64) / (2 if halves else 1)
        return total if halves else total / len(kept)
