"""trimmed-mean: of every element, the mean without the extremes (Yin et al., 2018)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from corral.federated.collected import Collected, Span
from corral.federated.errors import AggregationFailed
from corral.federated.strategies.base import Number, Robust
from corral.federated.strategies.blockwise import Rows, blockwise, sorted_rows
from corral.federated.tensors import Model


class TrimmedMean(Robust):
    """`fraction` of the values is left out at each end."""

    name: ClassVar[str] = "trimmed-mean"
    parameters: ClassVar[Mapping[str, Number]] = {"fraction": Number(0.2, high=0.5, open=True)}

    def reduce(self, updates: Collected) -> Model:
        count = len(updates)
        cut = int(self.config["fraction"] * count)
        if count <= 2 * cut:
            raise AggregationFailed(f"trimmed-mean leaves nothing of {count} updates")

        def rule(rows: Rows, span: Span) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
            kept = sorted_rows(rows)[:, cut : count - cut]
            means: np.ndarray[tuple[int, ...], np.dtype[np.float64]] = kept.mean(
                axis=1, dtype=np.float64
            )
            return means

        return blockwise(updates, rule)
