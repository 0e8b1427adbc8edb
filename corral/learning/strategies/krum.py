"""krum: the update with the nearest neighbours (Blanchard et al., 2017)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from corral.learning.collected import Collected
from corral.learning.strategies.base import Number, Robust
from corral.learning.strategies.distances import require, scores, squared_distances
from corral.learning.tensors import Model


class Krum(Robust):
    """`byzantine`: how many updates may be false. Of equals, the first by client name."""

    name: ClassVar[str] = "krum"
    squares: ClassVar[bool] = True
    parameters: ClassVar[Mapping[str, Number]] = {"byzantine": Number(0, whole=True)}

    def reduce(self, updates: Collected) -> Model:
        byzantine = int(self.config["byzantine"])
        require(len(updates), 2 * byzantine + 3, rule=self.name, byzantine=byzantine)
        best = int(np.argmin(scores(squared_distances(updates), byzantine)))
        chosen = updates.model(best)
        return chosen.like([values.copy() for values in chosen.vectors])
