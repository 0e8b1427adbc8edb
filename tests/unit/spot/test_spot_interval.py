"""Intervals and notices."""

from __future__ import annotations

from math import inf, sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.spot import checkpoint_interval, notice_allows, young_daly


def waste(tau: float, cost: float, mtbf: float) -> float:
    """Daly's expected time per second of work, with an exponential time to the next loss."""
    from math import exp

    return mtbf * (exp((tau + cost) / mtbf) - 1) / tau


@pytest.mark.parametrize(("cost", "mtbf"), [(10.0, 3600.0), (60.0, 36000.0), (300.0, 7200.0)])
def test_no_other_interval_wastes_less(cost: float, mtbf: float) -> None:
    best = young_daly(cost, mtbf)
    least = waste(best, cost, mtbf)
    for factor in (0.5, 0.8, 1.25, 2.0):
        assert waste(best * factor, cost, mtbf) > least


@given(st.floats(1.0, 600.0), st.floats(1e3, 1e7))
def test_it_is_near_youngs_square_root(cost: float, mtbf: float) -> None:
    if cost < mtbf / 200:
        assert young_daly(cost, mtbf) == pytest.approx(sqrt(2 * cost * mtbf), rel=0.1)


def test_extremes() -> None:
    assert young_daly(10.0, inf) == inf
    assert young_daly(100.0, 40.0) == 40.0


def options(**changed: float) -> dict[str, float]:
    return {
        "stage_s": 10.0,
        "upload_s": 60.0,
        "upload_cost": 0.0,
        "per_second": 0.01,
        "hazard": 1 / 7200,
        **changed,
    }


def test_dear_transfers_make_checkpoints_rarer() -> None:
    free = checkpoint_interval(**options())
    assert checkpoint_interval(**options(upload_cost=1.0)) > 2 * free
    assert checkpoint_interval(**options(upload_cost=1.0, per_second=0.0)) == free


def test_it_is_within_its_limits() -> None:
    assert checkpoint_interval(**options(hazard=0.0)) == 4 * 3600
    assert checkpoint_interval(**options(hazard=10.0)) == 60.0
    assert checkpoint_interval(**options(upload_s=900.0)) >= 900.0
    assert checkpoint_interval(**options(hazard=0.0, upload_s=20000.0)) == 20000.0


@pytest.mark.parametrize(
    ("remaining", "allowed"), [(120.0, True), (80.1, True), (80.0, False), (30.0, False)]
)
def test_a_checkpoint_on_notice_must_fit(remaining: float, allowed: bool) -> None:
    assert notice_allows(remaining, stage_s=10.0, upload_s=60.0, margin_s=10.0) is allowed
