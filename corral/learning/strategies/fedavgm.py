"""FedAvgM: momentum on the server (Hsu et al., 2019)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from corral.learning.strategies.base import Number
from corral.learning.strategies.optimiser import Floats, ServerOptimiser


class FedAvgM(ServerOptimiser):
    """`m = momentum * m + delta`, then `learning_rate * m` is added."""

    name: ClassVar[str] = "fedavgm"
    parameters: ClassVar[Mapping[str, Number]] = {
        "learning_rate": Number(1.0),
        "momentum": Number(0.9, high=1.0, open=True),
    }

    def step(self, delta: Floats, moments: list[Floats]) -> Floats:
        (momentum,) = moments
        momentum *= self.config["momentum"]
        momentum += delta
        return momentum * self.config["learning_rate"]
