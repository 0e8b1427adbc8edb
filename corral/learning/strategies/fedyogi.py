"""FedYogi: the second moment moves towards the square by a step of the square's own size."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from corral.learning.strategies.adaptive import Adaptive
from corral.learning.strategies.optimiser import Floats


class FedYogi(Adaptive):
    name: ClassVar[str] = "fedyogi"

    def second(self, moment: Floats, square: Floats) -> None:
        moment -= (1.0 - self.config["beta_2"]) * square * np.sign(moment - square)
