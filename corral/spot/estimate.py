"""What finishing would cost: one place's running cost, its interval, and its expected stay.

Of a machine that may be lost at any time, per second: its price, the transfers of checkpoints, and
for every loss the work done again and another start. Divided by the work it does that is the cost
of work there (`Estimate.rate`).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp
from typing import Final

from corral.spot.interval import checkpoint_interval, notice_allows
from corral.spot.markets import HOUR, Offer
from corral.spot.workload import Workload

__all__ = ["NOTICE_MARGIN_S", "NOTICE_TOLD", "Estimate", "estimate"]

NOTICE_TOLD: Final = 0.9
"""How often a notice comes in time."""
NOTICE_MARGIN_S: Final = 10.0
"""What must be left of a notice beside the checkpoint."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A machine of an offer, as it is expected to do."""

    offer: Offer
    hazard: float
    """The expected number of losses in a second."""
    interval_s: float
    """Seconds between two checkpoints."""
    saves_on_notice: bool
    per_second: float
    """What running costs: price and checkpoints' transfers."""
    speed: float
    """Work per second that remains, checkpoints and losses taken off."""
    entry_s: float
    """From asking until the first step."""
    entry_cost: float
    """What that costs, transfers included."""
    machines: int
    transfers: float
    """What transfers cost per second, those of restores after losses included."""

    @property
    def rate(self) -> float:
        """Cost per second of work, in the long run."""
        return (self.per_second + self.hazard * self.entry_cost) / self.speed

    def rate_at(self, price: float) -> float:
        """The same at another price."""
        time = price * self.machines / HOUR * (1 + self.hazard * self.entry_s)
        return (time + self.transfers) / self.speed

    @property
    def pace(self) -> float:
        """Work per second in the long run, starts after losses taken off."""
        return self.speed / (1 + self.hazard * self.entry_s)

    def stay_s(self, work_s: float) -> float:
        """How long it will be kept: until the work is done or the machine is lost."""
        whole = work_s / self.speed
        if self.hazard * whole < 1e-9:
            return whole
        return (1 - exp(-self.hazard * whole)) / self.hazard

    def rate_with(self, time_price: float) -> float:
        """`rate` where a second costs so much besides."""
        return self.rate + time_price / self.pace

    def entry_with(self, time_price: float) -> float:
        return self.entry_cost + self.entry_s * time_price

    def cost_to_finish(
        self, work_s: float, *, after: float, restart: float, here: bool, time_price: float = 0.0
    ) -> float:
        """Expected cost of the work that is left if this machine is used first.

        Args:
            work_s: What is left.
            after: Cost of a second of work after this machine is lost.
            restart: Cost of the start after that.
            here: The machine is running already.
            time_price: What a second costs besides; ``after`` and ``restart`` have it in them.
        """
        stay = self.stay_s(work_s)
        done = min(stay * self.speed, work_s)
        running = stay * (self.per_second + time_price + self.hazard * restart)
        entry = 0.0 if here else self.entry_with(time_price)
        return entry + running + after * (work_s - done)


def estimate(
    workload: Workload, offer: Offer, *, hazard: float, price: float, interval_s: float | None
) -> Estimate:
    """What a machine would do.

    Args:
        workload: What it is for.
        offer: The machine.
        hazard: Its losses per hour.
        price: Per hour, as expected while it is kept.
        interval_s: Between checkpoints; the cheapest one if none.
    """
    place, per_second = offer.place, price * workload.machines / HOUR
    upload_s, upload_cost = workload.upload_s(place), workload.upload_cost(place)
    stage_s, rate = workload.stage_s, (hazard / HOUR if offer.spot else 0.0)
    saves = offer.spot and notice_allows(
        offer.notice_s, stage_s=stage_s, upload_s=upload_s, margin_s=NOTICE_MARGIN_S
    )
    unsaved = rate * (1 - NOTICE_TOLD) if saves else rate
    tau = interval_s or checkpoint_interval(
        stage_s=stage_s,
        upload_s=upload_s,
        upload_cost=upload_cost,
        per_second=per_second,
        hazard=unsaved,
    )
    busy = tau / (tau + stage_s)
    again = min(unsaved * (tau / 2 + stage_s + upload_s), 0.9)
    entry_s = workload.boot_s + workload.restore_s(place)
    saving, restoring = upload_cost / (tau + stage_s), workload.restore_cost(place)
    return Estimate(
        offer=offer,
        hazard=rate,
        interval_s=tau,
        saves_on_notice=saves,
        per_second=per_second + saving,
        speed=offer.speed * busy * (1 - again),
        entry_s=entry_s,
        entry_cost=entry_s * per_second + restoring,
        machines=workload.machines,
        transfers=saving + rate * restoring,
    )
