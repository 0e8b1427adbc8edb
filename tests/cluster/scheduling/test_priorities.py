"""Priority and preemption: the same cases with kube-scheduler and with ours."""

from __future__ import annotations

from tests.cluster.objects import eventually
from tests.cluster.scheduling.arena import Arena

FULL = {"cpu": "1"}


def test_a_pod_of_higher_priority_takes_the_place(arena: Arena) -> None:
    node = arena.node("a", cpu="1")
    low, high = arena.priority("low", 10), arena.priority("high", 1000)
    arena.pod("victim", FULL, priorityClassName=low, terminationGracePeriodSeconds=60)
    arena.where("victim")
    arena.pod("boss", FULL, priorityClassName=high)
    victim = eventually(
        lambda: (v := arena.get("victim"))["metadata"].get("deletionTimestamp") and v
    )
    target = next(c for c in victim["status"]["conditions"] if c["type"] == "DisruptionTarget")
    assert target["status"] == "True"
    assert target["reason"] == "PreemptionByScheduler"
    assert target["message"] == (
        "default-scheduler: preempting to accommodate a higher priority pod"
    )
    eventually(lambda: arena.get("boss")["status"].get("nominatedNodeName") == node)
    arena.told(
        "boss",
        "0/1 nodes are available: 1 Insufficient cpu. preemption: found a potential placement "
        f"for pod on node {node}, preempting 1 victims",
    )
    uid = arena.get("boss")["metadata"]["uid"]
    said = eventually(lambda: arena.events("victim", "Preempted"))
    assert said == [f"Preempted by pod {uid} on node {node}"]
    arena.delete("victim")
    assert arena.where("boss") == node


def test_no_more_victims_than_needed_and_the_least_important(arena: Arena) -> None:
    arena.node("a", cpu="3")
    classes = {name: arena.priority(name, value) for name, value in (("lo", 1), ("mid", 5))}
    high = arena.priority("high", 1000)
    for name in ("lo", "mid"):
        arena.pod(name, FULL, priorityClassName=classes[name])
        arena.where(name)
    arena.pod("lo2", FULL, priorityClassName=classes["lo"])
    arena.where("lo2")
    arena.pod("boss", FULL, priorityClassName=high)
    arena.where("boss")
    left = arena.objects.names("v1", "pods")
    assert "mid" in left
    assert len(left & {"lo", "lo2"}) == 1


def test_a_pod_that_never_preempts_waits(arena: Arena) -> None:
    arena.node("a", cpu="1")
    low = arena.priority("low", 10)
    polite = arena.priority("polite", 1000, preemptionPolicy="Never")
    arena.pod("first", FULL, priorityClassName=low)
    arena.where("first")
    arena.pod("second", FULL, priorityClassName=polite)
    arena.told(
        "second",
        "0/1 nodes are available: 1 Insufficient cpu. "
        "preemption: not eligible due to preemptionPolicy=Never.",
    )
    assert not arena.get("first")["metadata"].get("deletionTimestamp")


def test_the_important_go_first_when_room_appears(arena: Arena) -> None:
    node = arena.node("a", cpu="1", unschedulable=True)
    low, high = arena.priority("low", 10), arena.priority("high", 1000)
    arena.pod("small", FULL, priorityClassName=low)
    arena.pod("grand", FULL, priorityClassName=high)
    for name in ("small", "grand"):
        eventually(lambda name=name: "unschedulable" in arena.condition(name).get("message", ""))
    arena.cluster.patch("v1", "nodes", node, {"spec": {"unschedulable": None, "taints": None}})
    assert arena.where("grand") == node
    # where the other one's backoff was over earlier, it was there first, and had to go
    small = arena.objects.find("v1", "pods", "small") or {"metadata": {}, "spec": {}}
    assert not small["spec"].get("nodeName") or small["metadata"].get("deletionTimestamp")


def test_a_budget_sends_the_preemptor_elsewhere(arena: Arena) -> None:
    kept, free = arena.node("kept", cpu="1"), arena.node("free", cpu="1")
    low, high = arena.priority("low", 10), arena.priority("high", 1000)
    for name, node in (("guarded", kept), ("open", free)):
        selector = {"kubernetes.io/hostname": node}
        labels = {"app": name}
        arena.pod(name, FULL, labels=labels, priorityClassName=low, nodeSelector=selector)
        arena.where(name)
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "guard"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "guarded"}}},
    }
    arena.objects.create("poddisruptionbudgets", budget)
    arena.pod("boss", FULL, priorityClassName=high)
    assert arena.where("boss") == free
