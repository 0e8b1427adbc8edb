"""One step of placement."""

from __future__ import annotations

from dataclasses import replace

import pytest

from corral.spot import (
    HOUR,
    Action,
    Home,
    Memory,
    NoOffers,
    Offer,
    Place,
    PlannerSettings,
    Progress,
    Refusal,
    View,
    Workload,
    decide,
)
from corral.spot.timeprice import price_of_time

HOME = Home("aws", "us-east-1")
NEAR = Place("aws", "us-east-1", "us-east-1a", "gpu")
NEAR_B = Place("aws", "us-east-1", "us-east-1b", "gpu")
OTHER = Place("aws", "us-west-2", "us-west-2a", "gpu")
FAR = Place("gcp", "us-central1", "us-central1-a", "gpu")
SURE = Offer(NEAR, 30.0, spot=False)
WORK = Workload(work_s=24 * HOUR, home=HOME, deadline=48 * HOUR)


def spot(place: Place, price: float, *, hazard: float = 0.05, speed: float = 1.0) -> Offer:
    return Offer(place, price, speed=speed, published_hazard=hazard)


def view(*offers: Offer, **changed: object) -> View:
    base = View(now=0.0, workload=WORK, progress=Progress(), offers=[*offers, SURE])
    return replace(base, **changed)  # type: ignore[arg-type]


def test_the_cheapest_place_is_asked_first() -> None:
    decision = decide(view(spot(NEAR, 10.0), spot(NEAR_B, 9.0)), Memory())
    assert decision.action is Action.LAUNCH
    assert decision.offer is not None
    assert decision.offer.place == NEAR_B
    assert decision.interval_s is not None
    assert 0 < decision.expected_cost < 24 * 30


def test_a_risky_place_must_be_much_cheaper() -> None:
    calm, risky = spot(NEAR, 10.0, hazard=0.01), spot(NEAR_B, 9.5, hazard=2.0)
    decision = decide(view(calm, risky), Memory())
    assert decision.offer == calm
    bargain = spot(NEAR_B, 4.0, hazard=2.0)
    assert decide(view(calm, bargain), Memory()).offer == bargain


def test_transfers_count() -> None:
    big = replace(WORK, checkpoint_gib=200.0)
    near, far = spot(NEAR, 10.0, hazard=0.3), spot(FAR, 9.0, hazard=0.3)
    assert decide(view(near, far, workload=big), Memory()).offer == near
    light = replace(WORK, checkpoint_gib=0.1)
    assert decide(view(near, far, workload=light), Memory()).offer == far


def test_a_place_that_refused_is_left_alone_and_then_asked_again() -> None:
    memory, cheap, dear = Memory(), spot(NEAR, 9.0), spot(NEAR_B, 9.1)
    memory.refused(cheap, 0.0, Refusal.STOCK_OUT)
    assert decide(view(cheap, dear, now=1.0), memory).offer == dear
    later = memory.blocks.until(NEAR)
    assert decide(view(cheap, dear, now=later), memory).offer == cheap


def test_nothing_to_be_had_is_waited_for_while_there_is_time() -> None:
    memory, only = Memory(), spot(NEAR, 9.0)
    memory.refused(only, 0.0, Refusal.QUOTA)
    decision = decide(view(only, now=1.0), memory)
    assert decision.action is Action.WAIT
    assert 1.0 < decision.review_at <= memory.blocks.until(NEAR)


def test_the_guard_goes_on_demand_and_stays_while_there_is_no_time() -> None:
    late = 48 * HOUR - 24.2 * HOUR
    offers = (spot(NEAR, 9.0),)
    decision = decide(view(*offers, now=late), Memory())
    assert (decision.action, decision.offer) == (Action.LAUNCH, SURE)
    running = decide(view(*offers, now=late, running=offers[0]), Memory())
    assert (running.action, running.offer) == (Action.MOVE, SURE)
    there = view(*offers, now=late, running=SURE, progress=Progress(HOUR / 2, 0.0))
    assert decide(there, Memory()).action is Action.STAY


def test_it_comes_back_from_on_demand_when_there_is_time_again() -> None:
    cheap = spot(NEAR, 9.0)
    ahead = Progress(20 * HOUR, 20 * HOUR)
    decision = decide(view(cheap, now=30 * HOUR, running=SURE, progress=ahead), Memory())
    assert (decision.action, decision.offer) == (Action.MOVE, cheap)


def test_without_a_deadline_on_demand_is_never_needed() -> None:
    free = replace(WORK, deadline=None)
    memory, only = Memory(), spot(NEAR, 9.0)
    memory.refused(only, 0.0, Refusal.QUOTA)
    decision = decide(view(only, now=1e9, workload=free), memory)
    assert decision.action is Action.LAUNCH
    memory.refused(only, 1e9, Refusal.QUOTA)
    assert decide(view(only, now=1e9 + 1, workload=free), memory).action is Action.WAIT


def test_only_machines_on_demand_are_used_where_there_are_no_others() -> None:
    decision = decide(view(), Memory())
    assert (decision.action, decision.offer) == (Action.LAUNCH, SURE)


def test_a_move_must_pay() -> None:
    here, little, much = spot(NEAR, 10.0), spot(NEAR_B, 9.95), spot(NEAR_B, 6.0)
    assert decide(view(here, little, running=here), Memory()).action is Action.STAY
    decision = decide(view(here, much, running=here), Memory())
    assert (decision.action, decision.offer) == (Action.MOVE, much)
    coming = view(here, much, running=here, pending=much)
    assert decide(coming, Memory()).action is Action.STAY
    nearly = Progress(WORK.work_s - 300.0, WORK.work_s - 300.0)
    ending = view(here, much, running=here, progress=nearly)
    assert decide(ending, Memory()).action is Action.STAY


def test_cheap_hours_are_waited_for_if_the_deadline_allows() -> None:
    memory = Memory()
    for hour in range(72):
        memory.priced([spot(NEAR, 20.0 if hour % 24 < 12 else 8.0)], (hour - 72) * HOUR)
    dear = spot(NEAR, 20.0)
    patient = replace(WORK, work_s=8 * HOUR)
    assert decide(view(dear, workload=patient), memory).action is Action.WAIT
    running = decide(view(dear, workload=patient, running=dear), memory)
    assert running.action is Action.PAUSE
    urgent = replace(WORK, work_s=8 * HOUR, deadline=10 * HOUR)
    assert decide(view(dear, workload=urgent), memory).action is Action.LAUNCH


def test_a_slow_machine_is_not_taken_where_it_would_be_late() -> None:
    slow, fast = spot(NEAR, 4.0, speed=0.4), spot(NEAR_B, 12.0)
    tight = replace(WORK, deadline=30 * HOUR)
    assert decide(view(slow, fast, workload=tight), Memory()).offer == fast
    loose = replace(WORK, deadline=200 * HOUR)
    assert decide(view(slow, fast, workload=loose), Memory()).offer == slow


def test_a_notice_sends_it_elsewhere_and_saves_what_fits() -> None:
    here, other = replace(spot(NEAR, 9.0), notice_s=120.0), spot(OTHER, 10.0)
    told = view(here, other, running=here, lost_at=120.0, progress=Progress(HOUR, 0.0))
    decision = decide(told, Memory())
    assert (decision.action, decision.saves_on_notice) == (Action.STAY, True)
    memory = Memory()
    memory.lost(here, 0.0)
    memory.refused(here, 0.0, Refusal.STOCK_OUT)
    decision = decide(told, memory)
    assert (decision.action, decision.offer) == (Action.MOVE, other)
    short = replace(told, lost_at=25.0)
    assert not decide(short, memory).saves_on_notice


def test_work_is_saved_more_often_near_the_deadline() -> None:
    here = spot(NEAR, 9.0, hazard=0.001)
    early = decide(view(here, running=here), Memory())
    late = decide(view(here, now=23 * HOUR, running=here), Memory())
    assert early.interval_s is not None
    assert late.interval_s is not None
    assert late.interval_s < early.interval_s


def test_an_interval_that_was_set_is_kept() -> None:
    settings = PlannerSettings(interval_s=1800.0)
    assert decide(view(spot(NEAR, 9.0)), Memory(), settings).interval_s == 1800.0


def test_it_decides_the_same_again() -> None:
    seen = view(spot(NEAR, 9.0), spot(OTHER, 8.9), spot(FAR, 8.0))
    assert decide(seen, Memory()) == decide(seen, Memory())


def test_no_offers_is_an_error() -> None:
    with pytest.raises(NoOffers, match="zone"):
        decide(View(0.0, WORK, Progress(), []), Memory())


@pytest.mark.parametrize(
    ("allowed", "price"), [(3.0, 0.0), (2.0, 0.0), (1.5, 4.0), (1.0, 10.0), (0.5, 10.0)]
)
def test_the_price_of_time_is_the_slope_of_the_hull(allowed: float, price: float) -> None:
    machines = [(2.0, 6.0), (1.2, 9.2), (1.0, 11.2), (1.6, 12.0)]
    assert price_of_time(machines, allowed=allowed) == pytest.approx(price)
    assert price_of_time([], allowed=allowed) == 0.0
