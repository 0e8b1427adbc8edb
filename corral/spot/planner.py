"""`decide`: one step of placement, without a clock, a cloud or a cluster.

The controller and the simulator give it the same view and do what it says. It looks for the least
expected cost to finish: price over the expected stay, work done again, starts, transfers, and what
the work that is left then will cost elsewhere. Before that comes the deadline: when no more time
may be lost, the job is on demand until there is time again. A job with time to spare waits for
cheap hours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import inf

from corral.spot.deadline import slack
from corral.spot.errors import NoOffers
from corral.spot.estimate import NOTICE_MARGIN_S, Estimate, estimate
from corral.spot.interval import notice_allows
from corral.spot.markets import HOUR, Offer
from corral.spot.memory import Memory
from corral.spot.outlook import ceiling, outlook
from corral.spot.timeprice import price_of_time
from corral.spot.workload import Progress, Workload

__all__ = ["Action", "Decision", "PlannerSettings", "View", "decide"]


_SOON_S = 120.0
"""Machines on demand that end within this are as fast as each other."""


class Action(StrEnum):
    """What a job is to do next."""

    LAUNCH = "Launch"
    """Ask for a machine; there is none."""
    STAY = "Stay"
    MOVE = "Move"
    """Ask for a machine beside the one that runs; when it is ready, save and go there."""
    PAUSE = "Pause"
    """Save, give the machine back, and wait."""
    WAIT = "Wait"


@dataclass(frozen=True, slots=True)
class PlannerSettings:
    """The settings that placement is decided by."""

    review_s: float = 600.0
    """How often a running job is looked at again."""
    reserve_s: float = 900.0
    """What the deadline guard keeps back for what nobody expects."""
    stay_hours: float = 4.0
    """How far ahead prices are averaged: after that a move is a new decision."""
    move_gain: float = 0.02
    """A move must save this share of what is left to pay, and half of its own cost."""
    pause_gain: float = 0.12
    """A running job pauses when work costs this share more than it must."""
    start_gain: float = 0.02
    """A waiting one starts up to this share above what work must cost."""
    spare: float = 1.4
    """How many times the hours of work that are needed are planned for."""
    time_spare: float = 1.15
    """How much longer than planned a job is expected to need."""
    time_nudge: float = 1.1
    """At the price of time itself the machines of a mixture cost the same: the faster one wins."""
    time_limit: float = 1.0
    """A second is worth at most so many seconds on demand."""
    unsaved_share: float = 0.25
    """Of the time that may be lost, how much work may be without a checkpoint."""
    interval_s: float | None = None
    """Between checkpoints; the cheapest one if none."""


@dataclass(frozen=True, slots=True)
class View:
    """All that a decision is made of, besides what was learnt."""

    now: float
    workload: Workload
    progress: Progress
    offers: Sequence[Offer]
    running: Offer | None = None
    """The machine that trains, at its price of now."""
    pending: Offer | None = None
    """A machine that was asked for and is not ready."""
    lost_at: float | None = None
    """When the machine that trains will be taken, if a notice came."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do, and why."""

    action: Action
    review_at: float
    """When to decide again, if nothing happens before."""
    offer: Offer | None = None
    interval_s: float | None = None
    """Between checkpoints, for a machine that runs."""
    saves_on_notice: bool = False
    expected_cost: float = 0.0
    """The expected cost until the job is finished."""
    reason: str = ""


def decide(view: View, memory: Memory, settings: PlannerSettings | None = None) -> Decision:
    """The next step.

    Raises:
        NoOffers: nothing is offered.
    """
    return _Step(view, memory, settings or PlannerSettings()).decide()


class _Step:
    """What one decision is computed from, computed once."""

    def __init__(self, view: View, memory: Memory, settings: PlannerSettings) -> None:
        if not view.offers:
            raise NoOffers("no machine is offered: name a zone and a machine type that exist")
        self.view, self.memory, self.settings = view, memory, settings
        self.now = view.now
        self.estimates = [self._estimate(offer) for offer in view.offers]
        self.spot = [found for found in self.estimates if found.offer.spot]
        self.here = self._estimate(view.running) if view.running is not None else None
        done = view.progress.saved_s if view.running is None else view.progress.done_s
        self.left = max(view.workload.work_s - done, 0.0)
        self.sure = self._sure()
        self.slack = slack(
            view.workload,
            view.progress,
            self.sure,
            now=self.now,
            running=self.here is not None and not self.here.offer.spot,
        )
        self.time_price = self._price_of_time()
        self._look_ahead()

    def _estimate(self, offer: Offer) -> Estimate:
        price = offer.price
        if offer.spot:
            ahead = self.settings.stay_hours * HOUR
            price = self.memory.prices.mean(offer.place, ahead, now=self.now, price=price)
        return estimate(
            self.view.workload,
            offer,
            hazard=self.memory.hazard_of(offer, self.now),
            price=price,
            interval_s=self.settings.interval_s,
        )

    def _sure(self) -> Estimate | None:
        """The machine on demand that the deadline is kept by: the cheapest of the fastest."""
        if self.here is not None and not self.here.offer.spot:
            return self.here
        known = [found for found in self.estimates if not found.offer.spot]
        free = [found for found in known if not self._blocked(found)] or known
        if not free:
            return None
        soonest = min(found.entry_s + self.left / found.speed for found in free)
        near = [f for f in free if f.entry_s + self.left / f.speed <= soonest + _SOON_S]
        return min(near, key=lambda found: found.entry_cost + self.left * found.rate)

    def _look_ahead(self) -> None:
        """What work will cost after this machine, and what it may cost at all."""
        self.ceiling, self.after, self.restart = inf, inf, 0.0
        if not self.spot:
            if self.sure is not None:
                self.after = self._rate(self.sure)
            return
        best = min(self.spot, key=self._rate)
        needed = self.left / best.pace / HOUR * self.settings.spare
        costs = outlook(
            self.memory,
            self.spot,
            now=self.now,
            hours=self._hours_left(needed),
            time_price=self.time_price,
        )
        if self.view.workload.deadline is not None and self.slack < inf:
            self.ceiling = ceiling(costs, hours=needed)
        used = [cost for cost in costs if cost <= self.ceiling]
        self.after = sum(used) / len(used)
        self.restart = best.entry_with(self.time_price)

    def _price_of_time(self) -> float:
        deadline = self.view.workload.deadline
        if deadline is None or self.left <= 0:
            return 0.0
        seconds = max(deadline - self.now - self._reserve(), 0.0) / self.settings.time_spare
        machines = [(1 / found.pace, found.rate) for found in self.estimates]
        limit = self.sure.per_second * self.settings.time_limit if self.sure is not None else inf
        price = price_of_time(machines, allowed=seconds / self.left)
        return min(price * self.settings.time_nudge, limit)

    def _rate(self, found: Estimate) -> float:
        return found.rate_with(self.time_price)

    def _hours_left(self, needed: float) -> int:
        if self.slack == inf:
            return max(int(needed), 1)
        return max(int((self.slack - self._reserve() + self._sure_s()) / HOUR), 1)

    def _sure_s(self) -> float:
        return self.left / self.sure.speed if self.sure is not None else 0.0

    def _blocked(self, found: Estimate) -> bool:
        return self.memory.blocks.blocked(found.offer.place, self.now, spot=found.offer.spot)

    def _cost(self, found: Estimate, *, here: bool = False) -> float:
        return found.cost_to_finish(
            self.left,
            after=self.after,
            restart=self.restart,
            here=here,
            time_price=self.time_price,
        )

    # --- the decision ----------------------------------------------------------------------------

    def decide(self) -> Decision:
        if self.sure is not None and self.slack < self._reserve():
            return self._guarded(self.sure)
        best = self._best()
        if self.here is None:
            return self._start(best)
        return self._keep(self.here, best)

    def _reserve(self) -> float:
        return self.settings.reserve_s + self.settings.review_s

    def _guarded(self, sure: Estimate) -> Decision:
        why = "the deadline leaves no time to lose: on demand"
        if self.here is None:
            return self._decision(Action.LAUNCH, sure, why)
        if not self.here.offer.spot:
            return self._decision(Action.STAY, self.here, why)
        return self._decision(Action.MOVE, sure, why)

    def _best(self) -> Estimate | None:
        free = [found for found in self.spot or self.estimates if not self._blocked(found)]
        if not free:
            return None
        return min(free, key=lambda found: (self._cost(found), found.offer.place))

    def _start(self, best: Estimate | None) -> Decision:
        if best is None:
            return self._wait("no spot machine can be had now")
        if self._rate(best) > self.ceiling * (1 + self.settings.start_gain):
            return self._wait("cheaper hours come before the deadline")
        return self._decision(Action.LAUNCH, best, "the least expected cost to finish")

    def _keep(self, here: Estimate, best: Estimate | None) -> Decision:
        if self.view.pending is not None:
            return self._decision(Action.STAY, here, "a machine is on its way")
        if self.view.lost_at is not None:
            return self._flee(here, best)
        if self._too_dear(here, best):
            return self._decision(Action.PAUSE, here, "cheaper hours come before the deadline")
        if best is None or _same(best.offer, here.offer):
            return self._decision(Action.STAY, here, "nothing else can be had")
        stay = self._cost(here, here=True)
        gain = stay - self._cost(best)
        enough = self.settings.move_gain * stay + 0.5 * best.entry_cost
        if gain > enough and self._may_move(here, best):
            return self._decision(Action.MOVE, best, f"saves {gain:.2f} of {stay:.2f}")
        return self._decision(Action.STAY, here, "nothing is cheaper to finish on")

    def _flee(self, here: Estimate, best: Estimate | None) -> Decision:
        why = "a notice came: the machine will be taken"
        if best is None or _same(best.offer, here.offer):
            return self._decision(Action.STAY, here, why)
        return self._decision(Action.MOVE, best, why)

    def _too_dear(self, here: Estimate, best: Estimate | None) -> bool:
        """Whether a running job waits for cheaper hours, on no machine."""
        if self._rate(here) <= self.ceiling * (1 + self.settings.pause_gain):
            return False
        if best is not None and self._rate(best) <= self.ceiling:
            return False
        return here.offer.spot or self._time_for_spot(here)

    def _may_move(self, here: Estimate, best: Estimate) -> bool:
        return here.offer.spot or not best.offer.spot or self._time_for_spot(best)

    def _time_for_spot(self, best: Estimate) -> bool:
        """Back from on demand only with time for the move, for a loss, and for the way back."""
        sure_s = self.sure.entry_s if self.sure is not None else 0.0
        lost = best.entry_s + best.interval_s + sure_s
        return self.slack - lost > self._reserve()

    def _wait(self, why: str) -> Decision:
        ends = [self.memory.blocks.until(found.offer.place) for found in self.spot]
        soonest = min((end for end in ends if end > self.now), default=inf)
        limit = self.slack - self._reserve()
        until = min(soonest, self.now + self.settings.review_s, self.now + max(limit, 1.0))
        return Decision(Action.WAIT, max(until, self.now + 1.0), reason=why)

    def _interval(self, running: Estimate) -> float:
        """Shorter near the deadline: what is not saved must be done again in time."""
        if self.slack == inf or not running.offer.spot or self.sure is None:
            return running.interval_s
        unsaved = self.view.progress.done_s - self.view.progress.saved_s
        left = self.slack + unsaved / self.sure.speed - self._reserve()
        upload = self.view.workload.upload_s(running.offer.place)
        shortest = max(upload, 20 * self.view.workload.stage_s)
        return min(running.interval_s, max(left * self.settings.unsaved_share, shortest))

    def _decision(self, action: Action, found: Estimate, why: str) -> Decision:
        review = self.now + self.settings.review_s
        running = self.here if action in (Action.STAY, Action.MOVE, Action.PAUSE) else found
        if running is not None and running.offer.spot and self.slack < inf:
            review = min(review, self.now + max(self.slack - self._reserve(), 30.0))
        return Decision(
            action=action,
            review_at=review,
            offer=found.offer,
            interval_s=self._interval(running or found),
            saves_on_notice=self._saves(running or found),
            expected_cost=self._cost(found, here=action is Action.STAY),
            reason=why,
        )

    def _saves(self, running: Estimate) -> bool:
        """Whether a checkpoint fits into the notice, or into what is left of the one that came."""
        if self.view.lost_at is None or running is not self.here:
            return running.saves_on_notice
        work = self.view.workload
        return notice_allows(
            self.view.lost_at - self.now,
            stage_s=work.stage_s,
            upload_s=work.upload_s(running.offer.place),
            margin_s=NOTICE_MARGIN_S,
        )


def _same(one: Offer, other: Offer) -> bool:
    return one.place == other.place and one.spot == other.spot
