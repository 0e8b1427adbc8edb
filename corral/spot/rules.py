"""Rules that placement is measured against, each as its users would run it, and ours.

All of them keep the deadline by the same guard: when no more time may be lost they go on demand,
and stay there. The user of a rule names one machine type, the cheapest per work in the data's home
that is in time when the job is submitted, and saves every half hour; nobody tells the job of
notices. A `tuned` rule has our checkpoints: the interval of least cost, and one on notice where it
fits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Final, Protocol

from corral.spot.deadline import slack
from corral.spot.errors import UnknownRule
from corral.spot.estimate import Estimate, estimate
from corral.spot.markets import Offer, Place
from corral.spot.memory import Memory
from corral.spot.planner import Action, Decision, PlannerSettings, View, decide

__all__ = ["RULES", "Ours", "Rule", "rule"]

_INTERVAL_S: Final = 1800.0
_RETRY_S: Final = 60.0
_GUARD: Final = PlannerSettings()


class Rule(Protocol):
    """Something that decides, and is told what happened."""

    memory: Memory

    def decide(self, view: View) -> Decision: ...


class Ours:
    """`corral.spot.planner.decide`, as the controller runs it."""

    def __init__(self, settings: PlannerSettings | None = None) -> None:
        self.memory = Memory()
        self.settings = settings or PlannerSettings()

    def decide(self, view: View) -> Decision:
        return decide(view, self.memory, self.settings)


@dataclass(frozen=True, slots=True)
class _Saving:
    interval_s: float | None
    on_notice: bool


class _Simple:
    """What the rules have in common: checkpoints and the guard."""

    def __init__(self, *, tuned: bool = False) -> None:
        self.memory = Memory()
        self._saving = _Saving(None, True) if tuned else _Saving(_INTERVAL_S, False)

    def decide(self, view: View) -> Decision:
        sure = self._sure(view)
        left = slack(
            view.workload,
            view.progress,
            sure,
            now=view.now,
            running=view.running is not None and not view.running.spot,
        )
        reserve = _GUARD.reserve_s + _GUARD.review_s
        if view.running is not None and (not view.running.spot or view.pending is not None):
            return self._decision(view, Action.STAY, view.running, left)
        if left < reserve:
            action = Action.LAUNCH if view.running is None else Action.MOVE
            return self._decision(view, action, sure.offer, left)
        if view.running is not None:
            return self._decision(view, Action.STAY, view.running, left)
        found = self.next(view)
        if found is None:
            until = min(view.now + _RETRY_S, view.now + max(left - reserve, 1.0))
            return Decision(Action.WAIT, until, reason="nothing was given")
        return self._decision(view, Action.LAUNCH, found, left)

    def next(self, view: View) -> Offer | None:
        """What is asked for next; none: wait."""
        raise NotImplementedError

    def _decision(self, view: View, action: Action, offer: Offer, left: float) -> Decision:
        running = view.running if action is Action.MOVE and view.running else offer
        found = self._estimate(view, running)
        until = view.now + _GUARD.review_s
        if running.spot:
            until = min(until, view.now + max(left - _GUARD.reserve_s - _GUARD.review_s, 30.0))
        saves = found.saves_on_notice and self._saving.on_notice
        return Decision(action, until, offer, found.interval_s, saves)

    def _estimate(self, view: View, offer: Offer) -> Estimate:
        return estimate(
            view.workload,
            offer,
            hazard=self.memory.hazard_of(offer, view.now),
            price=offer.price,
            interval_s=self._saving.interval_s,
        )

    def _sure(self, view: View) -> Estimate:
        """On demand where the data is."""
        if view.running is not None and not view.running.spot:
            return self._estimate(view, view.running)
        home = view.workload.home
        known = [offer for offer in view.offers if not offer.spot]
        near = [o for o in known if (o.place.cloud, o.place.region) == (home.cloud, home.region)]
        found = [self._estimate(view, offer) for offer in near or known]
        return min(found, key=lambda each: (each.rate, each.offer.place))


class OnDemand(_Simple):
    """Always on demand, where the data is."""

    def next(self, view: View) -> Offer | None:
        return self._sure(view).offer


class SameZone(_Simple):
    """The zone that was cheapest at first, at home, for ever: asked until it gives."""

    def __init__(self, *, tuned: bool = False) -> None:
        super().__init__(tuned=tuned)
        self._place: Place | None = None

    def next(self, view: View) -> Offer | None:
        if self._place is None:
            self._place = _cheapest(_at_home(view)).place
        return next(o for o in view.offers if o.spot and o.place == self._place)


class NextRegion(_Simple):
    """A loss sends the job to another region at once; regions by price, zones in their order.

    The region that took the machine is asked again only when all others have refused. Checkpoints
    stay where they are, so that each one written or read from elsewhere is a transfer.
    """

    def __init__(self, *, tuned: bool = False, stay_in_cloud: bool = False) -> None:
        super().__init__(tuned=tuned)
        self._stay_in_cloud = stay_in_cloud
        self._type = ""
        self._queue: list[Place] | None = None
        self._left: tuple[str, str] | None = None

    def decide(self, view: View) -> Decision:
        decision = super().decide(view)
        if decision.offer is not None and decision.action is Action.LAUNCH:
            place = decision.offer.place
            self._left = place.cloud, place.region
        if view.running is not None:
            self._queue = None
        return decision

    def next(self, view: View) -> Offer | None:
        if not self._type:
            self._type = _cheapest(_at_home(view)).place.machine_type
        if self._queue is None:
            self._queue = self._order(view)
        if not self._queue:
            self._queue, self._left = None, None
            return None
        place = self._queue.pop(0)
        return next(o for o in view.offers if o.spot and o.place == place)

    def _order(self, view: View) -> list[Place]:
        home = view.workload.home
        regions: dict[tuple[str, str], list[Offer]] = {}
        for offer in view.offers:
            if offer.spot and offer.place.machine_type == self._type:
                if not self._stay_in_cloud or offer.place.cloud == home.cloud:
                    regions.setdefault((offer.place.cloud, offer.place.region), []).append(offer)
        by_price = sorted(regions, key=lambda region: min(o.price for o in regions[region]))
        if self._left in by_price:
            by_price.remove(self._left)
        return [o.place for region in by_price for o in regions[region]]


def _at_home(view: View) -> list[Offer]:
    """Spot machines where the data is, of types that are in time with a fifth to spare."""
    work = view.workload
    limit = inf if work.deadline is None else (work.deadline - view.now) / 1.2
    spot = [offer for offer in view.offers if offer.spot]
    near = [
        o for o in spot if (o.place.cloud, o.place.region) == (work.home.cloud, work.home.region)
    ]
    found = near or spot
    fast = [offer for offer in found if work.work_s / offer.speed < limit]
    fastest = max(offer.speed for offer in found)
    return fast or [offer for offer in found if offer.speed == fastest]


def _cheapest(offers: Sequence[Offer]) -> Offer:
    return min(offers, key=lambda offer: (offer.price / offer.speed, offer.place))


RULES: Final[dict[str, Callable[[bool], Rule]]] = {
    "on-demand": lambda tuned: OnDemand(tuned=tuned),
    "same-zone": lambda tuned: SameZone(tuned=tuned),
    "next-region": lambda tuned: NextRegion(tuned=tuned),
    "next-region-in-cloud": lambda tuned: NextRegion(tuned=tuned, stay_in_cloud=True),
    "corral": lambda _: Ours(),
}


def rule(name: str, *, tuned: bool = False) -> Rule:
    """A new one of that name.

    Raises:
        UnknownRule: there is none.
    """
    make = RULES.get(name)
    if make is None:
        raise UnknownRule(f"there is no rule {name!r}: use {', '.join(RULES)}")
    return make(tuned)
