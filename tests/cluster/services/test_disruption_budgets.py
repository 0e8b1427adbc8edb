"""PodDisruptionBudgets, evictions and drains: the same cases on every backend."""

from __future__ import annotations

from typing import Any

import pytest

from tests.backends.base import Reply
from tests.cluster.kubectl.runner import Kubectl
from tests.cluster.manifests import deployment, obj
from tests.cluster.objects import eventually
from tests.cluster.services.service_stage import Stage, settles

POLICY = "policy/v1"
NUMBERS = ("expectedPods", "currentHealthy", "desiredHealthy", "disruptionsAllowed")


def budget(name: str = "web", *, app: str = "web", **spec: Any) -> dict[str, Any]:
    body = {"selector": {"matchLabels": {"app": app}}, **spec}
    return obj(POLICY, "PodDisruptionBudget", name, spec=body)


def numbers(stage: Stage, name: str = "web") -> tuple[int, ...]:
    """(expected, healthy, desired, allowed)."""
    found = stage.objects.get(POLICY, "poddisruptionbudgets", name)
    status = found.get("status") or {}
    if status.get("observedGeneration") != found["metadata"]["generation"]:
        return ()
    return tuple(status.get(number, -1) for number in NUMBERS)


def condition(stage: Stage, name: str = "web") -> tuple[str, str]:
    status = stage.objects.get(POLICY, "poddisruptionbudgets", name).get("status") or {}
    for one in status.get("conditions") or ():
        if one["type"] == "DisruptionAllowed":
            return one["status"], one["reason"]
    return "", ""


def evict(stage: Stage, name: str, **options: Any) -> Reply:
    body = obj(POLICY, "Eviction", name)
    if options:
        body["deleteOptions"] = options
    return stage.objects.backend.request(
        "POST", stage.objects.path("v1", "pods", name) + "/eviction", body
    )


def causes(reply: Reply) -> list[str]:
    details = reply.json().get("details") or {}
    return [cause["message"] for cause in details.get("causes") or ()]


def owned_by(owner: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {
            "apiVersion": owner["apiVersion"],
            "kind": owner["kind"],
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
            "controller": True,
        }
    ]


def play_pods(stage: Stage, app: str, count: int) -> list[str]:
    """Wait for pods that a controller makes, and let them run."""
    query = f"?labelSelector=app={app}"
    settles(lambda: len(stage.objects.names("v1", "pods", query)), count)
    names = sorted(stage.objects.names("v1", "pods", query))
    for number, name in enumerate(names):
        stage.say(name, ip=f"10.1.2.{number + 1}")
    return names


def test_a_number_of_pods_that_must_be_healthy(stage: Stage) -> None:
    stage.objects.create("poddisruptionbudgets", budget(minAvailable=2))
    settles(lambda: numbers(stage), (0, 0, 2, 0))
    settles(lambda: condition(stage), ("False", "InsufficientPods"))
    for number in range(3):
        stage.run(f"p{number}", f"10.1.0.{number + 1}")
    settles(lambda: numbers(stage), (3, 3, 2, 1))
    settles(lambda: condition(stage), ("True", "SufficientPods"))
    stage.say("p0", ready=False)
    settles(lambda: numbers(stage), (3, 2, 2, 0))
    stage.kill("p0")
    settles(lambda: numbers(stage), (2, 2, 2, 0))


def test_the_budget_may_change(stage: Stage) -> None:
    stage.run("one", "10.1.0.1")
    stage.objects.create("poddisruptionbudgets", budget(minAvailable=1))
    settles(lambda: numbers(stage), (1, 1, 1, 0))
    path = (POLICY, "poddisruptionbudgets", "web")
    stage.objects.patch(*path, {"spec": {"minAvailable": 0}})
    settles(lambda: numbers(stage), (1, 1, 0, 1))
    stage.objects.patch(*path, {"spec": {"selector": {"matchLabels": {"app": "other"}}}})
    settles(lambda: numbers(stage), (0, 0, 0, 0))


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"maxUnavailable": 1}, (4, 4, 3, 1)),
        ({"maxUnavailable": "50%"}, (4, 4, 2, 2)),
        ({"minAvailable": "60%"}, (4, 4, 3, 1)),
        ({"maxUnavailable": 9}, (4, 4, 0, 4)),
    ],
    ids=["max", "max-percent", "min-percent", "more-than-all"],
)
def test_shares_are_of_what_the_controller_wants(
    stage: Stage, spec: dict[str, Any], expected: tuple[int, ...]
) -> None:
    stage.objects.create("deployments", deployment("web", replicas=4))
    stage.objects.create("poddisruptionbudgets", budget(**spec))
    play_pods(stage, "web", 4)
    settles(lambda: numbers(stage), expected)


def test_missing_pods_are_expected_too(stage: Stage) -> None:
    """A controller that cannot make all of its pods still wants them."""
    quota = obj("v1", "ResourceQuota", "few", spec={"hard": {"pods": "2"}})
    stage.objects.create("resourcequotas", quota)
    settles(
        lambda: stage.objects.get("v1", "resourcequotas", "few").get("status", {}).get("used"),
        {"pods": "0"},
    )
    stage.objects.create("deployments", deployment("web", replicas=3))
    stage.objects.create("poddisruptionbudgets", budget(maxUnavailable=1))
    play_pods(stage, "web", 2)
    settles(lambda: numbers(stage), (3, 2, 2, 0))


def test_pods_of_nobody_have_no_share(stage: Stage) -> None:
    stage.run("one", "10.1.0.1")
    stage.objects.create("poddisruptionbudgets", budget(maxUnavailable=1))
    settles(lambda: numbers(stage), (0, 1, 0, 0))
    eventually(lambda: "UnmanagedPods" in stage.events("web"))


def test_a_custom_controller_tells_its_scale(stage: Stage, group: str) -> None:
    if stage.objects.backend.name == "real":
        pytest.skip("kube-controller-manager learns of new kinds in its own time, minutes at worst")
    widget = obj(f"{group}/v1", "Widget", "w", spec={"size": 1, "replicas": 3})
    owner = stage.objects.create("widgets", widget)
    stage.objects.create("poddisruptionbudgets", budget(maxUnavailable=1))
    for number in range(3):
        body = {"metadata": {"ownerReferences": owned_by(owner)}}
        stage.run(f"p{number}", f"10.1.0.{number + 1}")
        stage.objects.patch("v1", "pods", f"p{number}", body)
    settles(lambda: numbers(stage), (3, 3, 2, 1), seconds=60)


def test_a_controller_without_scale_stops_disruptions(stage: Stage) -> None:
    owner = stage.objects.create("configmaps", obj("v1", "ConfigMap", "owner", data={"a": "b"}))
    stage.run("one", "10.1.0.1")
    body = {"metadata": {"ownerReferences": owned_by(owner)}}
    stage.objects.patch("v1", "pods", "one", body)
    stage.objects.create("poddisruptionbudgets", budget(maxUnavailable=1))
    settles(lambda: condition(stage), ("False", "SyncFailed"))
    found = stage.objects.get(POLICY, "poddisruptionbudgets", "web")
    messages = [one["message"] for one in found["status"]["conditions"]]
    assert messages == ["configmaps does not implement the scale subresource"]
    assert found["status"]["disruptionsAllowed"] == 0


def test_an_eviction_takes_from_the_budget(stage: Stage) -> None:
    for number in range(3):
        stage.run(f"p{number}", f"10.1.0.{number + 1}")
    stage.objects.create("poddisruptionbudgets", budget(minAvailable=2))
    settles(lambda: numbers(stage), (3, 3, 2, 1))
    assert evict(stage, "p0").code == 201
    going = stage.objects.get("v1", "pods", "p0")
    assert going["metadata"]["deletionTimestamp"]
    target = [c for c in going["status"]["conditions"] if c["type"] == "DisruptionTarget"]
    assert [(c["status"], c["reason"], c["message"]) for c in target] == [
        ("True", "EvictionByEvictionAPI", "Eviction API: evicting")
    ]
    settles(lambda: numbers(stage), (3, 2, 2, 0))
    refused = evict(stage, "p1")
    assert refused.code == 429
    assert refused.json()["message"] == (
        "Cannot evict pod as it would violate the pod's disruption budget."
    )
    assert causes(refused) == ["The disruption budget web needs 2 healthy pods and has 2 currently"]
    stage.kill("p0")
    stage.run("p3", "10.1.0.4")
    settles(lambda: numbers(stage), (3, 3, 2, 1))
    assert evict(stage, "p1", gracePeriodSeconds=0).code == 201
    assert stage.objects.find("v1", "pods", "p1") is None
    settles(lambda: numbers(stage), (2, 2, 2, 0))


def test_a_dry_run_takes_nothing(stage: Stage) -> None:
    stage.run("one", "10.1.0.1")
    stage.objects.create("poddisruptionbudgets", budget(minAvailable=0))
    settles(lambda: numbers(stage), (1, 1, 0, 1))
    assert evict(stage, "one", dryRun=["All"]).code == 201
    assert "deletionTimestamp" not in stage.objects.get("v1", "pods", "one")["metadata"]
    status = stage.objects.get(POLICY, "poddisruptionbudgets", "web")["status"]
    assert status["disruptionsAllowed"] == 1
    assert "disruptedPods" not in status


def test_a_pod_that_is_not_healthy_may_go(stage: Stage) -> None:
    for number in range(3):
        stage.run(f"p{number}", f"10.1.0.{number + 1}", ready=number > 0)
    stage.objects.create("poddisruptionbudgets", budget(minAvailable=2))
    settles(lambda: numbers(stage), (3, 2, 2, 0))
    assert evict(stage, "p1").code == 429
    assert evict(stage, "p0", gracePeriodSeconds=0).code == 201
    settles(lambda: numbers(stage), (2, 2, 2, 0))


@pytest.mark.parametrize(
    ("policy", "code"), [("IfHealthyBudget", 429), ("AlwaysAllow", 201)], ids=lambda v: str(v)
)
def test_unhealthy_pods_of_a_broken_budget(stage: Stage, policy: str, code: int) -> None:
    for number in range(2):
        stage.run(f"p{number}", f"10.1.0.{number + 1}", ready=number > 0)
    stage.objects.create(
        "poddisruptionbudgets", budget(minAvailable=2, unhealthyPodEvictionPolicy=policy)
    )
    settles(lambda: numbers(stage), (2, 1, 2, 0))
    assert evict(stage, "p0").code == code


def test_pods_that_do_not_run_are_not_guarded(stage: Stage) -> None:
    stage.run("one", "10.1.0.1")
    stage.objects.create("poddisruptionbudgets", budget(minAvailable=1))
    settles(lambda: numbers(stage), (1, 1, 1, 0))
    stage.say("one", ready=False, phase="Succeeded")
    assert evict(stage, "one").code == 201


def test_two_budgets_for_one_pod_are_an_error(stage: Stage) -> None:
    stage.run("one", "10.1.0.1")
    stage.objects.create("poddisruptionbudgets", budget("a", minAvailable=0))
    stage.objects.create("poddisruptionbudgets", budget("b", minAvailable=0))
    settles(lambda: numbers(stage, "a"), (1, 1, 0, 1))
    refused = evict(stage, "one")
    assert refused.code == 500
    assert refused.json()["message"].endswith(
        "This pod has more than one PodDisruptionBudget, which the eviction subresource does not "
        "support."
    )


def bind(stage: Stage, name: str, node: str) -> None:
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    path = stage.objects.path("v1", "pods", name) + "/binding"
    body = obj("v1", "Binding", name, target=target)
    assert stage.objects.backend.request("POST", path, body).code == 201


def test_drain_waits_for_the_budget(stage: Stage, kubectl: Kubectl) -> None:
    stage.objects.create("deployments", deployment("web", replicas=2))
    stage.objects.create("poddisruptionbudgets", budget(maxUnavailable=1))
    first = play_pods(stage, "web", 2)
    for name in first:
        bind(stage, name, stage.node)
    settles(lambda: numbers(stage), (2, 2, 1, 1))
    argv = ("drain", stage.node, "--grace-period=0", "--timeout=50s")
    with kubectl.running(*argv) as output:
        # The second pod stays until the successor of the first is ready.
        after = eventually(lambda: stage.objects.names("v1", "pods") - set(first))
        eventually(lambda: numbers(stage)[1:] == (1, 1, 0))
        assert len(stage.objects.names("v1", "pods") & set(first)) == 1
        for name in after:
            stage.say(name, ip="10.1.3.1")
        eventually(lambda: not stage.objects.names("v1", "pods") & set(first), seconds=40)
        output.until("drained")
    found = stage.cluster.get("v1", "nodes", stage.node)
    assert found["spec"]["unschedulable"] is True
