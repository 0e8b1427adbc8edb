"""Squared distances between all updates, and the scores that Krum makes of them.

Every block is taken relative to one client, which keeps the digits of small differences between
large models: the first, or where others are much nearer to each other than to that one, the one
that is nearest to most. Blocks are added in their order, so the distances are the same in every
run.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from corral.learning import native
from corral.learning.collected import Collected, Span
from corral.learning.errors import AggregationFailed
from corral.learning.workers import spread

Matrix = npt.NDArray[np.float64]

_DIGITS = 40
_DOUBT = 2.0**-20
"""The share of the squares that a difference of them must have to be more than their rounding."""
_PASSES = 8
"""Of which each leaves the sixteen digits of a number less of what far ones hide."""


def squared_distances(updates: Collected) -> Matrix:
    """The distances; what lies far away does not take the digits of those that are near."""
    reference = 0
    for _ in range(_PASSES):
        distances, lengths = _relative(updates, reference)
        doubtful = distances < _DOUBT * (lengths[:, None] + lengths[None, :])
        np.fill_diagonal(doubtful, False)
        if not doubtful.any():
            break
        middle = int(np.argmin(np.median(distances, axis=1)))
        if middle == reference:
            break  # only those in doubt are left that are far from most
        reference = middle
    return distances


def _relative(updates: Collected, reference: int) -> tuple[Matrix, Matrix]:
    """The distances as far as they can be told from one client, and how far from it all are."""
    order = np.arange(len(updates))
    order[[0, reference]] = order[[reference, 0]]

    def gram(span: Span) -> Matrix:
        rows = updates.rows(span)
        if reference:
            rows = rows[order]
        if native.kernel is not None:
            sums = np.zeros((len(rows), len(rows)))
            native.kernel.gram(rows, len(rows), rows.itemsize, sums)
            return sums
        relative = rows.astype(np.float64)
        relative -= relative[0].copy()
        product: Matrix = relative @ relative.T
        return product

    total = np.zeros((len(updates), len(updates)))
    with np.errstate(over="ignore", invalid="ignore"):
        for part in spread(gram, updates.spans()):
            total += part
        squares = np.diag(total)
        distances: Matrix = squares[:, None] + squares[None, :] - 2 * total
    if not np.isfinite(distances).all():
        raise AggregationFailed("the updates are too far apart for their distances to be numbers")
    np.maximum(distances, 0.0, out=distances)
    np.fill_diagonal(distances, 0.0)
    # the exchange of two is its own inverse
    return distances[np.ix_(order, order)], squares[order]


def scores(distances: Matrix, byzantine: int) -> Matrix:
    """Of each update, the sum of the distances to its nearest neighbours.

    Rounded to what no order of additions changes, so that equal scores are seen to be equal.
    """
    neighbours = max(len(distances) - byzantine - 2, 1)
    ordered = np.sort(distances, axis=1)
    mantissas, exponents = np.frexp(ordered[:, 1 : neighbours + 1].sum(axis=1))
    result: Matrix = np.ldexp(np.rint(np.ldexp(mantissas, _DIGITS)), exponents - _DIGITS)
    return result


def require(count: int, least: int, *, rule: str, byzantine: int) -> None:
    if count < least:
        raise AggregationFailed(
            f"{rule} needs {least} updates to stand {byzantine} byzantine ones, there are {count}"
        )
