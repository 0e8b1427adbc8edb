"""Replica sets and replication controllers at work, on every backend."""

from __future__ import annotations

import pytest

from tests.cluster.apps.builders import Apps, names, template, workload
from tests.cluster.objects import Obj, eventually


def replica_set(replicas: int, **spec: object) -> Obj:
    return workload("ReplicaSet", "web", replicas=replicas, **spec)


def pod_body(name: str, **labels: str) -> Obj:
    body = template("web")
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels},
        "spec": body["spec"],
    }


def test_keeps_its_number(apps: Apps) -> None:
    apps.create(replica_set(3))
    done = apps.status("replicasets", "web", replicas=3, readyReplicas=3, availableReplicas=3)
    assert done["status"]["fullyLabeledReplicas"] == 3
    apps.patch("replicasets", "web", {"spec": {"replicas": 1}}, subresource="scale")
    apps.status("replicasets", "web", replicas=1, availableReplicas=1, terminatingReplicas=0)
    eventually(lambda: len(apps.pods()) == 1)
    said = ["SuccessfulCreate"] * 3 + ["SuccessfulDelete"] * 2
    eventually(lambda: sorted(event[1] for event in apps.events("ReplicaSet", "web")) == said)


def test_adopts_orphans_it_selects(apps: Apps) -> None:
    apps.objects.create("pods", pod_body("stray", app="web"))
    apps.objects.create("pods", pod_body("other", app="other"))
    made = apps.create(replica_set(2))
    apps.status("replicasets", "web", replicas=2, readyReplicas=2)
    [owner] = apps.get("pods", "stray")["metadata"]["ownerReferences"]
    assert owner["uid"] == made["metadata"]["uid"]
    assert "ownerReferences" not in apps.get("pods", "other")["metadata"]
    assert len(apps.pods()) == 3


def test_deletes_a_surplus_orphan_it_adopted(apps: Apps) -> None:
    apps.create(replica_set(1))
    apps.status("replicasets", "web", replicas=1, readyReplicas=1)
    [kept] = names(apps.pods())
    apps.player.play(lambda pod: "ready" if pod["metadata"]["name"] == kept else "pending")
    apps.objects.create("pods", pod_body("stray", app="web"))
    eventually(lambda: names(apps.pods()) == [kept])


def test_releases_pods_it_no_longer_selects(apps: Apps) -> None:
    apps.create(replica_set(2))
    apps.status("replicasets", "web", readyReplicas=2)
    taken, kept = names(apps.pods())
    apps.patch("pods", taken, {"metadata": {"labels": {"app": "taken"}}})
    eventually(lambda: "ownerReferences" not in apps.get("pods", taken)["metadata"])
    eventually(lambda: len(apps.pods()) == 3)
    apps.status("replicasets", "web", replicas=2, readyReplicas=2)
    assert {taken, kept} < set(names(apps.pods()))


def test_counts_pods_that_lack_template_labels(apps: Apps) -> None:
    pod = template("web")
    pod["metadata"]["labels"]["extra"] = "yes"
    apps.create(workload("ReplicaSet", "web", pod, replicas=2))
    apps.status("replicasets", "web", fullyLabeledReplicas=2)
    first = names(apps.pods())[0]
    apps.patch("pods", first, {"metadata": {"labels": {"extra": None}}})
    apps.status("replicasets", "web", replicas=2, fullyLabeledReplicas=1)


def test_the_cheapest_pods_go_first(apps: Apps) -> None:
    apps.create(replica_set(4))
    apps.status("replicasets", "web", readyReplicas=4)
    cost = "controller.kubernetes.io/pod-deletion-cost"
    all_of_them = names(apps.pods())
    for number, name in enumerate(all_of_them):
        apps.patch("pods", name, {"metadata": {"annotations": {cost: str(number * 10)}}})
    eventually(lambda: all(cost in (p["metadata"].get("annotations") or {}) for p in apps.pods()))
    # The cache of the controller follows the pods before it hears of the new size: one watch
    # may be ahead of the other, so let the set speak about the pods once more.
    apps.player.play(
        lambda pod: "running" if pod["metadata"]["name"] == all_of_them[0] else "ready"
    )
    apps.status("replicasets", "web", readyReplicas=3)
    apps.player.play("ready")
    apps.status("replicasets", "web", readyReplicas=4)
    apps.patch("replicasets", "web", {"spec": {"replicas": 2}})
    eventually(lambda: names(apps.pods()) == all_of_them[2:])


@pytest.mark.parametrize("policy", ["Background", "Foreground", "Orphan"])
def test_is_deleted_as_asked(apps: Apps, policy: str) -> None:
    apps.create(replica_set(2))
    apps.status("replicasets", "web", readyReplicas=2)
    before = names(apps.pods())
    path = apps.objects.path("apps/v1", "replicasets", "web")
    body = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": policy}
    assert apps.objects.backend.request("DELETE", path, body).code in (200, 202)
    eventually(lambda: apps.objects.find("apps/v1", "replicasets", "web") is None)
    if policy == "Orphan":
        assert names(apps.pods()) == before
        assert all("ownerReferences" not in pod["metadata"] for pod in apps.pods())
    else:
        eventually(lambda: not apps.pods())


def test_one_after_another_under_the_same_name(apps: Apps) -> None:
    apps.create(replica_set(2))
    apps.status("replicasets", "web", readyReplicas=2)
    first = set(names(apps.pods()))
    apps.objects.delete("apps/v1", "replicasets", "web")
    eventually(lambda: apps.objects.find("apps/v1", "replicasets", "web") is None)
    apps.create(replica_set(3))
    apps.status("replicasets", "web", replicas=3, readyReplicas=3)
    eventually(lambda: len(apps.pods()) == 3 and not first & set(names(apps.pods())))


def test_replication_controllers_do_the_same(apps: Apps) -> None:
    labels = {"app": "web"}
    body = {
        "apiVersion": "v1",
        "kind": "ReplicationController",
        "metadata": {"name": "web"},
        "spec": {"replicas": 2, "selector": labels, "template": template("web")},
    }
    apps.objects.create("replicationcontrollers", body)

    def settled(size: int) -> Obj | None:
        found = apps.objects.get("v1", "replicationcontrollers", "web")
        status = found.get("status") or {}
        return found if status.get("availableReplicas", 0) == status["replicas"] == size else None

    done = eventually(lambda: settled(2))
    assert done and "terminatingReplicas" not in done["status"]
    [first, _] = apps.pods()
    assert first["metadata"]["ownerReferences"][0]["kind"] == "ReplicationController"
    apps.objects.patch(
        "v1", "replicationcontrollers", "web", {"spec": {"replicas": 1}}, subresource="scale"
    )
    eventually(lambda: settled(1))
    eventually(lambda: len(apps.pods()) == 1)
