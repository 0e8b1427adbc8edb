"""FedProx: FedAvg on the server; clients keep near the global model (Li et al., 2020)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from corral.learning.strategies.base import Averaging, Number


class FedProx(Averaging):
    """`mu` weighs the proximal term of the clients' loss."""

    name: ClassVar[str] = "fedprox"
    parameters: ClassVar[Mapping[str, Number]] = {"mu": Number(0.01)}

    def client_config(self) -> dict[str, float]:
        return {"mu": self.config["mu"]}
