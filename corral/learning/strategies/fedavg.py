"""FedAvg: the mean of the models, weighted by samples (McMahan et al., 2017)."""

from __future__ import annotations

from typing import ClassVar

from corral.learning.strategies.base import Averaging


class FedAvg(Averaging):
    name: ClassVar[str] = "fedavg"
