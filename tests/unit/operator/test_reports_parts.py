"""The parts of the report endpoint that need no server: bodies, limits, plans, rates."""

from __future__ import annotations

import json
from typing import Any

import pytest

from corral.families.trainingjob.checkpoints.summaries import JOB_UID, TIME
from corral.kube.types import Obj
from corral.operator.reports.bodies import Commit, Report, UploadRequest, parsed
from corral.operator.reports.errors import Fenced, Malformed, TooMany
from corral.operator.reports.limits import BodyLimits, PodLimits
from corral.operator.reports.plans import PLAN, Plan, interval_of, next_plan, plan_of
from corral.operator.reports.progress import Rate, progress_of

DIGEST = "a" * 64


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


# --- bodies ------------------------------------------------------------------------------------


def test_metrics_that_are_no_numbers_are_left_out() -> None:
    report = parsed(Report, b'{"step": 1, "metrics": {"a": NaN, "b": Infinity, "c": 2, "d": null}}')
    assert report.metrics == {"c": 2.0}


def test_unknown_members_are_ignored() -> None:
    assert parsed(Report, b'{"step": 3, "time": 12.5, "mood": "good"}').step == 3
    assert parsed(Report, b"").step is None
    assert progress_of(parsed(Report, b'{"epoch": 2.75}'), None, 0.0)["epoch"] == 2


@pytest.mark.parametrize(
    ("model", "body", "wrong"),
    [
        (Report, b"{", "not JSON"),
        (Report, b"[" * 100_000, "not JSON"),
        (Report, b'{"step": "3"}', "step"),
        (Report, b'{"step": true}', "step"),
        (Report, b'{"metrics": {"loss": "low"}}', "metrics.loss"),
        (Report, json.dumps({"metrics": {str(n): n for n in range(65)}}).encode(), "metrics"),
        (Report, b'{"rejected": [{"reason": "x"}]}', "rejected.0.id"),
        (UploadRequest, b'{"step": 1}', "files"),
        (UploadRequest, b'{"step": 1, "of": 0, "files": []}', "of"),
        (Commit, b'{"files": [{"path": "x", "size": 1, "sha256": "y"}]}', "files.0.sha256"),
    ],
)
def test_malformed(model: Any, body: bytes, wrong: str) -> None:
    with pytest.raises(Malformed, match=wrong):
        parsed(model, body)


def test_fenced_says_so() -> None:
    assert Fenced("over").body() == {"error": "over", "fenced": True}


# --- limits ------------------------------------------------------------------------------------


def test_a_namespace_has_a_share_of_the_memory_for_bodies() -> None:
    limits = BodyLimits(per_namespace=100, in_all=150)
    with limits.room("a", 60), limits.room("a", 40), limits.room("b", 50):
        with pytest.raises(TooMany, match="namespace a has 100 bytes"), limits.room("a", 1):
            pass
        with pytest.raises(TooMany, match="namespace c has 0 bytes"), limits.room("c", 1):
            pass
    with limits.room("a", 100):
        pass


def test_each_pod_has_its_own_limit() -> None:
    clock = Clock()
    limits = PodLimits(2.0, clock=clock)
    for pod in ("a", "a", "b"):
        limits.take(pod)
    with pytest.raises(TooMany, match="2 requests a second"):
        limits.take("a")
    limits.take("b")
    clock.now = 0.5
    limits.take("a")
    with pytest.raises(TooMany):
        limits.take("a")


# --- progress ----------------------------------------------------------------------------------


def test_rate() -> None:
    rate = Rate()
    assert rate.per_second(0.0) is None
    rate.observe(1, 10, 0.0)
    assert rate.per_second(1.0) is None
    rate.observe(1, 10, 1.0)
    assert rate.per_second(1.0) is None, "no step was made"
    rate.observe(1, 30, 4.0)
    assert rate.per_second(4.0) == 5.0
    assert rate.per_second(40.0) < 1.0, "it stands still"  # type: ignore[operator]
    rate.observe(2, 12, 50.0)
    assert rate.per_second(50.0) is None, "another attempt began at an earlier step"


@pytest.mark.parametrize(
    ("report", "rate", "expected"),
    [
        ({"step": 50, "total": 200}, 10.0, {"percent": 25, "etaSeconds": 15}),
        ({"step": 50, "total": 200}, None, {"percent": 25}),
        ({"step": 200, "total": 200}, None, {"percent": 100, "etaSeconds": 0}),
        ({"step": 300, "total": 200}, 1.0, {"percent": 100, "etaSeconds": 0}),
        ({"step": 199, "total": 200}, 1.0, {"percent": 99, "etaSeconds": 1}),
        ({"step": 5, "total": 0}, 1.0, {}),
        ({"step": 5}, 1.0, {}),
        ({}, 1.0, {}),
    ],
)
def test_progress(report: Obj, rate: float | None, expected: Obj) -> None:
    found = progress_of(Report(**report), rate, 0.0)
    assert found["updatedAt"] == "1970-01-01T00:00:00Z"
    derived = {name: found[name] for name in ("percent", "etaSeconds") if name in found}
    assert derived == expected


# --- plans -------------------------------------------------------------------------------------


def job(plan: Plan | str | None = None, interval: str = "100s") -> Obj:
    text = plan.text() if isinstance(plan, Plan) else plan
    notes = {} if text is None else {PLAN: text}
    return {
        "metadata": {"name": "j", "uid": "u", "annotations": notes},
        "spec": {"checkpoint": {"interval": interval, "storage": {}}},
    }


def made_at(seconds: float) -> Obj:
    notes = {TIME: repr(seconds), JOB_UID: "u"}
    return {
        "metadata": {"name": "c", "annotations": notes},
        "spec": {"jobRef": {"name": "j"}, "step": 1, "uri": "x"},
        "status": {"phase": "Ready"},
    }


def planned(job: Obj, checkpoints: list[Obj], **more: Any) -> Plan | None:
    given = {"attempt": 1, "step": 50, "rate": 4.0, "began": 0.0, "now": 150.0, **more}
    return next_plan(job, checkpoints, **given)


def test_a_plan_is_made_when_one_is_due() -> None:
    assert planned(job(), []) == Plan(1, 62, 150.0)
    assert planned(job(), [], rate=None) == Plan(1, 55, 150.0)
    assert planned(job(), [], rate=100.0) == Plan(1, 350, 150.0)
    assert planned(job(), [], now=99.0) is None
    assert planned(job(), [made_at(60.0)]) is None
    assert planned(job(), [made_at(40.0)]) is not None


def test_a_plan_is_not_changed_before_its_step() -> None:
    assert planned(job(Plan(1, 51, 0.0)), []) is None
    assert planned(job(Plan(1, 50, 0.0)), []) is not None, "nobody completed it: the next one"
    assert planned(job(Plan(1, 50, 100.0)), []) is None, "but after another interval"
    assert planned(job(Plan(0, 99, 149.0)), []) is not None, "of another attempt"


def test_requests_are_planned_at_once() -> None:
    made = planned(job(), [made_at(149.0)], request="r")
    assert made == Plan(1, 62, 150.0, "r")
    assert planned(job(Plan(1, 40, 149.0, "r")), [made_at(149.0)], request="r") is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"attempt": 1}', '{"attempt": "x", "step": 1}'])
def test_plans_of_others(text: str) -> None:
    assert plan_of(job(text)) is None


def test_intervals() -> None:
    assert interval_of(job(interval="1m30s")) == 90.0
    assert interval_of({"spec": {}}) == 600.0
