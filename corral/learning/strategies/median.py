"""median: of every element, the middle value of all clients (Yin et al., 2018)."""

from __future__ import annotations

from typing import ClassVar

from corral.learning.collected import Collected
from corral.learning.strategies.base import Robust
from corral.learning.strategies.blockwise import blockwise, middle_mean
from corral.learning.tensors import Model


class Median(Robust):
    name: ClassVar[str] = "median"

    def reduce(self, updates: Collected) -> Model:
        return blockwise(updates, lambda rows: middle_mean(rows, (len(rows) - 1) // 2))
