"""trimmed-mean: of every element, the mean without the extremes (Yin et al., 2018)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from corral.learning.collected import Collected
from corral.learning.errors import AggregationFailed
from corral.learning.strategies.base import Number, Robust
from corral.learning.strategies.blockwise import blockwise, middle_mean
from corral.learning.tensors import Model


class TrimmedMean(Robust):
    """`fraction` of the values is left out at each end."""

    name: ClassVar[str] = "trimmed-mean"
    parameters: ClassVar[Mapping[str, Number]] = {"fraction": Number(0.2, high=0.5, open=True)}

    def reduce(self, updates: Collected) -> Model:
        count = len(updates)
        cut = int(self.config["fraction"] * count)
        if count <= 2 * cut:
            raise AggregationFailed(f"trimmed-mean leaves nothing of {count} updates")
        return blockwise(updates, lambda rows: middle_mean(rows, cut))
