"""Traces, rules and the replay of one by the other."""

from __future__ import annotations

import json
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from corral.spot import (
    HOUR,
    RULES,
    SHAPES,
    Home,
    InvalidTrace,
    Loss,
    Market,
    Place,
    Trace,
    UnknownRule,
    Workload,
    cost_ratio,
    generate,
    job_of,
    outcomes,
    rule,
    simulate,
    summarize,
)
from corral.spot.simulate import REFUSAL_S
from tests.support.matrix import seeds

HOME = Home("aws", "us-east-1")
NEAR = Place("aws", "us-east-1", "us-east-1a", "gpu")
OTHER = Place("aws", "us-west-2", "us-west-2a", "gpu")
END = 200 * HOUR


def market(place: Place, price: float = 10.0, **changed: Any) -> Market:
    known: dict[str, Any] = {
        "on_demand_price": 30.0,
        "speed": 1.0,
        "notice_s": 120.0,
        "published_hazard": 0.05,
        "prices": ((0.0, price),),
        "available": ((0.0, END),),
        "losses": (),
    }
    return Market(place, **{**known, **changed})


def trace(*markets: Market) -> Trace:
    return Trace("made", 0.0, END, markets)


JOB = Workload(
    work_s=10 * HOUR, home=HOME, deadline=20 * HOUR, checkpoint_gib=10.0, stage_s=10.0, boot_s=240.0
)
START_S = 240.0 + 60.0 + 10.0
"""Boot, start, and ten GiB at one a second."""
LAST_SAVE_S = 10.0 + 10.0


def test_on_demand_costs_its_hours() -> None:
    done = simulate(trace(market(NEAR)), JOB, rule("on-demand"))
    saves = 10 * HOUR // 1800 - 1
    expected = START_S + 10 * HOUR + saves * 10.0 + LAST_SAVE_S
    assert done.makespan_s == pytest.approx(expected, abs=20.0)
    assert done.cost == pytest.approx(done.makespan_s / HOUR * 30.0)
    assert not done.missed
    assert (done.ledger.losses, done.ledger.starts) == (0, 1)


def test_an_undisturbed_spot_machine_costs_its_price() -> None:
    done = simulate(trace(market(NEAR)), JOB, rule("corral"))
    assert done.cost == pytest.approx(done.makespan_s / HOUR * 10.0)
    assert done.ledger.on_demand == 0.0


def test_a_loss_without_notice_costs_the_work_since_the_last_checkpoint() -> None:
    at = START_S + 1800.0 + 10.0 + 600.0
    lossy = market(NEAR, losses=(Loss(at, 0.0),))
    done = simulate(trace(lossy), JOB, rule("same-zone"))
    assert done.ledger.losses == 1
    assert done.ledger.lost_work_s == pytest.approx(600.0)
    assert done.ledger.starts == 2


def test_a_notice_saves_all_work_if_the_checkpoint_fits() -> None:
    at = START_S + 2 * HOUR
    told = market(NEAR, losses=(Loss(at, 120.0),))
    assert simulate(trace(told), JOB, rule("corral")).ledger.lost_work_s == 0.0
    untold = market(NEAR, losses=(Loss(at, 0.0),))
    assert simulate(trace(untold), JOB, rule("corral")).ledger.lost_work_s > 60.0
    deaf = simulate(trace(told), JOB, rule("same-zone"))
    assert deaf.ledger.lost_work_s > 60.0


def test_a_refusal_takes_its_time_and_then_the_next_place_is_asked() -> None:
    closed = market(NEAR, 5.0, available=((100 * HOUR, END),))
    hurried = replace(JOB, deadline=None)
    done = simulate(trace(closed, market(OTHER)), hurried, rule("corral"))
    direct = simulate(trace(market(OTHER)), hurried, rule("corral"))
    assert done.makespan_s == pytest.approx(direct.makespan_s + REFUSAL_S, abs=60.0)


def test_the_same_zone_waits_where_others_go() -> None:
    gone = 2 * HOUR
    lossy = market(NEAR, losses=(Loss(gone, 0.0),), available=((0.0, gone), (gone + 3 * HOUR, END)))
    where = trace(lossy, market(OTHER, 11.0))
    waits = simulate(where, JOB, rule("same-zone"))
    goes = simulate(where, JOB, rule("next-region"))
    assert waits.makespan_s > goes.makespan_s + 2 * HOUR
    assert goes.ledger.transfers > 0.0
    assert waits.ledger.transfers == 0.0


@pytest.mark.parametrize("name", list(RULES))
def test_every_rule_keeps_the_deadline_when_there_is_no_spot_machine(name: str) -> None:
    closed = market(NEAR, available=())
    done = simulate(trace(closed), JOB, rule(name))
    assert not done.missed
    assert done.ledger.on_demand == done.cost
    assert done.makespan_s <= 20 * HOUR


@pytest.mark.parametrize("name", list(RULES))
def test_every_rule_keeps_the_deadline_when_machines_are_lost_all_the_time(name: str) -> None:
    losses = tuple(Loss(900.0 * n, 0.0) for n in range(1, 700))
    done = simulate(trace(market(NEAR, losses=losses)), JOB, rule(name))
    assert not done.missed


def test_a_dear_place_is_left_for_a_cheap_one() -> None:
    rising = market(NEAR, prices=((0.0, 10.0), (HOUR, 25.0)))
    done = simulate(trace(rising, market(OTHER, 12.0)), JOB, rule("corral"))
    assert done.ledger.losses == 0
    assert done.ledger.starts == 2
    assert done.ledger.lost_work_s == 0.0
    assert done.cost < 11 * 15.0


@pytest.mark.parametrize("shape", SHAPES)
def test_generated_traces_are_sound_and_the_same_again(shape: str) -> None:
    made = generate(shape, 3, hours=48.0)
    written = json.loads(json.dumps(made.as_object()))
    assert Trace.of_object(written) == made
    assert generate(shape, 3, hours=48.0) == made
    assert generate(shape, 4, hours=48.0) != made
    clouds = {found.place.cloud for found in made.markets}
    assert clouds == {"aws", "gcp", "azure"}
    assert all(found.price(0.0) < found.on_demand_price for found in made.markets)
    assert any(found.losses for found in made.markets)


def test_regions_fail_together_in_scarce_traces() -> None:
    made = generate("scarce", 1)
    together = 0
    for hour in range(240):
        regions: dict[str, list[bool]] = {}
        for found in made.markets:
            regions.setdefault(found.place.region, []).append(found.gives(hour * HOUR))
        together += sum(not any(given) for given in regions.values())
    assert together > 20


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"format": "other"}, "format"),
        ({"markets": []}, "no markets"),
        ({"end": None}, "end"),
        ({"markets": [{"place": "a/b"}]}, "market 0"),
    ],
)
def test_a_trace_that_cannot_be_read_says_why(change: dict[str, Any], said: str) -> None:
    good = trace(market(NEAR)).as_object()
    with pytest.raises(InvalidTrace, match=said):
        Trace.of_object({**good, **change})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"prices": []}, "no price"),
        ({"speed": 0}, "speeds"),
        ({"prices": [[5, 1.0], [0, 1.0]]}, "order"),
        ({"available": [[0, 5], [9, 20]]}, "availability ends"),
    ],
)
def test_a_market_that_makes_no_sense_is_named(change: dict[str, Any], said: str) -> None:
    good = trace(market(NEAR)).as_object()
    good["markets"][0].update(change)
    with pytest.raises(InvalidTrace, match=f"{NEAR}.*{said}"):
        Trace.of_object(good)
    twice = trace(market(NEAR)).as_object()
    twice["markets"] *= 2
    with pytest.raises(InvalidTrace, match="twice"):
        Trace.of_object(twice)


def test_unknown_names_are_told_with_the_known_ones() -> None:
    with pytest.raises(UnknownRule, match="next-region"):
        rule("nearest")
    with pytest.raises(UnknownRule, match="scarce"):
        generate("calm", 1)


def test_ours_is_cheaper_than_every_rule_and_none_is_late() -> None:
    runs: dict[str, list[Any]] = {}
    for seed in (0,):
        for shape in SHAPES:
            for name, done in outcomes(shape, seed, list(RULES)).items():
                runs.setdefault(name, []).append(done)
    known = {name: summarize(found) for name, found in runs.items()}
    assert all(row.missed == 0 for row in known.values())
    ours = known.pop("corral").cost
    assert min(row.cost for row in known.values()) > 1.05 * ours


def test_a_replay_is_the_same_again() -> None:
    made = generate("bursty", 5, hours=120.0)
    job = job_of(made, 5)
    assert simulate(made, job, rule("corral")) == simulate(made, job, rule("corral"))


def test_the_ratio_is_between_its_limits() -> None:
    ratio = cost_ratio({"a": [12.0, 15.0, 11.0]}, {"a": [10.0, 10.0, 10.0]}, resamples=200)
    assert ratio.value == pytest.approx(38 / 30)
    assert 1.1 <= ratio.low <= ratio.value <= ratio.high <= 1.5


def harsh(seed: int) -> Trace:
    """Two zones that come, go and take machines at random, often at once."""
    rng = Random(seed)
    markets = []
    for place in (NEAR, OTHER):
        at, spans, losses = 0.0, [], []
        while at < END:
            start, end = at, at + rng.expovariate(1 / (3 * HOUR))
            spans.append((start, end))
            between = sorted(rng.uniform(start, end) for _ in range(rng.randrange(3)))
            losses += [Loss(t, rng.choice((0.0, 30.0, 120.0))) for t in (*between, end)]
            at = end + rng.expovariate(1 / HOUR)
        prices = tuple((hour * HOUR, rng.uniform(5.0, 29.0)) for hour in range(200))
        spans = tuple(spans)
        markets.append(market(place, prices=prices, available=spans, losses=tuple(losses)))
    return trace(*markets)


@pytest.mark.parametrize("seed", seeds(12, always=4))
def test_whatever_happens_the_deadline_is_kept_and_every_second_is_paid_once(seed: int) -> None:
    rng = Random(seed)
    job = replace(JOB, deadline=JOB.work_s * rng.uniform(1.1, 2.0) + HOUR)
    for name in ("corral", "next-region"):
        done = simulate(harsh(seed), job, rule(name))
        ledger = done.ledger
        assert not done.missed
        assert done.cost == ledger.total <= done.makespan_s / HOUR * 30.0 * 1.3 + 20.0
        trained = ledger.machine_s - ledger.lost_work_s
        assert trained > JOB.work_s
        assert ledger.losses <= ledger.starts
