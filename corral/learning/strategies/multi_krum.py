"""multi-krum: the mean of the updates with the nearest neighbours (Blanchard et al., 2017)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from corral.learning.averages import Average
from corral.learning.collected import Collected
from corral.learning.strategies.base import Number, Robust
from corral.learning.strategies.distances import require, scores, squared_distances
from corral.learning.tensors import Model


class MultiKrum(Robust):
    """`keep` updates are averaged; 0: all but the `byzantine`."""

    name: ClassVar[str] = "multi-krum"
    squares: ClassVar[bool] = True
    parameters: ClassVar[Mapping[str, Number]] = {
        "byzantine": Number(0, whole=True),
        "keep": Number(0, whole=True),
    }

    def reduce(self, updates: Collected) -> Model:
        byzantine = int(self.config["byzantine"])
        require(len(updates), 2 * byzantine + 3, rule=self.name, byzantine=byzantine)
        keep = min(int(self.config["keep"]) or len(updates) - byzantine, len(updates))
        ranked = np.argsort(scores(squared_distances(updates), byzantine), kind="stable")
        average = Average(updates.example, expected=keep)
        average.add([updates.model(int(index)) for index in ranked[:keep]], [1] * keep)
        return average.take()
