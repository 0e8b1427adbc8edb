"""How many replicas an elastic job should have."""

from __future__ import annotations

from typing import Any

import pytest

from corral.families.trainingjob.lifecycle.elastic import (
    Resize,
    grown_world,
    shrunken_world,
    wanted_placeholders,
)
from corral.families.trainingjob.lifecycle.limits import RunLimits
from corral.families.trainingjob.lifecycle.plan import Plan
from corral.families.trainingjob.lifecycle.replicas import PLACEHOLDER_LABEL, Replicas
from corral.runtime.sightings import Sightings
from tests.unit.families.trainingjob.training_world import (
    START,
    make_job,
    make_pod,
    scheduled,
    unschedulable,
)

Obj = dict[str, Any]
LIMITS = RunLimits(unschedulable_after=10, grow_after=60)


def plan(minimum: int, replicas: int = 4) -> Plan:
    return Plan.of(make_job(replicas=replicas, elastic={"minReplicas": minimum, "maxReplicas": 8}))


def view(*pods: Obj, world: int = 4) -> Replicas:
    return Replicas.sort({"attempt": 1, "worldSize": world}, pods)


def placed(index: int) -> Obj:
    return scheduled(make_pod(index, world=4, phase="Running"))


def place(number: int) -> Obj:
    pod = make_pod(number)
    pod["metadata"]["name"] = f"job-grow-{number}"
    pod["metadata"]["labels"][PLACEHOLDER_LABEL] = "true"
    return pod


@pytest.mark.parametrize(
    ("minimum", "now", "expected"),
    [
        (1, 9.0, Resize(look_again=START + 10)),
        (1, 10.0, Resize(2)),
        (2, 10.0, Resize(2)),
        (3, 10.0, Resize()),
        (4, 10.0, Resize()),
    ],
    ids=["too-soon", "due", "at-the-bound", "below-the-bound", "not-elastic"],
)
def test_shrinks_to_what_has_a_node(minimum: int, now: float, expected: Resize) -> None:
    seen = view(placed(0), unschedulable(make_pod(1)), placed(2), unschedulable(make_pod(3)))
    found = shrunken_world(
        plan(minimum), seen, world=4, missing=[], refused_since=None, now=START + now, limits=LIMITS
    )
    assert found == expected


def test_shrinks_though_a_wrong_clock_has_found_no_node() -> None:
    late = unschedulable(make_pod(3), since=START + 730 * 86400)
    seen, known = view(placed(0), placed(1), placed(2), late), Sightings()
    what = {"world": 4, "missing": [], "refused_since": None, "limits": LIMITS}
    found = shrunken_world(plan(1), seen, now=START, sightings=known, **what)
    assert found == Resize(look_again=START + 10)
    assert shrunken_world(plan(1), seen, now=START + 10, sightings=known, **what) == Resize(3)


def test_grows_though_a_wrong_clock_has_found_the_node() -> None:
    late = scheduled(place(2), since=START + 730 * 86400)
    seen, known = view(placed(0), placed(1), late, unschedulable(place(3)), world=2), Sightings()
    what = {"world": 2, "limits": LIMITS, "running_since": START, "sightings": known}
    assert grown_world(plan(1), seen, now=START + 90, **what) == Resize(look_again=START + 100)
    assert grown_world(plan(1), seen, now=START + 100, **what) == Resize(3)


def test_waits_for_the_scheduler() -> None:
    seen = view(placed(0), unschedulable(make_pod(1)), placed(2), make_pod(3))
    found = shrunken_world(
        plan(1), seen, world=4, missing=[], refused_since=None, now=START + 99, limits=LIMITS
    )
    assert found == Resize()


def test_pods_that_a_quota_refuses_are_left_out_too() -> None:
    seen, what = view(placed(0), placed(1)), {"world": 4, "missing": [2, 3], "limits": LIMITS}
    assert shrunken_world(plan(1), seen, refused_since=START, now=START + 10, **what) == Resize(2)
    assert shrunken_world(plan(1), seen, refused_since=START, now=START + 9, **what) == Resize(
        look_again=START + 10
    )
    assert shrunken_world(plan(1), seen, refused_since=None, now=START + 99, **what) == Resize()


def test_grows_by_the_placeholders_that_have_a_node() -> None:
    seen = view(placed(0), placed(1), scheduled(place(2)), scheduled(place(3)), world=2)
    what = {"world": 2, "limits": LIMITS}
    assert grown_world(plan(1), seen, running_since=None, now=START + 999, **what) == Resize()
    found = grown_world(plan(1), seen, running_since=START, now=START + 59, **what)
    assert found == Resize(look_again=START + 60)
    assert grown_world(plan(1), seen, running_since=START, now=START + 60, **what) == Resize(4)


def test_waits_for_further_placeholders_for_a_while() -> None:
    late = scheduled(place(2), since=START + 100)
    seen = view(placed(0), placed(1), late, unschedulable(place(3)), world=2)
    what = {"world": 2, "limits": LIMITS, "running_since": START}
    assert grown_world(plan(1), seen, now=START + 105, **what) == Resize(look_again=START + 110)
    assert grown_world(plan(1), seen, now=START + 110, **what) == Resize(3)


def test_placeholders_are_for_running_jobs_that_are_too_small() -> None:
    assert list(wanted_placeholders(plan(1), world=2, running=True)) == [2, 3]
    assert list(wanted_placeholders(plan(1), world=2, running=False)) == []
    assert list(wanted_placeholders(plan(1), world=4, running=True)) == []
