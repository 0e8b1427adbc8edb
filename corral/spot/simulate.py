"""Replay of a trace: a job from its first request to its end, by a rule, on a virtual clock.

The rule decides exactly what it decides in a cluster, from the same view, and is told the same
things. The simulator is the rest of the world: it gives and refuses machines, boots them, trains,
saves, takes machines away, and charges for all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from math import inf
from typing import Final

from corral.spot.blocks import Refusal
from corral.spot.errors import SpotError
from corral.spot.ledger import Ledger
from corral.spot.markets import HOUR, Offer
from corral.spot.planner import Action, Decision, View
from corral.spot.rules import Rule
from corral.spot.trace import Loss, Trace
from corral.spot.workload import Progress, Workload

__all__ = ["Outcome", "simulate"]

REFUSAL_S: Final = 60.0
"""How long it takes a provider to say no."""
_STEPS: Final = 200_000


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a simulated job went and what it cost."""

    cost: float
    makespan_s: float
    missed: bool
    """It was not done by its deadline."""
    ledger: Ledger


@dataclass(slots=True)
class _Machine:
    """A machine, or several that are one to the job."""

    offer: Offer
    born: float
    loss: Loss | None
    ready: float
    """When it is a node."""
    noticed: bool = False
    tried: bool = False
    """The checkpoint on notice was begun."""
    charged: float = field(default=0.0)
    """Until when it is paid for."""

    def __post_init__(self) -> None:
        self.charged = self.born

    @property
    def lost_at(self) -> float:
        return self.loss.at if self.loss is not None else inf


def simulate(trace: Trace, workload: Workload, rule: Rule) -> Outcome:
    """Run a job by a rule through a trace, from time 0 to its end."""
    return _World(trace, workload, rule).run()


class _World:
    """The state of the world, and the events that change it; each says whether to decide again."""

    def __init__(self, trace: Trace, workload: Workload, rule: Rule) -> None:
        self.trace, self.workload, self.rule = trace, workload, rule
        self.now = 0.0
        self.ledger = Ledger()
        self.done = self.saved = 0.0
        self.here: _Machine | None = None
        self.pending: _Machine | None = None
        self.idle_until = 0.0
        """The machine that is here trains from then on: it restores, or stages a checkpoint."""
        self.restoring = False
        self.upload: tuple[float, float] | None = None
        """When the checkpoint on its way will be safe, and the work in it."""
        self.last_save = 0.0
        self.decision = Decision(Action.WAIT, 0.0)
        self.priced = 0.0
        self._publish_prices()

    def _publish_prices(self) -> None:
        at = self.trace.start
        while at <= 0:
            self.rule.memory.priced([market.spot(at) for market in self.trace.markets], at)
            at += HOUR

    def run(self) -> Outcome:
        for _ in range(_STEPS):
            if self.done >= self.workload.work_s:
                return self._outcome()
            self._decide()
            self._until_something_happens()
        raise SpotError(f"the rule goes round in circles at {self.now:.0f} s of {self.trace.name}")

    def _outcome(self) -> Outcome:
        """The last checkpoint is the result."""
        if self.here is not None:
            place = self.here.offer.place
            self.now += self.workload.stage_s + self.workload.upload_s(place)
            self.ledger.transfer(self.workload.upload_cost(place))
            self._account(self.here)
        if self.pending is not None:
            self._account(self.pending)
        deadline = self.workload.deadline
        missed = deadline is not None and self.now > deadline
        return Outcome(self.ledger.total, self.now, missed, self.ledger)

    # --- deciding --------------------------------------------------------------------------------

    def _decide(self) -> None:
        offers = self.trace.offers(self.now)
        if self.now - self.priced >= HOUR:
            self.rule.memory.priced(offers, self.now)
            self.priced = self.now
        if self.here is not None:
            self._account(self.here)
        view = View(
            now=self.now,
            workload=self.workload,
            progress=Progress(self.done, self.saved),
            offers=offers,
            running=self._offer_now(self.here),
            pending=self._offer_now(self.pending),
            lost_at=self.here.lost_at if self.here is not None and self.here.noticed else None,
        )
        self.decision = decision = self.rule.decide(view)
        if decision.action is Action.PAUSE:
            self._pause()
        elif decision.offer is not None and decision.action is Action.LAUNCH:
            self._launch(decision.offer)
        elif decision.offer is not None and decision.action is Action.MOVE:
            self.pending = self.pending or self._ask(decision.offer)

    def _offer_now(self, machine: _Machine | None) -> Offer | None:
        if machine is None or not machine.offer.spot:
            return machine.offer if machine is not None else None
        return self.trace.market(machine.offer.place).spot(self.now)

    def _launch(self, offer: Offer) -> None:
        machine = self._ask(offer)
        if machine is None:
            self.now += REFUSAL_S
        else:
            self._take(machine)

    def _ask(self, offer: Offer) -> _Machine | None:
        market = self.trace.market(offer.place)
        if offer.spot and not market.gives(self.now):
            self.rule.memory.refused(offer, self.now, Refusal.STOCK_OUT)
            return None
        self.rule.memory.given(offer, self.now)
        self.ledger.starts += 1
        loss = market.next_loss(self.now) if offer.spot else None
        return _Machine(offer, self.now, loss, self.now + self.workload.boot_s)

    def _take(self, machine: _Machine) -> None:
        """This machine is the job's now; it restores as soon as it is ready."""
        self.here, self.upload, self.restoring = machine, None, True
        restore_s = self.workload.restore_s(machine.offer.place)
        self.idle_until = self.last_save = max(machine.ready, self.now) + restore_s

    def _pause(self) -> None:
        here = self.here
        if here is not None and self._save_and_stop(here):
            self.here = None

    # --- time ------------------------------------------------------------------------------------

    def _until_something_happens(self) -> None:
        if self.here is None and self.decision.action is not Action.LAUNCH:
            self.now = max(self.decision.review_at, self.now + 1.0)
        while self.here is not None:
            at, happen = min(self._events(self.here), key=lambda event: event[0])
            at = max(at, self.now)
            self._train(self.here, at)
            self.now = at
            if happen(self.here):
                return

    def _events(self, here: _Machine) -> Iterator[tuple[float, Callable[[_Machine], bool]]]:
        """What comes next, the first of those at one time first."""
        if self.restoring:
            yield self.idle_until, self._restored
        else:
            left = self.workload.work_s - self.done
            yield max(self.idle_until, self.now) + left / here.offer.speed, self._review
            if self.upload is not None:
                yield self.upload[0], self._uploaded
            elif self.decision.interval_s is not None:
                yield self.last_save + self.decision.interval_s, self._save
            if here.noticed and self.decision.saves_on_notice and not here.tried:
                yield self.now, self._save_on_notice
        if here.loss is not None and here.loss.notice_s and not here.noticed:
            yield here.loss.at - here.loss.notice_s, self._notice
        yield here.lost_at, self._lost
        if self.pending is not None:
            yield self.pending.lost_at, self._pending_lost
            yield self.pending.ready, self._move
        yield max(self.decision.review_at, self.now + 1.0), self._review

    def _train(self, here: _Machine, until: float) -> None:
        if not self.restoring:
            active = until - max(self.now, self.idle_until)
            self.done += max(active, 0.0) * here.offer.speed
            if self.workload.work_s - self.done < 1e-6:
                self.done = self.workload.work_s

    # --- events ----------------------------------------------------------------------------------

    def _review(self, here: _Machine) -> bool:
        return True

    def _restored(self, here: _Machine) -> bool:
        self.ledger.transfer(self.workload.restore_cost(here.offer.place))
        self.restoring = False
        return False

    def _save(self, here: _Machine) -> bool:
        place = here.offer.place
        self.idle_until = self.last_save = self.now + self.workload.stage_s
        self.upload = (self.idle_until + self.workload.upload_s(place), self.done)
        self.ledger.transfer(self.workload.upload_cost(place))
        return False

    def _uploaded(self, here: _Machine) -> bool:
        if self.upload is not None:
            self.saved = max(self.saved, self.upload[1])
        self.upload = None
        return False

    def _notice(self, here: _Machine) -> bool:
        here.noticed = True
        return True

    def _save_on_notice(self, here: _Machine) -> bool:
        here.tried = True
        if not self._save_and_stop(here):
            return False
        # Given back when it is safe; what is asked for there before the loss would be lost with it.
        self.now = max(self.now, here.lost_at)
        self.rule.memory.lost(here.offer, self.now)
        self.ledger.lose(0.0)
        self._replace()
        return True

    def _lost(self, here: _Machine) -> bool:
        self._account(here)
        self.rule.memory.lost(here.offer, self.now)
        self.ledger.lose(self.done - self.saved)
        self.done = self.saved
        self._replace()
        return True

    def _pending_lost(self, here: _Machine) -> bool:
        if self.pending is not None:
            self._account(self.pending)
            self.rule.memory.lost(self.pending.offer, self.now)
            self.ledger.lose(0.0)
        self.pending = None
        return True

    def _move(self, here: _Machine) -> bool:
        """The machine beside this one is ready: save here, restore there."""
        if not self._save_and_stop(here):
            return self._lost_while_saving(here)
        self._replace()
        return True

    def _lost_while_saving(self, here: _Machine) -> bool:
        self.now = max(here.lost_at, self.now)
        return self._lost(here)

    def _save_and_stop(self, here: _Machine) -> bool:
        """A checkpoint of now, waited for; false where the machine is taken before it is safe."""
        place = here.offer.place
        if not self.restoring and self.done > self.saved:
            safe_at = self.now + self.workload.stage_s + self.workload.upload_s(place)
            if safe_at > here.lost_at:
                return False
            self.ledger.transfer(self.workload.upload_cost(place))
            self.saved, self.now = self.done, safe_at
        self._account(here)
        return True

    def _replace(self) -> None:
        self.here, machine, self.pending = None, self.pending, None
        if machine is not None:
            self._take(machine)

    def _account(self, machine: _Machine) -> None:
        """Charge a machine until now, and tell the rule how long it was up."""
        seconds = self.now - machine.charged
        if seconds <= 0:
            return
        offer = machine.offer
        price = offer.price if not offer.spot else self._price(machine)
        self.ledger.run(seconds, price, machines=self.workload.machines, spot=offer.spot)
        self.rule.memory.ran(offer, seconds, self.now)
        machine.charged = self.now

    def _price(self, machine: _Machine) -> float:
        return self.trace.market(machine.offer.place).price(machine.charged)
