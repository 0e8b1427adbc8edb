"""What a job has really cost, and what it would have cost on demand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from corral.spot.errors import InvalidTrace
from corral.spot.markets import HOUR

__all__ = ["Ledger"]


@dataclass(slots=True)
class Ledger:
    """Sums only; every second of every machine is charged once, when it is known."""

    spot: float = 0.0
    on_demand: float = 0.0
    transfers: float = 0.0
    machine_s: float = 0.0
    lost_work_s: float = 0.0
    losses: int = 0
    starts: int = 0

    def run(self, seconds: float, price: float, *, machines: int = 1, spot: bool = True) -> None:
        """Machines were up for so long at a price per hour."""
        cost = seconds * price * machines / HOUR
        self.machine_s += seconds * machines
        if spot:
            self.spot += cost
        else:
            self.on_demand += cost

    def transfer(self, cost: float) -> None:
        self.transfers += cost

    def lose(self, work_s: float) -> None:
        """A machine was taken, and so much work must be done again."""
        self.losses += 1
        self.lost_work_s += work_s

    @property
    def total(self) -> float:
        return self.spot + self.on_demand + self.transfers

    def saving(self, on_demand_cost: float) -> float:
        """The share that was saved against the given cost; negative if none was."""
        return 1 - self.total / on_demand_cost if on_demand_cost > 0 else 0.0

    def as_object(self) -> dict[str, Any]:
        """As status and JSON keep it."""
        return {
            "spot": round(self.spot, 4),
            "onDemand": round(self.on_demand, 4),
            "transfers": round(self.transfers, 4),
            "total": round(self.total, 4),
            "machineSeconds": round(self.machine_s, 1),
            "lostWorkSeconds": round(self.lost_work_s, 1),
            "losses": self.losses,
            "starts": self.starts,
        }

    @classmethod
    def of_object(cls, obj: Mapping[str, Any]) -> Self:
        """What `as_object` wrote.

        Raises:
            InvalidTrace: it did not.
        """
        try:
            return cls(
                spot=float(obj.get("spot", 0.0)),
                on_demand=float(obj.get("onDemand", 0.0)),
                transfers=float(obj.get("transfers", 0.0)),
                machine_s=float(obj.get("machineSeconds", 0.0)),
                lost_work_s=float(obj.get("lostWorkSeconds", 0.0)),
                losses=int(obj.get("losses", 0)),
                starts=int(obj.get("starts", 0)),
            )
        except (AttributeError, TypeError, ValueError) as error:
            raise InvalidTrace(f"this is no ledger: {error}") from None
