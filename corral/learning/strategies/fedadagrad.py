"""FedAdagrad: the second moment only grows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from corral.learning.strategies.adaptive import Adaptive
from corral.learning.strategies.base import Number
from corral.learning.strategies.optimiser import Floats


class FedAdagrad(Adaptive):
    name: ClassVar[str] = "fedadagrad"
    parameters: ClassVar[Mapping[str, Number]] = {
        "learning_rate": Number(0.1),
        "beta_1": Number(0.0, high=1.0, open=True),
        "tau": Number(1e-3, low=1e-12),
    }

    def second(self, moment: Floats, square: Floats) -> None:
        moment += square
