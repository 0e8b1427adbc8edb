"""ReplicaSets: creation, the order of deletion, status."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from corral.cluster.workloads.deployment import (
    claim_pods,
    is_available,
    next_availability,
    plan_replicas,
    replica_status,
    terminating_count,
)
from corral.kube.types import Obj

NOW = datetime(2026, 3, 4, 12, 0, 0, tzinfo=UTC)


def ago(seconds: float) -> str:
    return (NOW - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def replica_set(replicas: int = 3, **extra: Any) -> Obj:
    return {
        "metadata": {"name": "web", "namespace": "ns", "uid": "rs", "generation": 2,
                     **extra.pop("meta", {})},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"a": "b"}},
                 "template": {"metadata": {"labels": {"a": "b", "c": "d"}}, "spec": {"x": 1}},
                 **extra.pop("spec", {})},
        "status": extra.pop("status", {}),
    }  # fmt: skip


def pod(uid: str, phase: str = "Running", *, node: str = "n", ready: float | None = None,
        restarts: int = 0, age: float | None = 100, **meta: Any) -> Obj:  # fmt: skip
    conditions = []
    if ready is not None:
        conditions = [{"type": "Ready", "status": "True", "lastTransitionTime": ago(ready)}]
    return {
        "metadata": {"name": uid, "namespace": "ns", "uid": uid, "labels": {"a": "b", "c": "d"},
                     "creationTimestamp": ago(age) if age is not None else None,
                     "ownerReferences": [{"uid": "rs", "controller": True}], **meta},
        "spec": {"nodeName": node},
        "status": {"phase": phase, "conditions": conditions,
                   "containerStatuses": [{"restartCount": restarts}]},
    }  # fmt: skip


def test_creates_what_is_missing() -> None:
    plan = plan_replicas(replica_set(3), [pod("a")], [], now=NOW)
    assert len(plan.create) == 2 and plan.delete == ()
    assert plan.create[0]["metadata"] == {
        "generateName": "web-", "namespace": "ns", "labels": {"a": "b", "c": "d"},
        "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web",
                             "uid": "rs", "controller": True, "blockOwnerDeletion": True}],
    }  # fmt: skip


def test_at_most_500_at_once() -> None:
    assert len(plan_replicas(replica_set(900), [], [], now=NOW).create) == 500
    many = [pod(f"p{i}") for i in range(600)]
    assert len(plan_replicas(replica_set(0), many, [], now=NOW).delete) == 500


def test_nothing_while_being_deleted() -> None:
    gone = replica_set(3, meta={"deletionTimestamp": ago(1)})
    assert plan_replicas(gone, [], [], now=NOW).create == ()


COST = "controller.kubernetes.io/pod-deletion-cost"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (pod("z", node=""), pod("a")),
        (pod("z", "Pending"), pod("a", "Running")),
        (pod("z", "Unknown"), pod("a", "Running")),
        (pod("z"), pod("a", ready=9)),
        (pod("z", annotations={COST: "-5"}), pod("a")),
        (pod("z"), pod("a", annotations={COST: "1"})),
        (pod("z", node="busy"), pod("a")),
        (pod("z", ready=5), pod("a", ready=5000)),
        (pod("a", ready=500), pod("z", ready=510)),
        (pod("z", restarts=3), pod("a")),
        (pod("z", age=10), pod("a", age=100000)),
        (pod("a", age=100), pod("z", age=101)),
        (pod("z", age=None), pod("a")),
    ],
    ids=["unassigned", "pending", "unknown", "not ready", "low cost", "lower than a cost",
         "crowded node", "ready for less long", "about as long: uid", "restarts", "younger",
         "about as old: uid", "undated"],
)  # fmt: skip
def test_order_of_deletion(first: Obj, second: Obj) -> None:
    related = [pod("r1", node="busy"), pod("r2", node="busy")]
    for pods in ([first, second], [second, first]):
        plan = plan_replicas(replica_set(1), pods, related, now=NOW)
        assert plan.delete == (first,)


def test_claims_only_active_pods() -> None:
    orphan = pod("o", ownerReferences=[])
    found = claim_pods(replica_set(), [pod("a"), pod("b", "Failed"), orphan])
    assert [p["metadata"]["uid"] for p in found.owned] == ["a"]
    assert [p["metadata"]["uid"] for p, _ in found.adopt] == ["o"]


@pytest.mark.parametrize(
    ("ready", "wait", "available"),
    [(None, 0, False), (0, 0, True), (5, 10, False), (10, 10, True), (11, 10, True)],
)
def test_availability(ready: float | None, wait: int, available: bool) -> None:
    assert is_available(pod("a", ready=ready), wait, NOW) is available


def test_next_availability() -> None:
    pods = [pod("a", ready=3), pod("b", ready=8), pod("c", ready=20), pod("d")]
    assert next_availability(pods, 10, NOW) == 2
    assert next_availability(pods, 0, NOW) is None
    assert next_availability([pod("d")], 10, NOW) is None


def test_status() -> None:
    pods = [pod("a", ready=20), pod("b", ready=2), pod("c", labels={"a": "b"})]
    found = replica_status(replica_set(spec={"minReadySeconds": 10}), pods, 1, now=NOW)
    assert found == {"replicas": 3, "fullyLabeledReplicas": 2, "readyReplicas": 2,
                     "availableReplicas": 1, "observedGeneration": 2,
                     "terminatingReplicas": 1}  # fmt: skip
    same = replica_set(spec={"minReadySeconds": 10}, status=found)
    assert replica_status(same, pods, 1, now=NOW) is None


def test_failure_condition_comes_and_goes() -> None:
    found = replica_status(replica_set(2), [], 0, now=NOW, failure="quota")
    assert found is not None
    assert found["conditions"] == [{
        "type": "ReplicaFailure", "status": "True", "lastTransitionTime": ago(0),
        "reason": "FailedCreate", "message": "quota"}]  # fmt: skip
    again = replica_set(2, status=found)
    assert replica_status(again, [], 0, now=NOW, failure="other") is None
    cleared = replica_status(again, [], 0, now=NOW)
    assert cleared is not None and "conditions" not in cleared
    down = replica_status(replica_set(0), [pod("a")], 0, now=NOW, failure="x")
    assert down is not None and down["conditions"][0]["reason"] == "FailedDelete"


def test_terminating_pods() -> None:
    gone = {"deletionTimestamp": ago(1)}
    assert terminating_count([pod("a"), pod("b", **gone), pod("c", "Failed", **gone)]) == 1
