"""ResourceQuota.status.used follows what is there: the same cases on every backend."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from tests.cluster.manifests import configmap, obj
from tests.cluster.objects import Objects
from tests.cluster.services.service_stage import Stage, pod, service, settles

PATIENCE = 40.0
"""kube-controller-manager looks at some changes only when it counts everything again."""

PATIENCE_NEW_KINDS = 300.0
"""kube-controller-manager learns of new kinds twice a minute, and of their objects after that."""


def quota(name: str = "all", **rest: Any) -> dict[str, Any]:
    hard = rest.pop("hard")
    return obj("v1", "ResourceQuota", name, spec={"hard": hard, **rest})


def used(objects: Objects, name: str = "all") -> dict[str, str]:
    found = objects.get("v1", "resourcequotas", name)
    return dict((found.get("status") or {}).get("used") or {})


def sized(name: str, node: str = "", **labels: str) -> dict[str, Any]:
    made = pod(name, node, labels=labels or {"app": "web"})
    resources = {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"memory": "1Gi"}}
    made["spec"]["containers"][0]["resources"] = resources
    return made


POD_LIMITS = {
    "pods": "10",
    "count/pods": "10",
    "requests.cpu": "5",
    "requests.memory": "5Gi",
    "limits.memory": "9Gi",
}


def test_what_was_there_before_counts(objects: Objects) -> None:
    objects.create("configmaps", configmap("one"))
    objects.create("services", service())
    objects.create("pods", sized("p1"))
    hard = {"configmaps": "5", "services": "3", "count/services": "3", **POD_LIMITS}
    objects.create("resourcequotas", quota(hard=hard))
    settles(
        lambda: used(objects),
        {
            "configmaps": "2",
            "services": "1",
            "count/services": "1",
            "pods": "1",
            "count/pods": "1",
            "requests.cpu": "100m",
            "requests.memory": "64Mi",
            "limits.memory": "1Gi",
        },
    )


def test_finished_pods_do_not_count(stage: Stage) -> None:
    objects = stage.objects
    objects.create("resourcequotas", quota(hard=POD_LIMITS))
    empty = {"pods": "0", "count/pods": "0", "limits.memory": "0"}
    settles(lambda: used(objects), {**empty, "requests.cpu": "0", "requests.memory": "0"})
    for number in range(3):
        objects.create("pods", sized(f"p{number}", stage.node))
    settles(
        lambda: used(objects),
        {
            "pods": "3",
            "count/pods": "3",
            "requests.cpu": "300m",
            "requests.memory": "192Mi",
            "limits.memory": "3Gi",
        },
    )
    stage.say("p0", ready=False, phase="Succeeded")
    stage.say("p1", ready=False, phase="Failed")
    settles(
        lambda: used(objects),
        {
            "pods": "1",
            "count/pods": "3",
            "requests.cpu": "100m",
            "requests.memory": "64Mi",
            "limits.memory": "1Gi",
        },
        seconds=PATIENCE,
    )
    for number in range(3):
        stage.kill(f"p{number}")
    settles(
        lambda: used(objects),
        {**empty, "requests.cpu": "0", "requests.memory": "0"},
        seconds=PATIENCE,
    )


def test_room_that_comes_free_can_be_used(stage: Stage) -> None:
    stage.objects.create("resourcequotas", quota(hard={"pods": "1"}))
    settles(lambda: used(stage.objects), {"pods": "0"})
    stage.objects.create("pods", pod("one", stage.node))
    path = stage.objects.path("v1", "pods")
    refused = stage.objects.backend.request("POST", path, pod("two", stage.node))
    assert refused.code == 403
    assert (
        "exceeded quota: all, requested: pods=1, used: pods=1, limited: pods=1"
        in (refused.json()["message"])
    )
    stage.say("one", ready=False, phase="Succeeded")
    settles(lambda: used(stage.objects), {"pods": "0"}, seconds=PATIENCE)
    stage.objects.create("pods", pod("two", stage.node))
    settles(lambda: used(stage.objects), {"pods": "1"})


def test_kinds_of_services(objects: Objects) -> None:
    hard = {"services": "9", "services.nodeports": "9", "services.loadbalancers": "9"}
    objects.create("resourcequotas", quota(hard=hard))
    settles(lambda: used(objects), dict.fromkeys(hard, "0"))
    objects.create("services", service("plain"))
    objects.create("services", service("node", type="NodePort"))
    objects.create("services", service("balanced", type="LoadBalancer"))
    wanted = {"services": "3", "services.nodeports": "2", "services.loadbalancers": "1"}
    settles(lambda: used(objects), wanted)
    objects.delete("v1", "services", "balanced")
    settles(
        lambda: used(objects),
        {"services": "2", "services.nodeports": "1", "services.loadbalancers": "0"},
        seconds=PATIENCE,
    )


def test_claims_and_their_sizes(objects: Objects, unique: str) -> None:
    by_class = f"class-{unique}.storageclass.storage.k8s.io"
    hard = {
        "persistentvolumeclaims": "9",
        "requests.storage": "99Gi",
        f"{by_class}/persistentvolumeclaims": "9",
        f"{by_class}/requests.storage": "99Gi",
    }
    objects.create("resourcequotas", quota(hard=hard))
    settles(lambda: used(objects), dict.fromkeys(hard, "0"))
    for name, class_, size in (("a", f"class-{unique}", "2Gi"), ("b", "", "1Gi")):
        spec = {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": class_,
            "resources": {"requests": {"storage": size}},
        }
        objects.create(
            "persistentvolumeclaims", obj("v1", "PersistentVolumeClaim", name, spec=spec)
        )
    settles(
        lambda: used(objects),
        {
            "persistentvolumeclaims": "2",
            "requests.storage": "3Gi",
            f"{by_class}/persistentvolumeclaims": "1",
            f"{by_class}/requests.storage": "2Gi",
        },
    )


def test_objects_of_any_kind_are_counted(objects: Objects) -> None:
    hard = {
        "count/jobs.batch": "5",
        "count/deployments.apps": "5",
        "count/configmaps": "5",
        "secrets": "5",
    }
    objects.create("resourcequotas", quota(hard=hard))
    start = {**dict.fromkeys(hard, "0"), "count/configmaps": "1"}
    settles(lambda: used(objects), start)
    template: dict[str, Any] = {"containers": [{"name": "main", "image": "example.test/web:1"}]}
    template["restartPolicy"] = "Never"
    spec = {"suspend": True, "template": {"spec": template}}
    objects.create("jobs", obj("batch/v1", "Job", "j", spec=spec))
    objects.create("secrets", obj("v1", "Secret", "s"))
    settles(lambda: used(objects), {**start, "count/jobs.batch": "1", "secrets": "1"})
    path = objects.path("batch/v1", "jobs", "j") + "?propagationPolicy=Background"
    assert objects.backend.request("DELETE", path).code == 200
    settles(lambda: used(objects), {**start, "secrets": "1"}, seconds=PATIENCE)


@pytest.mark.timeout(400)
def test_custom_objects_are_counted(objects: Objects, group: str) -> None:
    name = f"count/widgets.{group}"
    objects.create("resourcequotas", quota(hard={name: "5"}))
    settles(lambda: used(objects), {name: "0"}, seconds=PATIENCE_NEW_KINDS)
    objects.create("widgets", obj(f"{group}/v1", "Widget", "w", spec={"size": 1}))
    settles(lambda: used(objects), {name: "1"})
    objects.delete(f"{group}/v1", "widgets", "w")
    settles(lambda: used(objects), {name: "0"}, seconds=PATIENCE)


def test_limits_may_change(objects: Objects) -> None:
    objects.create("resourcequotas", quota(hard={"configmaps": "5"}))
    settles(lambda: used(objects), {"configmaps": "1"})
    patch = {"spec": {"hard": {"configmaps": None, "secrets": "3"}}}
    objects.patch("v1", "resourcequotas", "all", patch)
    settles(lambda: used(objects), {"secrets": "0"})
    status = objects.get("v1", "resourcequotas", "all")["status"]
    assert status["hard"] == {"secrets": "3"}


def test_scopes_choose_pods(stage: Stage) -> None:
    objects = stage.objects
    for scope in ("BestEffort", "NotBestEffort", "Terminating"):
        made = quota(scope.lower(), hard={"pods": "5"}, scopes=[scope])
        objects.create("resourcequotas", made)
        settles(partial(used, objects, scope.lower()), {"pods": "0"})
    objects.create("pods", pod("best", stage.node))
    objects.create("pods", sized("sized", stage.node))
    objects.create("pods", pod("short", stage.node, activeDeadlineSeconds=60))
    wanted = {"besteffort": "2", "notbesteffort": "1", "terminating": "1"}
    for name, count in wanted.items():
        settles(partial(used, objects, name), {"pods": count})
