"""Autoscalers on both servers: ours, and kube-controller-manager's."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from tests.cluster.autoscaling.conftest import MEBI, Scene
from tests.cluster.objects import Obj, contains, eventually

pytestmark = pytest.mark.timeout(200)


def memory(**target: Any) -> Obj:
    kind = "Utilization" if "averageUtilization" in target else "AverageValue"
    return {"type": "Resource", "resource": {"name": "memory", "target": {"type": kind, **target}}}


def cpu(percent: int) -> Obj:
    target = {"type": "Utilization", "averageUtilization": percent}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


def test_more_replicas(scene: Scene) -> None:
    scene.fleet("up", 2)
    scene.pods("up", 2, memory=90 * MEBI)
    scene.autoscale("up", metrics=[memory(averageUtilization=50)])
    scene.settled("up", "ScalingActive", "ValidMetricFound")
    # 90 of 100 with a target of 50: 1.8 times two.
    eventually(lambda: scene.replicas("up") == 4)
    words = "memory resource utilization (percentage of request)"
    told = ("Normal", "SuccessfulRescale", f"New size: 4; reason: {words} above target")
    eventually(lambda: told in scene.told("up"))
    active = scene.condition("up", "ScalingActive")
    message = f"the HPA was able to successfully calculate a replica count from {words}"
    assert (active["status"], active["message"]) == ("True", message)
    status = scene.status("up")
    current = {"averageUtilization": 90, "averageValue": "90Mi"}
    wanted = {"type": "Resource", "resource": {"name": "memory", "current": current}}
    assert contains(status["currentMetrics"], [wanted]) and status["lastScaleTime"]
    assert contains(status, {"desiredReplicas": 4, "observedGeneration": 1})


def test_fewer_replicas_at_once_if_told_so(scene: Scene) -> None:
    scene.fleet("down", 4)
    scene.pods("down", 4, memory=20 * MEBI)
    behavior = {"scaleDown": {"stabilizationWindowSeconds": 0}}
    scene.autoscale("down", metrics=[memory(averageValue="80Mi")], behavior=behavior)
    scene.settled("down", "ScalingActive", "ValidMetricFound")
    eventually(lambda: scene.replicas("down") == 1)
    told = ("Normal", "SuccessfulRescale", "New size: 1; reason: All metrics below target")
    eventually(lambda: told in scene.told("down"))
    zero = scene.condition("down", "ScaledToZero")
    assert (zero["status"], zero["reason"]) == ("False", "NotScaledToZero")


def test_fewer_replicas_wait(scene: Scene) -> None:
    scene.fleet("wait", 4)
    scene.pods("wait", 4, memory=20 * MEBI)
    scene.autoscale("wait", metrics=[memory(averageUtilization=80)])
    able = scene.settled("wait", "AbleToScale", "ScaleDownStabilized")
    assert able["message"] == (
        "recent recommendations were higher than current one, "
        "applying the highest recent recommendation"
    )
    limited = scene.condition("wait", "ScalingLimited")
    assert (limited["status"], limited["reason"]) == ("False", "DesiredWithinRange")
    assert scene.replicas("wait") == 4 and scene.status("wait")["desiredReplicas"] == 4


def test_within_the_tolerance_nothing_changes(scene: Scene) -> None:
    scene.fleet("still", 3)
    scene.pods("still", 3, memory=54 * MEBI)
    scene.autoscale("still", metrics=[memory(averageUtilization=50)])
    able = scene.settled("still", "AbleToScale", "ReadyForNewScale")
    assert able["message"] == "recommended size matches current size"
    assert scene.replicas("still") == 3 and "lastScaleTime" not in scene.status("still")


def test_an_own_tolerance(scene: Scene) -> None:
    scene.fleet("strict", 10)
    scene.pods("strict", 10, memory=54 * MEBI)
    behavior = {"scaleUp": {"tolerance": "0.05"}}
    scene.autoscale("strict", metrics=[memory(averageUtilization=50)], behavior=behavior)
    scene.settled("strict", "ScalingActive", "ValidMetricFound")
    eventually(lambda: scene.replicas("strict") == 11)


def test_the_maximum_limits(scene: Scene) -> None:
    scene.fleet("top", 2)
    scene.pods("top", 2, memory=400 * MEBI)
    scene.autoscale("top", metrics=[memory(averageUtilization=50)], maxReplicas=3)
    limited = scene.settled("top", "ScalingLimited", "TooManyReplicas")
    message = "the desired replica count is more than the maximum replica count"
    assert (limited["status"], limited["message"]) == ("True", message)
    eventually(lambda: scene.replicas("top") == 3)


def test_the_pace_limits(scene: Scene) -> None:
    scene.fleet("pace", 1)
    scene.pods("pace", 1, memory=1000 * MEBI)
    scene.autoscale("pace", metrics=[memory(averageUtilization=50)])
    limited = scene.settled("pace", "ScalingLimited", "ScaleUpLimit")
    message = "the desired replica count is increasing faster than the maximum scale rate"
    assert (limited["status"], limited["message"]) == ("True", message)
    eventually(lambda: ("Normal", "SuccessfulRescale") in {t[:2] for t in scene.told("pace")})
    sizes = [text for _, reason, text in scene.told("pace") if reason == "SuccessfulRescale"]
    assert any(text.startswith("New size: 4;") for text in sizes)


def test_policies_limit(scene: Scene) -> None:
    scene.fleet("policy", 3)
    scene.pods("policy", 3, memory=1000 * MEBI)
    policies = [
        {"type": "Pods", "value": 2, "periodSeconds": 600},
        {"type": "Percent", "value": 200, "periodSeconds": 600},
    ]
    behavior = {"scaleUp": {"selectPolicy": "Min", "policies": policies}}
    scene.autoscale("policy", metrics=[memory(averageUtilization=50)], behavior=behavior)
    scene.settled("policy", "ScalingLimited", "ScaleUpLimit")
    eventually(lambda: scene.replicas("policy") == 5)
    # Ten minutes must pass before the next step.
    patch = {"spec": {"maxReplicas": 19}}
    found = scene.objects.patch("autoscaling/v2", "horizontalpodautoscalers", "policy", patch)
    generation = found["metadata"]["generation"]
    eventually(lambda: scene.status("policy")["observedGeneration"] == generation)
    assert scene.replicas("policy") == 5


@pytest.mark.parametrize(
    ("replicas", "bounds", "wanted", "reason"),
    [
        (9, {"maxReplicas": 6}, 6, "Current number of replicas above Spec.MaxReplicas"),
        (1, {"minReplicas": 3}, 3, "Current number of replicas below Spec.MinReplicas"),
    ],
    ids=["above", "below"],
)
def test_outside_the_bounds_no_metric_is_asked(
    scene: Scene, replicas: int, bounds: dict[str, int], wanted: int, reason: str
) -> None:
    scene.fleet("out", replicas)
    scene.autoscale("out", metrics=[memory(averageUtilization=50)], **bounds)
    told = ("Normal", "SuccessfulRescale", f"New size: {wanted}; reason: {reason}")
    eventually(lambda: told in scene.told("out"), seconds=100)
    assert scene.replicas("out") == wanted


def test_nothing_is_scaled_from_zero(scene: Scene) -> None:
    scene.fleet("zero", 0)
    scene.autoscale("zero", metrics=[memory(averageUtilization=50)])
    active = scene.settled("zero", "ScalingActive", "ScalingDisabled")
    message = "scaling is disabled since the replica count of the target is zero"
    assert (active["status"], active["message"]) == ("False", message)
    assert scene.replicas("zero") == 0


def test_pods_without_metrics_and_pending_ones(scene: Scene) -> None:
    """Two use 100 of 50; a pending one and one without an answer are taken to use nothing."""
    scene.fleet("mixed", 4)
    scene.pods("mixed", 2, memory=100 * MEBI)
    scene.pod("mixed-pending", "mixed", phase="Pending", silent=True)
    scene.pod("mixed-silent", "mixed", silent=True)
    scene.autoscale("mixed", metrics=[memory(averageUtilization=50)])
    scene.settled("mixed", "AbleToScale", "ReadyForNewScale")
    assert scene.replicas("mixed") == 4
    use = scene.status("mixed")["currentMetrics"][0]["resource"]["current"]
    assert use["averageUtilization"] == 100


def test_cpu(scene: Scene) -> None:
    scene.fleet("cpu", 2)
    scene.pods("cpu", 2, cpu=0.095)
    scene.autoscale("cpu", metrics=[cpu(50)])
    scene.settled("cpu", "ScalingActive", "ValidMetricFound")
    eventually(lambda: scene.replicas("cpu") == 4)


def test_the_metric_of_one_container(scene: Scene) -> None:
    scene.fleet("part", 2)
    scene.pods("part", 2, memory=180 * MEBI, sidecar=True)  # 90Mi each
    target = {"type": "Utilization", "averageUtilization": 50}
    source = {"name": "memory", "container": "main", "target": target}
    scene.autoscale("part", metrics=[{"type": "ContainerResource", "containerResource": source}])
    active = scene.settled("part", "ScalingActive", "ValidMetricFound")
    assert "memory container resource utilization (percentage of request)" in active["message"]
    eventually(lambda: scene.replicas("part") == 4)


def test_the_highest_of_several_metrics_wins(scene: Scene) -> None:
    scene.fleet("several", 2)
    scene.pods("several", 2, memory=90 * MEBI)
    metrics = [memory(averageValue="60Mi"), memory(averageUtilization=30)]
    scene.autoscale("several", metrics=metrics)

    def sizes() -> list[int]:
        words = [text for _, reason, text in scene.told("several") if reason == "SuccessfulRescale"]
        return sorted({int(text.removeprefix("New size: ").partition(";")[0]) for text in words})

    # the utilization asks for 6, the value for 3; in more steps where not all is known at first
    eventually(lambda: sizes()[-1:] == [6], seconds=100)
    assert all(size <= 2 * before for before, size in pairwise([2, *sizes()]))  # at most twice


def test_a_metric_that_fails_keeps_replicas(scene: Scene) -> None:
    scene.fleet("half", 4)
    scene.pods("half", 4, memory=10 * MEBI)
    pods = {"metric": {"name": "pps"}, "target": {"type": "AverageValue", "averageValue": "1k"}}
    metrics = [memory(averageUtilization=50), {"type": "Pods", "pods": pods}]
    behavior = {"scaleDown": {"stabilizationWindowSeconds": 0}}
    scene.autoscale("half", metrics=metrics, behavior=behavior)
    active = scene.settled("half", "ScalingActive", "FailedGetPodsMetric")
    cause = (
        "unable to get metric pps: unable to fetch metrics from custom metrics API: "
        "no custom metrics API (custom.metrics.k8s.io) registered"
    )
    assert active["message"] == f"the HPA was unable to compute the replica count: {cause}"
    told = (
        "Warning",
        "FailedComputeMetricsReplicas",
        "invalid metrics (1 invalid out of 2), first error is: "
        f"failed to get pods metric value: {cause}",
    )
    eventually(lambda: told in scene.told("half"))
    assert scene.replicas("half") == 4


def test_metrics_without_an_adapter(scene: Scene) -> None:
    scene.fleet("none", 2)
    scene.pods("none", 1, memory=MEBI)
    reference = {"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "name": "main"}
    value = {"type": "Value", "value": "10k"}
    average = {"type": "AverageValue", "averageValue": "30"}
    selector = {"matchLabels": {"queue": "work"}}
    metrics = [
        {
            "type": "Object",
            "object": {"metric": {"name": "rps"}, "describedObject": reference, "target": value},
        },
        {
            "type": "External",
            "external": {"metric": {"name": "ready", "selector": selector}, "target": average},
        },
    ]
    scene.autoscale("none", metrics=metrics)
    active = scene.settled("none", "ScalingActive", "FailedGetObjectMetric")
    no_custom = (
        "unable to fetch metrics from custom metrics API: "
        "no custom metrics API (custom.metrics.k8s.io) registered"
    )
    space = scene.objects.namespace
    cause = f"unable to get metric rps on Ingress {space}/main: {no_custom}"
    assert active["message"] == f"the HPA was unable to compute the replica count: {cause}"
    printed = (
        "&LabelSelector{MatchLabels:map[string]string{queue: work,},"
        "MatchExpressions:[]LabelSelectorRequirement{},}"
    )
    external = (
        f"unable to get external metric {space}/ready/{printed}: unable to fetch metrics from "
        "external metrics API: the server could not find the requested resource "
        "(get ready.external.metrics.k8s.io)"
    )
    wanted = {
        ("Warning", "FailedGetObjectMetric", cause),
        ("Warning", "FailedGetExternalMetric", external),
        (
            "Warning",
            "FailedComputeMetricsReplicas",
            "invalid metrics (2 invalid out of 2), first error is: "
            f"failed to get object metric value: {cause}",
        ),
    }
    eventually(lambda: wanted <= set(scene.told("none")))
    assert scene.status("none")["currentMetrics"] == [{"type": ""}, {"type": ""}]


@pytest.mark.parametrize(
    ("target", "why"),
    [
        ({"apiVersion": "apps/v1", "kind": "Deployment", "name": "gone"},
         'deployments.apps "gone" not found'),
        ({"apiVersion": "example.test/v1", "kind": "Nothing", "name": "gone"},
         'no matches for kind "Nothing" in group "example.test"'),
    ],
    ids=["missing", "unknown"],
)  # fmt: skip
def test_a_target_that_is_not_there(scene: Scene, target: Obj, why: str) -> None:
    scene.autoscale("lost", metrics=[memory(averageUtilization=50)], target=target)
    able = scene.settled("lost", "AbleToScale", "FailedGetScale")
    message = f"the HPA controller was unable to get the target's current scale: {why}"
    assert (able["status"], able["message"]) == ("False", message)
    eventually(lambda: ("Warning", "FailedGetScale", why) in scene.told("lost"))


def test_requests_are_needed(scene: Scene) -> None:
    scene.fleet("ask", 1)
    scene.pods("ask", 1, memory=MEBI)
    scene.pod("ask-more", "ask", memory=MEBI)
    target = {"type": "Utilization", "averageUtilization": 50}
    source = {"name": "memory", "container": "other", "target": target}
    scene.autoscale("ask", metrics=[{"type": "ContainerResource", "containerResource": source}])
    active = scene.settled("ask", "ScalingActive", "FailedGetContainerResourceMetric")
    assert active["status"] == "False" and active["message"].startswith(
        "the HPA was unable to compute the replica count: failed to get memory utilization: "
    )


def test_two_autoscalers_for_the_same_pods(scene: Scene) -> None:
    scene.pods("shared", 2, memory=50 * MEBI)
    for name in ("one", "two"):
        scene.fleet(name, 2, selector="app=shared")
        scene.autoscale(name, metrics=[memory(averageUtilization=50)])
    active = eventually(
        lambda: next(
            (
                found
                for name in ("one", "two")
                if (found := scene.condition(name, "ScalingActive")).get("reason")
                == "AmbiguousSelector"
            ),
            None,
        ),
        seconds=100,
    )
    assert active["message"].startswith(
        "pods by selector app=shared are controlled by more than one HPA (e.g. ["
    )
