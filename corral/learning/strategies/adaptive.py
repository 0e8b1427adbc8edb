"""What FedAdam, FedAdagrad and FedYogi share: they differ in the second moment."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from corral.learning.strategies.base import Number
from corral.learning.strategies.optimiser import Floats, ServerOptimiser


class Adaptive(ServerOptimiser):
    """`learning_rate * m / (sqrt(v) + tau)` is added."""

    moments: ClassVar[tuple[str, ...]] = ("m", "v")
    parameters: ClassVar[Mapping[str, Number]] = {
        "learning_rate": Number(0.1),
        "beta_1": Number(0.9, high=1.0, open=True),
        "beta_2": Number(0.99, high=1.0, open=True),
        "tau": Number(1e-3, low=1e-12),
    }

    @abstractmethod
    def second(self, moment: Floats, square: Floats) -> None:
        """Updates the second moment in place."""

    def step(self, delta: Floats, moments: list[Floats]) -> Floats:
        first, second = moments
        first *= self.config["beta_1"]
        first += (1.0 - self.config["beta_1"]) * delta
        self.second(second, delta * delta)
        return self.config["learning_rate"] * first / (np.sqrt(second) + self.config["tau"])
