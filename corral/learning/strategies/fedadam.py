"""FedAdam: the second moment decays."""

from __future__ import annotations

from typing import ClassVar

from corral.learning.strategies.adaptive import Adaptive
from corral.learning.strategies.optimiser import Floats


class FedAdam(Adaptive):
    name: ClassVar[str] = "fedadam"

    def second(self, moment: Floats, square: Floats) -> None:
        moment *= self.config["beta_2"]
        moment += (1.0 - self.config["beta_2"]) * square
