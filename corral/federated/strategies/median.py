"""median: of every element, the middle value of all clients (Yin et al., 2018)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from corral.federated.collected import Collected, Span
from corral.federated.strategies.base import Robust
from corral.federated.strategies.blockwise import Rows, blockwise, sorted_rows
from corral.federated.tensors import Model


class Median(Robust):
    name: ClassVar[str] = "median"

    def reduce(self, updates: Collected) -> Model:
        return blockwise(updates, _median)


def _median(rows: Rows, span: Span) -> np.ndarray[tuple[int, ...], np.dtype[np.floating]]:
    ordered = sorted_rows(rows)
    middle = len(rows) // 2
    if len(rows) % 2:
        return ordered[:, middle]
    low, high = ordered[:, middle - 1].astype(np.float64), ordered[:, middle]
    return low / 2 + high / 2
