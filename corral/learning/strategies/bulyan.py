"""bulyan: Krum chooses, then every element is a mean around the median (El Mhamdi et al., 2018)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from corral.learning.collected import Collected
from corral.learning.strategies.base import Number, Robust
from corral.learning.strategies.blockwise import Rows, blockwise, sorted_rows
from corral.learning.strategies.distances import Matrix, require, scores, squared_distances
from corral.learning.tensors import Model


class Bulyan(Robust):
    """`byzantine`: how many updates may be false; four times as many and three are needed."""

    name: ClassVar[str] = "bulyan"
    squares: ClassVar[bool] = True
    parameters: ClassVar[Mapping[str, Number]] = {"byzantine": Number(0, whole=True)}

    def reduce(self, updates: Collected) -> Model:
        byzantine = int(self.config["byzantine"])
        count = len(updates)
        require(count, 4 * byzantine + 3, rule=self.name, byzantine=byzantine)
        chosen = _choose(squared_distances(updates), byzantine, keep=count - 2 * byzantine)
        width = len(chosen) - 2 * byzantine

        def rule(rows: Rows) -> Rows:
            return _around_median(sorted_rows(rows[chosen]).astype(np.float64), width)

        return blockwise(updates, rule)


def _choose(distances: Matrix, byzantine: int, *, keep: int) -> list[int]:
    """Krum again and again, each time without those it has chosen."""
    left = list(range(len(distances)))
    chosen: list[int] = []
    while len(chosen) < keep:
        best = int(np.argmin(scores(distances[np.ix_(left, left)], byzantine)))
        chosen.append(left.pop(best))
    return sorted(chosen)


def _around_median(
    ordered: np.ndarray[tuple[int, ...], np.dtype[np.float64]], width: int
) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """The mean of the `width` values nearest to the median; they are neighbours when sorted."""
    count = ordered.shape[1]
    median = (ordered[:, (count - 1) // 2] + ordered[:, count // 2]) / 2
    starts = range(count - width + 1)
    reach = np.stack(
        [
            np.maximum(median - ordered[:, start], ordered[:, start + width - 1] - median)
            for start in starts
        ]
    )
    first = np.argmin(reach, axis=0)
    columns = first[:, None] + np.arange(width)[None, :]
    result: np.ndarray[tuple[int, ...], np.dtype[np.float64]] = np.take_along_axis(
        ordered, columns, axis=1
    ).mean(axis=1)
    return result
