"""Daemon sets: nodes, tolerations, updates by deletion and by surge, status, history."""

from __future__ import annotations

import copy
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from corral.cluster.workloads.daemonset import (
    NodeBackoff,
    claim_pods,
    daemon_status,
    next_look,
    node_check,
    plan_history,
    plan_pods,
    revisions_to_drop,
    target_node,
)
from corral.kube.types import Obj

NOW = datetime(2026, 3, 4, 12, 0, 0, tzinfo=UTC)


def ago(seconds: float) -> str:
    return (NOW - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def daemon(*, surge: Any = None, unavailable: Any = 1, strategy: str = "RollingUpdate",
           pod_spec: Any = None, status: Any = None, **spec: Any) -> Obj:  # fmt: skip
    rolling = {"maxUnavailable": unavailable}
    if surge is not None:
        rolling["maxSurge"] = surge
    return {
        "metadata": {"name": "agent", "namespace": "ns", "uid": "ds", "generation": 3},
        "spec": {"selector": {"matchLabels": {"a": "b"}},
                 "updateStrategy": {"type": strategy, "rollingUpdate": rolling},
                 "template": {"metadata": {"labels": {"a": "b"}},
                              "spec": {"containers": [], **(pod_spec or {})}}, **spec},
        "status": status or {},
    }  # fmt: skip


def node(name: str, *taints: tuple[str, str], **labels: str) -> Obj:
    return {"metadata": {"name": name, "labels": labels},
            "spec": {"taints": [{"key": k, "effect": e} for k, e in taints]}}  # fmt: skip


def pod(name: str, at: str, *, short: str = "new", phase: str = "Running", ready: float | None = 99,
        deleting: bool = False, age: int = 100, assigned: bool = True) -> Obj:  # fmt: skip
    conditions = []
    if ready is not None:
        conditions = [{"type": "Ready", "status": "True", "lastTransitionTime": ago(ready)}]
    meta: Obj = {"name": name, "namespace": "ns", "uid": name, "creationTimestamp": ago(age),
                 "labels": {"a": "b", "controller-revision-hash": short},
                 "ownerReferences": [{"uid": "ds", "controller": True}]}  # fmt: skip
    if deleting:
        meta["deletionTimestamp"] = ago(1)
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [at]}]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    spec: Obj = {"affinity": {"nodeAffinity": required}}
    if assigned:
        spec["nodeName"] = at
    return {"metadata": meta, "spec": spec, "status": {"phase": phase, "conditions": conditions}}


def plan(subject: Obj, nodes: list[Obj], pods: list[Obj], **options: Any) -> tuple[Any, Any]:
    found = plan_pods(subject, nodes, pods, "new", now=NOW,
                      backoff=options.get("backoff") or NodeBackoff())  # fmt: skip
    return [target_node(p) for p in found.create], [p["metadata"]["name"] for p in found.delete]


NODES = [node("n1"), node("n2"), node("n3")]

NODE_CASES: dict[str, tuple[Obj, Obj, tuple[bool, bool]]] = {
    "plain": (daemon(), node("n"), (True, True)),
    "selector matches": (daemon(pod_spec={"nodeSelector": {"x": "y"}}), node("n", x="y"),
                         (True, True)),
    "selector does not": (daemon(pod_spec={"nodeSelector": {"x": "y"}}), node("n"),
                          (False, False)),
    "named node": (daemon(pod_spec={"nodeName": "n"}), node("n"), (True, True)),
    "another named node": (daemon(pod_spec={"nodeName": "m"}), node("n"), (False, False)),
    "untolerated NoSchedule": (daemon(), node("n", ("k", "NoSchedule")), (False, True)),
    "untolerated NoExecute": (daemon(), node("n", ("k", "NoExecute")), (False, False)),
    "PreferNoSchedule": (daemon(), node("n", ("k", "PreferNoSchedule")), (True, True)),
    "tolerated": (daemon(pod_spec={"tolerations": [{"operator": "Exists"}]}),
                  node("n", ("k", "NoExecute")), (True, True)),
    **{
        f"node trouble {name}": (
            daemon(), node("n", (f"node.kubernetes.io/{name}", effect)), (True, True))
        for name, effect in [
            ("not-ready", "NoExecute"), ("unreachable", "NoExecute"),
            ("disk-pressure", "NoSchedule"), ("memory-pressure", "NoSchedule"),
            ("pid-pressure", "NoSchedule"), ("unschedulable", "NoSchedule")]
    },
    "no network": (daemon(), node("n", ("node.kubernetes.io/network-unavailable", "NoSchedule")),
                   (False, True)),
    "no network, host network": (
        daemon(pod_spec={"hostNetwork": True}),
        node("n", ("node.kubernetes.io/network-unavailable", "NoSchedule")), (True, True)),
}  # fmt: skip


@pytest.mark.parametrize("name", NODE_CASES)
def test_nodes(name: str) -> None:
    subject, one, expected = NODE_CASES[name]
    assert node_check(subject)(one) == expected


# name: (daemon set, nodes, pods, expected created on, expected deleted)
CASES: dict[str, tuple[Obj, list[Obj], list[Obj], list[str], list[str]]] = {
    "one for every node": (daemon(), NODES, [pod("a", "n2")], ["n1", "n3"], []),
    "no node": (daemon(), [], [], [], []),
    "two on a node: the older stays": (
        daemon(), NODES[:1], [pod("young", "n1", age=1), pod("old", "n1")], [], ["young"]),
    "two on a node: the one with a node stays": (
        daemon(), NODES[:1], [pod("waits", "n1", assigned=False), pod("runs", "n1", age=1)],
        [], ["waits"]),
    "a pod that may not stay": (
        daemon(), [node("n1", ("k", "NoExecute"))], [pod("a", "n1")], [], ["a"]),
    "a pod that may stay though none would come": (
        daemon(), [node("n1", ("k", "NoSchedule"))], [pod("a", "n1")], [], []),
    "failed pods go": (daemon(), NODES[:1], [pod("a", "n1", phase="Failed")], [], ["a"]),
    "succeeded pods go": (daemon(), NODES[:1], [pod("a", "n1", phase="Succeeded")], [], ["a"]),
    "a pod going down keeps its place": (
        daemon(), NODES[:1], [pod("a", "n1", deleting=True)], [], []),
    "a pod that is gone but for its object does not": (
        daemon(), NODES[:1], [pod("a", "n1", deleting=True, phase="Failed")], ["n1"], []),
    "pods that wait for a node that is gone": (
        daemon(), NODES[:1], [pod("a", "n1"), pod("b", "gone", assigned=False)], [], ["b"]),
    "pods on a node that is gone are left to others": (
        daemon(strategy="OnDelete"), NODES[:1], [pod("a", "n1"), pod("b", "gone")], [], []),
    # rolling update
    "one old pod at a time": (
        daemon(), NODES, [pod(f"p{i}", f"n{i}", short="old") for i in (1, 2, 3)], [], ["p1"]),
    "two at a time": (
        daemon(unavailable=2), NODES, [pod(f"p{i}", f"n{i}", short="old") for i in (1, 2, 3)],
        [], ["p1", "p2"]),
    "a percentage is rounded up": (
        daemon(unavailable="34%"), NODES,
        [pod(f"p{i}", f"n{i}", short="old") for i in (1, 2, 3)], [], ["p1", "p2"]),
    "none while a new one is not there yet": (
        daemon(), NODES, [pod("p1", "n1", ready=None), pod("p2", "n2", short="old"),
                          pod("p3", "n3", short="old")], [], []),
    "a broken old one is no loss": (
        daemon(), NODES, [pod("p1", "n1", ready=None), pod("p2", "n2", short="old", ready=None),
                          pod("p3", "n3", short="old")], [], ["p2"]),
    "OnDelete waits": (
        daemon(strategy="OnDelete"), NODES,
        [pod(f"p{i}", f"n{i}", short="old") for i in (1, 2, 3)], [], []),
    "updates wait for missing pods": (
        daemon(), NODES, [pod("p1", "n1", short="old"), pod("p2", "n2", short="old")],
        ["n3"], []),
    # surge
    "surge starts the new pod first": (
        daemon(surge=1, unavailable=0), NODES,
        [pod(f"p{i}", f"n{i}", short="old") for i in (1, 2, 3)], ["n1"], []),
    "surge: the old one stays until the new one works": (
        daemon(surge=1, unavailable=0), NODES[:1],
        [pod("o", "n1", short="old"), pod("n", "n1", ready=None, age=1)], [], []),
    "surge: then it goes": (
        daemon(surge=1, unavailable=0), NODES[:1],
        [pod("o", "n1", short="old"), pod("n", "n1", age=1)], [], ["o"]),
    "surge: an old one that is not ready goes": (
        daemon(surge=1, unavailable=0), NODES[:1],
        [pod("o", "n1", short="old", ready=None), pod("n", "n1", ready=None, age=1)], [], ["o"]),
    "surge: broken old pods are replaced at once": (
        daemon(surge=1, unavailable=0), NODES,
        [pod("p1", "n1", short="old", ready=None), pod("p2", "n2", short="old", ready=None),
         pod("p3", "n3", short="old")], ["n1", "n2", "n3"], []),
    "surge: a pod going down is replaced at once": (
        daemon(surge=1, unavailable=0), NODES[:1], [pod("a", "n1", deleting=True)], ["n1"], []),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_plan(name: str) -> None:
    subject, nodes, pods, created, deleted = CASES[name]
    assert plan(subject, nodes, pods) == (created, deleted)


def test_failed_pods_wait_longer_each_time() -> None:
    backoff = NodeBackoff()
    broken = [pod("a", "n1", phase="Failed")]
    assert plan(daemon(), NODES[:1], broken, backoff=backoff) == ([], ["a"])
    again = plan_pods(daemon(), NODES[:1], broken, "new", now=NOW, backoff=backoff)
    assert again.delete == () and again.requeue_after == 1
    later = NOW + timedelta(seconds=1)
    third = plan_pods(daemon(), NODES[:1], broken, "new", now=later, backoff=backoff)
    assert len(third.delete) == 1
    assert third.events[0].message == (
        "Found failed daemon pod ns/a on node n1, will try to kill it"
    )
    fourth = plan_pods(daemon(), NODES[:1], broken, "new", now=later, backoff=backoff)
    assert fourth.requeue_after == 2
    backoff.forget(later + timedelta(seconds=1))
    assert plan(daemon(), NODES[:1], broken, backoff=backoff) == ([], ["a"])


def test_body() -> None:
    subject = daemon(pod_spec={"affinity": {"podAffinity": {"x": 1}}})
    subject["metadata"]["annotations"] = {"deprecated.daemonset.template.generation": "4"}
    (body,) = plan_pods(subject, NODES[:1], [], "abc", now=NOW, backoff=NodeBackoff()).create
    assert body["metadata"]["generateName"] == "agent-"
    assert body["metadata"]["labels"] == {
        "a": "b", "pod-template-generation": "4", "controller-revision-hash": "abc"}  # fmt: skip
    assert body["spec"]["affinity"] == {
        "podAffinity": {"x": 1},
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchFields": [
                {"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]}},
    }  # fmt: skip
    assert len(body["spec"]["tolerations"]) == 6


def test_status() -> None:
    nodes = [*NODES, node("n4", ("k", "NoSchedule"))]
    pods = [pod("a", "n1"), pod("b", "n2", short="old", ready=2), pod("c", "n4")]
    subject = daemon(minReadySeconds=10)
    found = daemon_status(subject, nodes, pods, "new", now=NOW)
    assert found == {
        "currentNumberScheduled": 2, "numberMisscheduled": 1, "desiredNumberScheduled": 3,
        "numberReady": 2, "observedGeneration": 3, "updatedNumberScheduled": 1,
        "numberAvailable": 1, "numberUnavailable": 2}  # fmt: skip
    subject["status"] = found
    assert daemon_status(subject, nodes, pods, "new", now=NOW) is None
    assert next_look(subject, pods, NOW) == 8


def test_history() -> None:
    subject = daemon(revisionHistoryLimit=0)
    first = plan_history(subject, [])
    assert first.create and first.current["revision"] == 1
    known = [copy.deepcopy(first.current)]
    assert plan_history(subject, known).current is known[0]
    subject["spec"]["template"]["spec"]["hostNetwork"] = True
    second = plan_history(subject, known)
    assert second.create and second.current["revision"] == 2
    assert second.short_hash != first.short_hash
    known.append(copy.deepcopy(second.current))
    del subject["spec"]["template"]["spec"]["hostNetwork"]
    back = plan_history(subject, known)
    assert back.update and back.current["revision"] == 3
    assert back.short_hash == first.short_hash
    assert revisions_to_drop(subject, known, [], back.current) == [known[1]]
    used = [pod("a", "n1", short=second.short_hash)]
    assert revisions_to_drop(subject, known, used, back.current) == []


def test_claims() -> None:
    stray = pod("s", "n1")
    stray["metadata"]["labels"] = {}
    found = claim_pods(daemon(), [pod("a", "n1"), stray])
    assert len(found.owned) == 1 and len(found.release) == 1
