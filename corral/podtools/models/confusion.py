"""Confusion matrices: how often a class was taken for another. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corral.podtools.kafka.messages import CLASSES, Matrix

__all__ = ["confusion", "summed"]

Array = NDArray[Any]


def confusion(given: Array, wanted: Array) -> Matrix | None:
    """Of what a model gave for samples, by their labels; none where these are no classes.

    Args:
        given: a row for each sample: a value for each class, or the chance of the second of two.
        wanted: one-hot rows, or the numbers of classes.
    """
    given = np.asarray(given)
    if given.ndim == 1:
        given = given[:, None]
    if given.ndim != 2 or not len(given) or len(given) != len(wanted):
        return None
    if given.shape[1] == 1:
        if not np.logical_and(given >= 0, given <= 1).all():
            return None
        given = np.hstack([1 - given, given])
    count = given.shape[1]
    classes = _classes(np.asarray(wanted), count)
    if classes is None or count > CLASSES:
        return None
    pairs = classes * count + given.argmax(axis=1)
    matrix: Matrix = np.bincount(pairs, minlength=count * count).reshape(count, count).tolist()
    return matrix


def _classes(wanted: Array, count: int) -> Array | None:
    if wanted.ndim == 2 and wanted.shape[1] == count > 1:
        one_hot = np.isin(wanted, (0, 1)).all() and (wanted.sum(axis=1) == 1).all()
        return wanted.argmax(axis=1) if one_hot else None
    if wanted.ndim == 2 and wanted.shape[1] == 1:
        wanted = wanted[:, 0]
    if wanted.ndim != 1 or not np.issubdtype(wanted.dtype, np.number):
        return None
    whole = (wanted == np.floor(wanted)).all() and (wanted >= 0).all() and (wanted < count).all()
    return wanted.astype(np.int64) if whole else None


def summed(matrices: Iterable[Sequence[Sequence[int]] | None]) -> Matrix | None:
    """Of several clients; none where one of them has none, or of other classes."""
    total: Array | None = None
    for matrix in matrices:
        found = np.asarray(matrix or [], np.int64)
        if found.ndim != 2 or (total is not None and total.shape != found.shape):
            return None
        total = found if total is None else total + found
    return None if total is None else [[int(n) for n in row] for row in total]
