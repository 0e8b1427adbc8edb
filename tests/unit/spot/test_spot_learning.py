"""What placement learns: losses, answers, prices, blocks; and that all of it can be kept."""

from __future__ import annotations

import json

import pytest

from corral.spot import (
    HOUR,
    Blocks,
    HazardHistory,
    InvalidTrace,
    Ledger,
    Memory,
    Offer,
    Place,
    PriceHistory,
    Refusal,
)

A = Place("aws", "us-east-1", "us-east-1a", "8xA100")
B = Place("aws", "us-east-1", "us-east-1b", "8xA100")
FAR = Place("gcp", "us-central1", "us-central1-a", "8xA100")


def test_a_published_rate_is_believed_until_there_is_better() -> None:
    history = HazardHistory()
    assert history.rate(A, 0.0, published=0.5) == pytest.approx(0.5)
    assert history.rate(A, 0.0) == pytest.approx(history.settings.default_rate)
    for hour in range(200):
        history.ran(A, HOUR, hour * HOUR, published=0.5)
    assert history.rate(A, 200 * HOUR, published=0.5) < 0.1


def test_losses_raise_the_rate_of_the_place_and_for_hours_that_of_its_region() -> None:
    history = HazardHistory()
    history.lost(A, 0.0)
    history.lost(A, 0.0)
    at_once = history.rate(A, 0.0, published=0.05)
    assert at_once > 0.2
    assert history.rate(B, 0.0, published=0.05) > 0.1
    assert history.rate(FAR, 0.0, published=0.05) == pytest.approx(0.05)
    a_day_later = history.rate(B, 24 * HOUR, published=0.05)
    assert a_day_later == pytest.approx(0.05, rel=0.05)
    assert history.rate(A, 24 * HOUR, published=0.05) > 2 * a_day_later


def test_old_losses_fade() -> None:
    history = HazardHistory()
    history.lost(A, 0.0)
    rates = [history.rate(A, day * 24 * HOUR, published=0.05) for day in (1, 7, 30, 90)]
    assert rates == sorted(rates, reverse=True)
    assert rates[-1] == pytest.approx(0.05, rel=0.01)


def test_a_region_is_never_believed_to_be_worse_than_the_limit() -> None:
    history = HazardHistory()
    for _ in range(100):
        history.lost(A, 0.0)
    assert history.burst(B, 0.0) == history.settings.burst_limit


def test_answers_fade_into_what_was_thought_before() -> None:
    history = HazardHistory()
    before = history.given(A, 0.0)
    for _ in range(5):
        history.answered(A, 0.0, given=False)
    assert history.given(A, 0.0) < before / 2
    assert history.given(A, 5 * 24 * HOUR) == pytest.approx(before, rel=0.01)
    history.answered(B, 0.0, given=True)
    assert history.given(B, 0.0) > before


def test_prices_fade_into_what_the_hour_is_like() -> None:
    prices = PriceHistory()
    for hour in range(72):
        prices.observe(A, hour * HOUR, 20.0 if hour % 24 == 12 else 10.0)
    now = 71 * HOUR
    at_noon = prices.forecast(A, now + 13.5 * HOUR, now=now, price=10.0)
    assert at_noon == pytest.approx(20.0)
    assert prices.forecast(A, now, now=now, price=15.0) == pytest.approx(15.0)
    assert prices.forecast(A, now + 8 * HOUR, now=now, price=15.0) < 11.5
    assert prices.mean(A, 24 * HOUR, now=now, price=10.0) == pytest.approx(10.0 + 10 / 24, rel=0.01)


def test_an_unknown_place_keeps_its_price() -> None:
    assert PriceHistory().forecast(FAR, 5 * HOUR, now=0.0, price=7.0) == 7.0


@pytest.mark.parametrize(
    ("why", "blocked", "free"),
    [
        (Refusal.STOCK_OUT, [A], [B, FAR]),
        (Refusal.QUOTA, [A, B], [FAR]),
        (Refusal.ACCOUNT, [A, B], [FAR]),
    ],
)
def test_a_refusal_blocks_what_it_is_about(
    why: Refusal, blocked: list[Place], free: list[Place]
) -> None:
    blocks = Blocks()
    until = blocks.refuse(A, 0.0, why)
    assert all(blocks.blocked(place, 1.0) for place in blocked)
    assert not any(blocks.blocked(place, 1.0) for place in free)
    assert not any(blocks.blocked(place, until) for place in blocked)
    on_demand = blocks.blocked(A, 1.0, spot=False)
    assert on_demand is (why is Refusal.ACCOUNT)


def test_refusals_in_a_row_block_longer_up_to_a_limit_and_a_machine_ends_it() -> None:
    blocks = Blocks()
    lengths, now = [], 0.0
    for _ in range(8):
        until = blocks.refuse(A, now, Refusal.STOCK_OUT)
        lengths.append(until - now)
        now = until
    assert lengths[1] == 2 * lengths[0]
    assert lengths[-1] == lengths[-2]
    blocks.give(A)
    assert not blocks.blocked(A, now - 1)
    assert blocks.refuse(A, now, Refusal.STOCK_OUT) - now == lengths[0]


def test_a_refusal_of_a_wrong_clock_blocks_nothing_once_it_is_right() -> None:
    blocks, ahead = Blocks(), 2 * 365 * 24 * HOUR
    blocks.refuse(A, ahead, Refusal.STOCK_OUT)
    assert blocks.blocked(A, ahead)
    assert not blocks.blocked(A, 0.0)
    assert blocks.refuse(A, 0.0, Refusal.STOCK_OUT) <= HOUR
    assert blocks.blocked(A, 0.0)


def test_memory_is_kept_as_json() -> None:
    memory = Memory()
    offer = Offer(A, 9.5, published_hazard=0.1)
    memory.priced([offer, Offer(A, 30.0, spot=False)], 0.0)
    memory.given(offer, 0.0)
    memory.ran(offer, HOUR, HOUR)
    memory.lost(offer, HOUR)
    memory.refused(offer, HOUR, Refusal.STOCK_OUT)
    kept = json.loads(json.dumps(memory.as_object()))
    again = Memory.of_object(kept)
    now = 2 * HOUR
    assert again.as_object() == memory.as_object()
    assert again.hazard_of(offer, now) == memory.hazard_of(offer, now)
    assert again.blocks.until(A) == memory.blocks.until(A)
    assert again.hazard.places() == [A]


def test_machines_on_demand_teach_nothing_about_spot() -> None:
    memory = Memory()
    sure = Offer(A, 30.0, spot=False)
    memory.given(sure, 0.0)
    memory.ran(sure, HOUR, HOUR)
    memory.lost(sure, HOUR)
    memory.refused(sure, HOUR, Refusal.STOCK_OUT)
    assert memory.hazard_of(sure, HOUR) == 0.0
    assert memory.hazard.as_object() == {}
    assert not memory.blocks.blocked(A, HOUR + 1)
    assert memory.blocks.blocked(A, HOUR + 1, spot=False)


@pytest.mark.parametrize(
    "broken",
    [
        {"hazard": {"hours": {"a/b/c/d": "no"}}},
        {"hazard": {"nonsense": {"a/b/c/d": [1.0, 0.0]}}},
        {"prices": {"a/b/c/d": {"hours": [1.0], "last": [0, 1]}}},
        {"prices": {"not a place": {"hours": [None] * 24, "last": [0, 1]}}},
        {"blocks": {"stock/spot/x": [1]}},
        {"blocks": []},
    ],
)
def test_a_memory_that_cannot_be_read_is_refused(broken: dict[str, object]) -> None:
    if broken == {"blocks": []}:
        assert Memory.of_object(broken).blocks.as_object() == {}
        return
    with pytest.raises(InvalidTrace):
        Memory.of_object(broken)


def test_the_ledger_adds_up() -> None:
    ledger = Ledger()
    ledger.run(HOUR, 10.0, machines=2)
    ledger.run(HOUR / 2, 60.0, spot=False)
    ledger.transfer(1.5)
    ledger.lose(120.0)
    assert (ledger.spot, ledger.on_demand, ledger.total) == (20.0, 30.0, 51.5)
    assert ledger.machine_s == 2.5 * HOUR
    assert ledger.saving(103.0) == pytest.approx(0.5)
    assert ledger.saving(0.0) == 0.0
    assert Ledger.of_object(ledger.as_object()) == ledger
    with pytest.raises(InvalidTrace):
        Ledger.of_object({"spot": "much"})
