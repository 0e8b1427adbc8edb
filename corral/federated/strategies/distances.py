"""Squared distances between all updates, and the scores that Krum makes of them.

Every block is taken relative to its first client, which keeps the digits of small differences
between large models; blocks are added in their order, so the distances are the same in every run.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from corral.federated import native
from corral.federated.collected import Collected, Span
from corral.federated.errors import AggregationFailed
from corral.federated.workers import spread

Matrix = npt.NDArray[np.float64]

_DIGITS = 40


def squared_distances(updates: Collected) -> Matrix:
    def gram(span: Span) -> Matrix:
        rows = updates.rows(span)
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
    return distances


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
