"""Limits, windows and policies; and what all metrics say together."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from corral.cluster.workloads.autoscaling.behavior import (
    Bounds,
    History,
    Outcome,
    normalize,
    tolerances_of,
)
from corral.cluster.workloads.autoscaling.evaluation import (
    evaluate,
    go_selector,
    needs_samples,
    quantity,
)
from corral.cluster.workloads.autoscaling.samples import MetricsError
from corral.cluster.workloads.autoscaling.selectors import Selectors
from corral.cluster.workloads.autoscaling.settings import Settings
from corral.kube.selectors import parse_labels

Obj = dict[str, Any]
SETTINGS = Settings()
BOUNDS = Bounds(1, 100)


def decide(
    desired: int,
    current: int,
    *,
    bounds: Bounds = BOUNDS,
    behavior: Obj | None = None,
    history: History | None = None,
    now: float = 1000.0,
) -> Outcome:
    return normalize(
        desired, current, bounds, behavior=behavior, history=history or History(),
        settings=SETTINGS, now=now,
    )  # fmt: skip


# --- without behavior ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("desired", "current", "bounds", "wanted", "reason"),
    [
        (5, 5, BOUNDS, 5, "DesiredWithinRange"),
        (9, 5, BOUNDS, 9, "DesiredWithinRange"),
        (11, 5, BOUNDS, 10, "ScaleUpLimit"),
        (9, 1, BOUNDS, 4, "ScaleUpLimit"),
        (9, 1, Bounds(1, 3), 3, "TooManyReplicas"),
        (9, 1, Bounds(1, 4), 4, "TooManyReplicas"),
        (0, 1, BOUNDS, 1, "TooFewReplicas"),
        (2, 5, Bounds(3, 9), 3, "TooFewReplicas"),
    ],
)
def test_limits(desired: int, current: int, bounds: Bounds, wanted: int, reason: str) -> None:
    outcome = decide(desired, current, bounds=bounds)
    assert (outcome.replicas, outcome.limit[0]) == (wanted, reason)
    assert outcome.limited == (reason != "DesiredWithinRange")


def test_the_highest_recommendation_of_five_minutes_holds() -> None:
    history = History()
    history.begin(10, 0.0)
    history.begin(3, 0.0)  # only before the first
    found = [decide(wanted, 10, history=history, now=at) for wanted, at in
             [(4, 0.0), (6, 100.0), (2, 299.0), (2, 301.0), (2, 401.0)]]  # fmt: skip
    assert [outcome.replicas for outcome in found] == [10, 10, 10, 6, 2]
    assert found[0].able[0] == "ScaleDownStabilized" and found[4].able[0] == "ReadyForNewScale"


# --- with behavior -------------------------------------------------------------------------------


def policy(kind: str, value: int, seconds: int = 60) -> Obj:
    return {"type": kind, "value": value, "periodSeconds": seconds}


def up(*policies: Obj, **more: Any) -> Obj:
    return {"scaleUp": {"policies": list(policies), **more}}


def down(*policies: Obj, **more: Any) -> Obj:
    return {"scaleDown": {"policies": list(policies), "stabilizationWindowSeconds": 0, **more}}


@pytest.mark.parametrize(
    ("behavior", "desired", "current", "wanted", "reason"),
    [
        ({}, 30, 2, 6, "ScaleUpLimit"),  # the defaults: 4 pods or 100 %
        ({}, 30, 10, 20, "ScaleUpLimit"),
        (up(policy("Pods", 3)), 30, 10, 13, "ScaleUpLimit"),
        (up(policy("Percent", 10)), 30, 11, 13, "ScaleUpLimit"),  # rounded up
        (up(policy("Percent", 1)), 30, 1, 2, "ScaleUpLimit"),
        (up(policy("Pods", 3), policy("Percent", 50)), 30, 10, 15, "ScaleUpLimit"),
        (up(policy("Pods", 3), policy("Percent", 50), selectPolicy="Min"), 30, 10, 13,
         "ScaleUpLimit"),
        (up(policy("Pods", 3), selectPolicy="Disabled"), 30, 10, 10, "ScaleUpLimit"),
        (up(policy("Pods", 200)), 300, 10, 100, "TooManyReplicas"),
        (up(policy("Pods", 90)), 300, 10, 100, "TooManyReplicas"),
        (up(policy("Pods", 50)), 30, 10, 30, "DesiredWithinRange"),
        (down(policy("Pods", 2)), 1, 10, 8, "ScaleDownLimit"),
        (down(policy("Percent", 50)), 1, 11, 5, "ScaleDownLimit"),  # rounded down
        (down(policy("Pods", 2), policy("Percent", 50)), 1, 10, 5, "ScaleDownLimit"),
        (down(policy("Pods", 2), policy("Percent", 50), selectPolicy="Min"), 1, 10, 8,
         "ScaleDownLimit"),
        (down(policy("Pods", 2), selectPolicy="Disabled"), 1, 10, 10, "ScaleDownLimit"),
        (down(policy("Percent", 100)), 0, 10, 1, "TooFewReplicas"),
        (down(policy("Pods", 9)), 0, 10, 1, "TooFewReplicas"),
        (down(policy("Pods", 9)), 4, 10, 4, "DesiredWithinRange"),
    ],
)  # fmt: skip
def test_policies(behavior: Obj, desired: int, current: int, wanted: int, reason: str) -> None:
    outcome = decide(desired, current, behavior=behavior)
    assert (outcome.replicas, outcome.limit[0]) == (wanted, reason)


def test_policies_count_what_was_done_in_their_period() -> None:
    behavior, history = up(policy("Pods", 4, 60)), History()
    history.scaled(10, 13, behavior, now=1000.0)
    assert decide(30, 13, behavior=behavior, history=history, now=1010.0).replicas == 14
    assert decide(30, 13, behavior=behavior, history=history, now=1061.0).replicas == 17
    history.scaled(13, 17, behavior, now=1061.0)
    assert decide(30, 17, behavior=behavior, history=history, now=1062.0).replicas == 17
    assert len(history.ups) == 1  # what nobody asks for any more is forgotten


def test_changes_down_count_for_changes_up() -> None:
    both = up(policy("Pods", 4, 60)) | down(policy("Pods", 9, 60))
    history = History()
    history.scaled(10, 7, both, now=1000.0)
    assert decide(30, 7, behavior=both, history=history, now=1001.0).replicas == 14
    history.scaled(7, 5, None, now=1001.0)
    assert len(history.downs) == 1


@pytest.mark.parametrize(
    ("windows", "recommended", "desired", "current", "wanted", "reason"),
    [
        ((0, 300), [(8, 900)], 3, 10, 8, "ScaleDownStabilized"),
        ((0, 300), [(8, 600)], 3, 10, 3, "ReadyForNewScale"),
        ((60, 0), [(5, 950)], 9, 4, 5, "ScaleUpStabilized"),
        ((60, 0), [(3, 950)], 9, 4, 4, "ScaleUpStabilized"),
        ((60, 0), [(5, 930)], 9, 4, 9, "ReadyForNewScale"),
        ((60, 60), [(3, 990), (12, 991)], 6, 6, 6, "ReadyForNewScale"),
    ],
)  # fmt: skip
def test_windows(
    windows: tuple[int, int],
    recommended: list[tuple[int, float]],
    desired: int,
    current: int,
    wanted: int,
    reason: str,
) -> None:
    all_at_once = [policy("Percent", 1000)]
    behavior = {
        "scaleUp": {"stabilizationWindowSeconds": windows[0], "policies": all_at_once},
        "scaleDown": {"stabilizationWindowSeconds": windows[1], "policies": all_at_once},
    }
    history = History(recommendations=list(recommended))
    outcome = decide(desired, current, behavior=behavior, history=history)
    assert (outcome.replicas, outcome.able[0]) == (wanted, reason)
    assert history.recommendations[-1] == (desired, 1000.0)


def test_the_window_for_fewer_is_five_minutes_without_one() -> None:
    behavior = {"scaleDown": {"policies": [policy("Percent", 100)]}}
    history = History(recommendations=[(9, 701.0)])
    assert decide(2, 10, behavior=behavior, history=history).replicas == 9
    assert decide(2, 10, behavior=behavior, history=history, now=1002.0).replicas == 2


def test_tolerances() -> None:
    assert tolerances_of(None, "scaleUp", 0.1) == 0.1
    assert tolerances_of({"scaleUp": {"tolerance": "50m"}}, "scaleUp", 0.1) == 0.05
    assert tolerances_of({"scaleUp": {"tolerance": "0"}}, "scaleUp", 0.1) == 0.0
    assert tolerances_of({"scaleUp": {"tolerance": "0.05"}}, "scaleDown", 0.1) == 0.1


# --- all metrics together ------------------------------------------------------------------------


def resource(percent: int | None = 50, *, name: str = "memory", **target: Any) -> Obj:
    target = {"averageUtilization": percent} if percent else target
    return {"type": "Resource", "resource": {"name": name, "target": target}}


def hpa(*metrics: Obj, **behavior: Any) -> Obj:
    spec: Obj = {"metrics": list(metrics)}
    if behavior:
        spec["behavior"] = behavior
    return {"metadata": {"namespace": "ns", "name": "h"}, "spec": spec}


def evaluated(used: str, found: Obj, current: int = 2):
    pods = []
    items = []
    for number in range(2):
        name = f"p{number}"
        asks = {"requests": {"memory": "100Mi", "cpu": "1"}}
        pods.append(
            {
                "metadata": {"name": name},
                "spec": {"containers": [{"name": "main", "resources": asks}]},
                "status": {"phase": "Running"},
            }
        )
        items.append(
            {
                "metadata": {"name": name},
                "containers": [{"name": "main", "usage": {"memory": used}}],
            }
        )
    return evaluate(
        found, current, pods=pods, items=lambda: items, settings=SETTINGS,
        now=datetime(2024, 1, 1, tzinfo=UTC),
    )  # fmt: skip


def test_the_highest_wins() -> None:
    result = evaluated("100Mi", hpa(resource(80), resource(None, averageValue="25Mi")))
    assert (result.replicas, result.metric) == (8, "memory resource")
    first, second = result.statuses
    assert first["resource"]["current"] == {"averageUtilization": 100, "averageValue": "100Mi"}
    assert second["resource"]["current"] == {"averageValue": "100Mi"}
    assert result.active[:2] == (True, "ValidMetricFound") and result.error == ""


def test_one_failure_hinders_only_fewer() -> None:
    pods = {"type": "Pods", "pods": {"metric": {"name": "x"}, "target": {"averageValue": "1"}}}
    more = evaluated("100Mi", hpa(resource(50), pods))
    assert more.replicas == 4 and more.active[0]
    assert more.error.startswith("invalid metrics (1 invalid out of 2), first error is: ")
    assert more.statuses[1] == {"type": ""}
    fewer = evaluated("10Mi", hpa(resource(50), pods))
    assert fewer.replicas is None and fewer.active[:2] == (False, "FailedGetPodsMetric")


def test_failures_of_resources() -> None:
    result = evaluated("1Mi", hpa(resource(50, name="cpu")))
    cause = (
        "failed to get cpu utilization: "
        "did not receive metrics for targeted pods (pods might be unready)"
    )
    assert result.replicas is None
    assert result.warnings == (("FailedGetResourceMetric", cause),)
    assert result.error == (
        "invalid metrics (1 invalid out of 1), first error is: "
        f"failed to get cpu resource metric value: {cause}"
    )
    assert result.active == (
        False,
        "FailedGetResourceMetric",
        f"the HPA was unable to compute the replica count: {cause}",
    )
    missing = evaluated("1Mi", hpa(resource(None)))
    assert "neither an average utilization target nor" in missing.error


def test_no_answer_at_all() -> None:
    def items() -> list[Obj]:
        raise MetricsError("unable to fetch metrics from resource metrics API: gone")

    container = {"name": "cpu", "container": "main", "target": {"averageUtilization": 50}}
    found = hpa({"type": "ContainerResource", "containerResource": container})
    now = datetime(2024, 1, 1, tzinfo=UTC)
    result = evaluate(found, 2, pods=[], items=items, settings=SETTINGS, now=now)
    assert result.warnings == (
        (
            "FailedGetContainerResourceMetric",
            "failed to get cpu utilization: unable to get metrics for resource cpu: "
            "unable to fetch metrics from resource metrics API: gone",
        ),
    )
    assert "failed to get main container metric value: " in result.error


def test_which_autoscalers_ask() -> None:
    assert needs_samples(hpa(resource())) and not needs_samples(hpa({"type": "External"}))


def test_words() -> None:
    assert go_selector(None) == "nil"
    term = {"key": "a", "operator": "In", "values": ["x", "y"]}
    assert go_selector({"matchExpressions": [term]}) == (
        "&LabelSelector{MatchLabels:map[string]string{},MatchExpressions:[]"
        "LabelSelectorRequirement{LabelSelectorRequirement{Key:a,Operator:In,Values:[x y],},},}"
    )
    assert quantity("memory", 90 * 1024 * 1024 * 1000) == "90Mi"
    assert quantity("cpu", 250) == "250m"


def test_rivals() -> None:
    selectors = Selectors()
    selectors.put("ns/a", parse_labels("app=x"))
    selectors.put("ns/b", parse_labels("tier=y"))
    selectors.put("other/c", parse_labels("app=x"))
    pod = {"metadata": {"name": "p", "labels": {"app": "x", "tier": "y"}}}
    plain = {"metadata": {"name": "q", "labels": {"app": "x"}}}
    assert selectors.rivals("ns/a", [plain]) == []
    assert selectors.rivals("ns/a", [plain, pod]) == ["ns/b"]
    selectors.remove("ns/b")
    selectors.remove("ns/b")
    assert selectors.rivals("ns/a", [pod]) == []
