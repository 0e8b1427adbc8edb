"""The status of a PodDisruptionBudget from its pods."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from corral.cluster.workloads.disruption.budget import failed_status, judge, needs_scale
from corral.kube.times import format_datetime

Obj = dict[str, Any]
NOW = datetime(2030, 1, 1, tzinfo=UTC)


def pod(name: str, *, ready: bool = True, deleting: bool = False) -> Obj:
    meta: Obj = {"name": name, "namespace": "ns"}
    if deleting:
        meta["deletionTimestamp"] = format_datetime(NOW)
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    return {"metadata": meta, "status": {"conditions": conditions}}


def budget(status: Obj | None = None, **spec: Any) -> Obj:
    meta = {"name": "b", "namespace": "ns", "generation": 3}
    return {"metadata": meta, "spec": spec, "status": status or {}}


def numbers(status: Obj) -> tuple[int, ...]:
    names = ("expectedPods", "currentHealthy", "desiredHealthy", "disruptionsAllowed")
    return tuple(status[name] for name in names)


@pytest.mark.parametrize(
    ("spec", "pods", "scale", "expected"),
    [
        ({"minAvailable": 2}, 3, 0, (3, 3, 2, 1)),
        ({"minAvailable": 0}, 0, 0, (0, 0, 0, 0)),
        ({"minAvailable": "50%"}, 3, 5, (5, 3, 3, 0)),
        ({"minAvailable": "100%"}, 3, 3, (3, 3, 3, 0)),
        ({"maxUnavailable": 1}, 3, 3, (3, 3, 2, 1)),
        ({"maxUnavailable": "34%"}, 3, 3, (3, 3, 1, 2)),
        ({"maxUnavailable": 7}, 3, 3, (3, 3, 0, 3)),
        ({"maxUnavailable": 1}, 3, 0, (0, 3, 0, 0)),
        ({}, 3, 0, (0, 3, 0, 0)),
    ],
    ids=lambda value: str(value),
)
def test_numbers(spec: Obj, pods: int, scale: int, expected: tuple[int, ...]) -> None:
    given = budget(**spec)
    verdict = judge(given, [pod(f"p{n}") for n in range(pods)], scale, now=NOW)
    assert numbers(verdict.status) == expected
    assert verdict.status["observedGeneration"] == 3
    share = "maxUnavailable" in spec or isinstance(spec.get("minAvailable"), str)
    assert needs_scale(given) is share


def test_pods_that_are_not_healthy() -> None:
    pods = [pod("a"), pod("b", ready=False), pod("c", deleting=True)]
    assert numbers(judge(budget(minAvailable=1), pods, 0, now=NOW).status) == (3, 1, 1, 0)


def test_an_evicted_pod_counts_as_gone_for_two_minutes() -> None:
    earlier = {"a": format_datetime(NOW - timedelta(seconds=60)), "gone": format_datetime(NOW)}
    given = budget({"disruptedPods": earlier}, minAvailable=0)
    verdict = judge(given, [pod("a"), pod("b")], 0, now=NOW)
    assert numbers(verdict.status) == (2, 1, 0, 1)
    assert verdict.status["disruptedPods"] == {"a": earlier["a"]}
    assert verdict.recheck_after == 60
    later = judge(given, [pod("a"), pod("b")], 0, now=NOW + timedelta(seconds=61))
    assert numbers(later.status) == (2, 2, 0, 2)
    assert "disruptedPods" not in later.status
    assert [one["metadata"]["name"] for one in later.overdue] == ["a"]


def test_an_eviction_that_became_a_deletion_is_forgotten() -> None:
    given = budget({"disruptedPods": {"a": format_datetime(NOW)}}, minAvailable=0)
    verdict = judge(given, [pod("a", deleting=True)], 0, now=NOW)
    assert "disruptedPods" not in verdict.status
    assert verdict.recheck_after is None
    assert verdict.overdue == ()


def test_the_condition_keeps_its_time_while_its_status_stays() -> None:
    first = judge(budget(minAvailable=0), [pod("a")], 0, now=NOW).status
    (condition,) = first["conditions"]
    assert (condition["status"], condition["reason"]) == ("True", "SufficientPods")
    again = judge(budget(first, minAvailable=0), [pod("a")], 0, now=NOW + timedelta(hours=1))
    assert again.status == first
    after = judge(budget(first, minAvailable=1), [pod("a")], 0, now=NOW + timedelta(hours=1))
    (condition,) = after.status["conditions"]
    assert (condition["status"], condition["reason"]) == ("False", "InsufficientPods")
    assert condition["lastTransitionTime"] == format_datetime(NOW + timedelta(hours=1))


def test_nothing_may_be_disrupted_when_nothing_is_known() -> None:
    known = judge(budget(minAvailable=0), [pod("a")], 0, now=NOW).status
    status = failed_status(budget(known, minAvailable=0), "why", now=NOW)
    assert numbers(status) == (1, 1, 0, 0)
    (condition,) = status["conditions"]
    assert (condition["status"], condition["reason"], condition["message"]) == (
        "False", "SyncFailed", "why",
    )  # fmt: skip
    assert known["disruptionsAllowed"] == 1
    assert numbers(failed_status(budget(minAvailable=0), "why", now=NOW)) == (0, 0, 0, 0)
