"""Which checkpoints a policy keeps."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.checkpoints import Best, Manifest, Retention, select
from corral.checkpoints.retention import parse_duration


def made(sequence: int, loss: float | None = None, parent: int | None = None) -> Manifest:
    return Manifest(
        id=f"step-{sequence}.a",
        step=sequence,
        time=100.0 * sequence,
        files=(),
        sequence=sequence,
        metrics={} if loss is None else {"loss": loss},
        parent=None if parent is None else f"step-{parent}.a",
    )


def kept(policy: Retention, *manifests: Manifest, now: float = 1e4, pinned: str = "") -> list[int]:
    plan = select(manifests, policy, now=now, pinned=[pinned])
    assert set(plan.keep) | {m.id for m in plan.delete} == {m.id for m in manifests}
    assert not set(plan.keep) & {m.id for m in plan.delete}
    assert [m.step for m in plan.delete] == sorted(m.step for m in plan.delete)
    return sorted(m.step for m in manifests if m.id in plan.keep)


TEN = [made(n, loss=abs(n - 4)) for n in range(1, 11)]


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (Retention(), list(range(1, 11))),
        (Retention(keep_last=3), [8, 9, 10]),
        (Retention(keep_every=4), [4, 8, 10]),
        (Retention(keep_best=Best("loss")), [4, 10]),
        (Retention(keep_best=Best("loss", count=3)), [3, 4, 5, 10]),
        (Retention(keep_best=Best("loss", "max")), [10]),
        (Retention(keep_best=Best("accuracy")), [10]),
        (Retention(max_age=250.0), [8, 9, 10]),
        (Retention(keep_last=2, keep_every=5, keep_best=Best("loss")), [4, 5, 9, 10]),
        (Retention(keep_last=5, max_age=250.0), [8, 9, 10]),
        (Retention(keep_last=1, keep_every=3, max_age=450.0), [6, 9, 10]),
    ],
)
def test_rules(policy: Retention, expected: list[int]) -> None:
    assert kept(policy, *TEN, now=1000.0) == expected


def test_the_newest_stays_however_old() -> None:
    assert kept(Retention(max_age=1.0), *TEN, now=1e9) == [10]


def test_pins_and_parents_stay() -> None:
    chain = [made(1), made(2, parent=1), made(3), made(4, parent=2)]
    assert kept(Retention(keep_last=1), *chain) == [1, 2, 4]
    assert kept(Retention(keep_last=1), *TEN, pinned="step-2.a") == [2, 10]


def test_a_cycle_of_parents_ends() -> None:
    assert kept(Retention(keep_last=1), made(1, parent=2), made(2, parent=1)) == [1, 2]


def test_nan_is_never_the_best_and_the_newest_of_equals_is() -> None:
    some = [made(1, 0.5), made(2, 0.5), made(3, math.nan), made(4, 2.0), made(5)]
    assert kept(Retention(keep_best=Best("loss")), *some) == [2, 5]


def test_nothing_to_do() -> None:
    assert kept(Retention(keep_last=1)) == []


policies = st.builds(
    Retention,
    keep_last=st.none() | st.integers(1, 5),
    keep_every=st.none() | st.integers(1, 5),
    keep_best=st.none()
    | st.builds(
        Best, st.sampled_from(["loss", "other"]), st.sampled_from(["min", "max"]), st.integers(1, 3)
    ),
    max_age=st.none() | st.floats(1, 2000),
)
histories = st.lists(st.floats() | st.none(), max_size=20).map(
    lambda losses: [made(n, loss) for n, loss in enumerate(losses, 1)]
)


@given(histories, policies, st.floats(0, 3000))
def test_every_rule_is_kept_to(history: list[Manifest], policy: Retention, now: float) -> None:
    steps = set(kept(policy, *history, now=now))
    if not history:
        return
    assert history[-1].step in steps
    young = [m for m in history if policy.max_age is None or now - m.time <= policy.max_age]
    if policy.keep_last:
        assert {m.step for m in history[-policy.keep_last :] if m in young} <= steps
    if policy.keep_every:
        assert {m.step for m in young if m.step % policy.keep_every == 0} <= steps
    if policy.max_age is not None:
        assert steps <= {m.step for m in young} | {history[-1].step}
    rules = (policy.keep_last or 0) + (policy.keep_best.count if policy.keep_best else 0)
    if policy.keep_every is None and rules:
        assert len(steps) <= rules + 1


@given(histories, policies, st.floats(0, 3000))
def test_pruning_twice_changes_nothing(
    history: list[Manifest], policy: Retention, now: float
) -> None:
    first = kept(policy, *history, now=now)
    survivors = [m for m in history if m.step in first]
    assert kept(policy, *survivors, now=now) == first


def test_from_the_api() -> None:
    spec = {
        "keepLast": 3,
        "keepEvery": 10,
        "keepBest": {"metric": "loss", "mode": "min"},
        "maxAge": "168h",
    }
    expected = Retention(3, 10, Best("loss", "min"), 7 * 86400.0)
    assert Retention.from_spec(spec) == expected
    assert Retention.from_spec({}) == Retention()


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("1h30m", 5400), ("1.5h", 5400), ("2d", 172800), (30, 30)]
)
def test_durations(text: str | float, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "10", "h", "1h 30m", "-1h", "1w"])
def test_bad_durations(text: str) -> None:
    with pytest.raises(ValueError, match="no duration"):
        parse_duration(text)


@pytest.mark.parametrize(
    "spec",
    [
        {"keepLast": 0},
        {"keepEvery": -1},
        {"keepBest": {"metric": "loss", "mode": "avg"}},
        {"maxAge": "0s"},
    ],
)
def test_bad_policies(spec: dict[str, object]) -> None:
    with pytest.raises(ValueError):
        Retention.from_spec(spec)
