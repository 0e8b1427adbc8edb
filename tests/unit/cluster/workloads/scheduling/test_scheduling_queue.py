"""Whose turn it is, and which events earn another try."""

from __future__ import annotations

from typing import Any

import pytest
from scheduling_objects import (
    ZONE,
    container,
    expression,
    node,
    node_terms,
    pod,
    pod_term,
    required,
    spread,
)

from corral.cluster.scheduler.placement import (
    Action,
    BackoffPolicy,
    ClusterState,
    GroupEvent,
    NodeEvent,
    PodEvent,
    PodInfo,
    SchedulingQueue,
)
from corral.cluster.scheduler.placement.events import ClusterEvent
from corral.cluster.scheduler.placement.hints import worth_retrying
from corral.kube.types import Obj


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def fresh() -> tuple[SchedulingQueue, Clock]:
    clock = Clock()
    return SchedulingQueue(ClusterState(), clock), clock


def taken(queue: SchedulingQueue) -> PodInfo:
    info = queue.pop()
    assert info is not None
    return info


def test_priority_first_then_age() -> None:
    queue, _ = fresh()
    queue.set(pod("new", created="2026-01-02T00:00:00Z"))
    queue.set(pod("old", created="2026-01-01T00:00:00Z"))
    queue.set(pod("urgent", created="2026-01-03T00:00:00Z", priority=5))
    assert [taken(queue).name for _ in range(3)] == ["urgent", "old", "new"]
    assert queue.pop() is None


def test_gated_pods_wait_for_their_gates() -> None:
    queue, _ = fresh()
    gates = [{"name": "quota"}, {"name": "data"}]
    assert queue.set(pod("p", schedulingGates=gates)) == (
        "waiting for scheduling gates: [quota data]"
    )
    assert queue.pop() is None
    assert queue.set(pod("p", schedulingGates=gates[:1])) == "waiting for scheduling gates: [quota]"
    assert queue.pop() is None
    assert queue.set(pod("p")) == ""
    assert taken(queue).name == "p"


def test_a_parked_pod_waits_for_an_event_and_its_backoff_does_not_hold_up_an_idle_queue() -> None:
    queue, clock = fresh()
    queue.set(pod("p", {"cpu": "1"}))
    queue.park(taken(queue), {"NodeResourcesFit"})
    assert queue.pop() is None
    assert queue.notify(PodEvent.of(pod("q", on="a"), None)) == 1
    queue.set(pod("other", priority=-1))
    # Still backing off: even a pod of lower priority goes first, but nobody waits for nothing.
    assert taken(queue).name == "other"
    assert taken(queue).name == "p"
    clock.now += 100
    assert queue.pop() is None


def test_backoff_doubles_to_its_maximum() -> None:
    policy = BackoffPolicy()
    assert [policy.seconds(n) for n in range(7)] == [0, 1, 2, 4, 8, 10, 10]


def test_errors_back_off_for_real() -> None:
    queue, clock = fresh()
    queue.set(pod("p"))
    queue.retry(taken(queue))
    assert queue.pop() is None and queue.next_ready() == 1.0
    clock.now += 1.0
    assert queue.next_ready() == 0.0
    queue.retry(taken(queue))
    assert queue.next_ready() == 2.0


def test_a_waiting_pod_is_tried_again_after_five_minutes() -> None:
    queue, clock = fresh()
    assert queue.next_ready() is None
    queue.set(pod("p"))
    assert queue.next_ready() == 0.0
    queue.park(taken(queue), {"NodeResourcesFit"})
    assert queue.next_ready() == 300.0
    clock.now += 299.0
    assert queue.pop() is None
    clock.now += 1.0
    assert taken(queue).name == "p"


def test_events_while_in_flight_are_not_missed() -> None:
    queue, _ = fresh()
    queue.set(pod("p", {"cpu": "1"}))
    queue.set(pod("q", created="2026-01-02T00:00:00Z"))
    first, second = taken(queue), taken(queue)
    queue.notify(PodEvent.of(pod("gone", on="a"), None))
    queue.park(first, {"NodeResourcesFit"})
    assert taken(queue) is first
    queue.park(first, {"NodeResourcesFit"})
    # The event of before was heard already.
    assert queue.pop() is None
    queue.park(second, {"NodeResourcesFit"})
    assert taken(queue) is second


def test_a_changed_pod_is_judged_anew() -> None:
    queue, _ = fresh()
    queue.set(pod("p"))
    queue.park(taken(queue), {"TaintToleration"})
    queue.set(pod("p", labels={"x": "y"}))
    assert queue.pop() is None
    queue.set(pod("p", labels={"x": "y"}, tolerations=[{"operator": "Exists"}]))
    assert taken(queue).tolerations


def test_a_change_while_in_flight_counts_too() -> None:
    queue, _ = fresh()
    queue.set(pod("p"))
    info = taken(queue)
    queue.set(pod("p", tolerations=[{"operator": "Exists"}]))
    queue.park(info, {"TaintToleration"})
    assert taken(queue).tolerations


def test_removed_pods_are_gone_wherever_they_were() -> None:
    queue, _ = fresh()
    queue.set(pod("a"))
    queue.set(pod("b"))
    queue.remove(pod("a"))
    info = taken(queue)
    assert info.name == "b" and info in queue and len(queue) == 1
    queue.remove(info)
    queue.park(info, {"NodeResourcesFit"})
    assert len(queue) == 0 and queue.pop() is None


def test_a_group_is_taken_together() -> None:
    queue, _ = fresh()
    label = {"scheduling.x-k8s.io/pod-group": "g"}
    for name in ("b", "a"):
        queue.set(pod(name, labels=label))
    queue.set(pod("gated", labels=label, schedulingGates=[{"name": "x"}]))
    queue.set(pod("other"))
    first = taken(queue)
    assert first.name == "a"
    assert [p.name for p in queue.pop_group(("scheduling.x-k8s.io", "default", "g"))] == ["b"]
    assert taken(queue).name == "other"


def bound(name: str = "q", **more: object) -> Obj:
    return pod(name, on="a", **more)


CPU = pod("p", {"cpu": "3"})
SSD = pod("p", affinity=node_terms({"matchExpressions": [expression("disk", "In", "ssd")]}))
WITH = pod("p", affinity=required("podAffinity", pod_term({"app": "x"})))
APART = pod("p", affinity=required("podAntiAffinity", pod_term({"app": "x"})))
SPREAD = pod("p", topologySpreadConstraints=[spread({"app": "x"})])
PORT = pod("p", containers=[container(ports=[{"hostPort": 80}])])
MEMBER = pod("p", labels={"scheduling.x-k8s.io/pod-group": "g"})
TAINT = [{"key": "k", "effect": "NoSchedule"}]
HATES_P = required("podAntiAffinity", pod_term({"me": "p"}))


def group(minimum: int) -> Obj:
    return {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "metadata": {"name": "g", "namespace": "default"},
        "spec": {"minMember": minimum},
    }


def nodes(old: Obj | None, new: Obj | None) -> NodeEvent:
    return NodeEvent.of(old, new)


def pods(old: Obj | None, new: Obj | None) -> PodEvent:
    return PodEvent.of(old, new)


HINTS: dict[str, tuple[Obj, str, ClusterEvent, bool]] = {
    "fit: a pod goes": (CPU, "NodeResourcesFit", pods(bound(), None), True),
    "fit: a pod ends": (
        CPU,
        "NodeResourcesFit",
        pods(bound(), bound(status={"phase": "Failed"})),
        True,
    ),
    "fit: a pod without a node goes": (CPU, "NodeResourcesFit", pods(pod("q"), None), False),
    "fit: a pod comes": (CPU, "NodeResourcesFit", pods(None, bound()), False),
    "fit: a node comes": (CPU, "NodeResourcesFit", nodes(None, node("a")), True),
    "fit: a node too small comes": (
        CPU,
        "NodeResourcesFit",
        nodes(None, node("a", cpu="2")),
        False,
    ),
    "fit: a node grows": (CPU, "NodeResourcesFit", nodes(node("a", cpu="2"), node("a")), True),
    "fit: a node grows in what is not asked for": (
        CPU,
        "NodeResourcesFit",
        nodes(node("a"), node("a", memory="64Gi")),
        False,
    ),
    "fit: a node takes more pods": (
        CPU,
        "NodeResourcesFit",
        nodes(node("a", pods=1), node("a", pods=2)),
        True,
    ),
    "fit: a pod is scaled down": (
        CPU,
        "NodeResourcesFit",
        pods(pod("q", {"cpu": "2"}, on="a"), pod("q", {"cpu": "1"}, on="a")),
        True,
    ),
    "fit: a pod gives back memory only": (
        CPU,
        "NodeResourcesFit",
        pods(pod("q", {"memory": "2"}, on="a"), pod("q", {"memory": "1"}, on="a")),
        False,
    ),
    "fit: it asks for less itself": (
        CPU,
        "NodeResourcesFit",
        pods(CPU, pod("p", {"cpu": "1"})),
        True,
    ),
    "cordon: lifted": (
        CPU,
        "NodeUnschedulable",
        nodes(node("a", unschedulable=True), node("a")),
        True,
    ),
    "cordon: of a new node": (
        CPU,
        "NodeUnschedulable",
        nodes(None, node("a", unschedulable=True)),
        False,
    ),
    "taint: lifted": (CPU, "TaintToleration", nodes(node("a", taints=TAINT), node("a")), True),
    "taint: still there": (
        CPU,
        "TaintToleration",
        nodes(node("a", taints=TAINT), node("a", taints=TAINT, cpu="9")),
        False,
    ),
    "affinity: a node is labelled": (
        SSD,
        "NodeAffinity",
        nodes(node("a"), node("a", labels={"disk": "ssd"})),
        True,
    ),
    "affinity: another label": (
        SSD,
        "NodeAffinity",
        nodes(node("a"), node("a", labels={"disk": "hdd"})),
        False,
    ),
    "affinity: it matched before": (
        SSD,
        "NodeAffinity",
        nodes(node("a", labels={"disk": "ssd"}), node("a", labels={"disk": "ssd", "x": "y"})),
        False,
    ),
    "ports: freed": (
        PORT,
        "NodePorts",
        pods(bound(containers=PORT["spec"]["containers"]), None),
        True,
    ),
    "ports: another one freed": (
        PORT,
        "NodePorts",
        pods(bound(containers=[container(ports=[{"hostPort": 81}])]), None),
        False,
    ),
    "ports: a node comes": (PORT, "NodePorts", nodes(None, node("a")), True),
    "with: company comes": (WITH, "InterPodAffinity", pods(None, bound(labels={"app": "x"})), True),
    "with: a pod is bound": (
        WITH,
        "InterPodAffinity",
        pods(pod("q", labels={"app": "x"}), bound(labels={"app": "x"})),
        True,
    ),
    "with: somebody else comes": (WITH, "InterPodAffinity", pods(None, bound()), False),
    "with: a pod becomes company": (
        WITH,
        "InterPodAffinity",
        pods(bound(), bound(labels={"app": "x"})),
        True,
    ),
    "with: a node joins a zone": (
        WITH,
        "InterPodAffinity",
        nodes(node("a"), node("a", labels={ZONE: "1"})),
        True,
    ),
    "apart: the other goes": (
        APART,
        "InterPodAffinity",
        pods(bound(labels={"app": "x"}), None),
        True,
    ),
    "apart: somebody else goes": (APART, "InterPodAffinity", pods(bound(), None), False),
    "apart: one that hated this one goes": (
        pod("p", labels={"me": "p"}),
        "InterPodAffinity",
        pods(bound(affinity=HATES_P), None),
        True,
    ),
    "apart: a node leaves its zone": (
        APART,
        "InterPodAffinity",
        nodes(node("a", labels={ZONE: "1"}), node("a")),
        True,
    ),
    "apart: a node joins a zone": (
        APART,
        "InterPodAffinity",
        nodes(node("a"), node("a", labels={ZONE: "1"})),
        False,
    ),
    "spread: one comes": (
        SPREAD,
        "PodTopologySpread",
        pods(None, bound(labels={"app": "x"})),
        True,
    ),
    "spread: one goes": (SPREAD, "PodTopologySpread", pods(bound(labels={"app": "x"}), None), True),
    "spread: in another namespace": (
        SPREAD,
        "PodTopologySpread",
        pods(bound(labels={"app": "x"}, namespace="y"), None),
        False,
    ),
    "spread: a zone goes": (
        SPREAD,
        "PodTopologySpread",
        nodes(node("a", labels={ZONE: "1"}), None),
        True,
    ),
    "spread: a node without zone comes": (
        SPREAD,
        "PodTopologySpread",
        nodes(None, node("a")),
        False,
    ),
    "gang: a sibling comes": (
        MEMBER,
        "GangScheduling",
        pods(None, pod("q", labels=MEMBER["metadata"]["labels"])),
        True,
    ),
    "gang: a stranger comes": (MEMBER, "GangScheduling", pods(None, pod("q")), False),
    "gang: its group comes": (MEMBER, "GangScheduling", GroupEvent.of(None, group(2)), True),
    "gang: fewer are needed": (MEMBER, "GangScheduling", GroupEvent.of(group(3), group(2)), True),
    "gang: more are needed": (MEMBER, "GangScheduling", GroupEvent.of(group(2), group(3)), False),
    "fit: a node gets a device": (
        pod("p", {"nvidia.com/gpu": "1"}),
        "NodeResourcesFit",
        nodes(node("a"), node("a", nvidia_com__gpu="1")),
        True,
    ),
    "fit: a pod gives back a device": (
        pod("p", {"nvidia.com/gpu": "1"}),
        "NodeResourcesFit",
        pods(pod("q", {"nvidia.com/gpu": "2"}, on="a"), pod("q", {"nvidia.com/gpu": "1"}, on="a")),
        True,
    ),
    "name: its node comes": (pod("p", on="a"), "NodeName", nodes(None, node("a")), True),
    "name: another node comes": (pod("p", on="a"), "NodeName", nodes(None, node("b")), False),
    "cordon: it tolerates that now": (
        CPU,
        "NodeUnschedulable",
        pods(CPU, pod("p", {"cpu": "3"}, tolerations=[{"operator": "Exists"}])),
        True,
    ),
    "ports: a pod comes": (PORT, "NodePorts", pods(None, bound()), False),
    "with: a node goes": (WITH, "InterPodAffinity", nodes(node("a"), None), False),
    "with: a node in a zone comes": (
        WITH,
        "InterPodAffinity",
        nodes(None, node("a", labels={ZONE: "1"})),
        True,
    ),
    "apart: any node comes": (APART, "InterPodAffinity", nodes(None, node("a")), True),
    "apart: a pod without a node goes": (
        APART,
        "InterPodAffinity",
        pods(pod("q", labels={"app": "x"}), None),
        False,
    ),
    "apart: its own labels change": (
        APART,
        "InterPodAffinity",
        pods(APART, pod("p", labels={"x": "y"})),
        True,
    ),
    "spread: a pod that does not count changes": (
        SPREAD,
        "PodTopologySpread",
        pods(bound(), bound(labels={"app": "y"})),
        False,
    ),
    "spread: a node moves": (
        SPREAD,
        "PodTopologySpread",
        nodes(node("a", labels={ZONE: "1"}), node("a", labels={ZONE: "2"})),
        True,
    ),
    "spread: a node outside all zones changes": (
        SPREAD,
        "PodTopologySpread",
        nodes(node("a"), node("a", taints=TAINT)),
        False,
    ),
    "spread: its own labels change": (
        SPREAD,
        "PodTopologySpread",
        pods(SPREAD, pod("p", labels={"x": "y"})),
        True,
    ),
    "preemption: nothing helps": (CPU, "DefaultPreemption", nodes(None, node("a")), False),
    "another rule's event": (CPU, "NodeAffinity", pods(bound(), None), False),
}


@pytest.mark.parametrize("case", HINTS)
def test_hints(case: str) -> None:
    item, plugin, event, expected = HINTS[case]
    assert worth_retrying(ClusterState(), PodInfo.parse(item), {plugin}, event) is expected


def test_one_rule_that_sees_a_chance_is_enough() -> None:
    event = PodEvent.of(bound(), None)
    info = PodInfo.parse(CPU)
    assert worth_retrying(ClusterState(), info, {"NodeAffinity", "NodeResourcesFit"}, event)
    assert worth_retrying(ClusterState(), info, set(), event)


def test_updates_that_change_nothing_of_interest() -> None:
    assert NodeEvent.of(node("a"), node("a")).action is Action.NONE
    assert PodEvent.of(bound(), bound()).action is Action.NONE


def test_a_changed_priority_changes_the_order() -> None:
    queue, _ = fresh()
    queue.set(pod("a"))
    queue.set(pod("b"))
    queue.set(pod("b", priority=7))
    assert [taken(queue).name for _ in range(2)] == ["b", "a"]
    assert queue.pop() is None


# Pods that are alike


def parked(count: int, **more: Any) -> tuple[SchedulingQueue, Clock, list[Obj]]:
    queue, clock = fresh()
    pods = [
        pod(f"p{i}", {"cpu": "1"}, created=f"2026-01-01T00:00:{i:02}Z", **more)
        for i in range(count)
    ]
    for item in pods:
        queue.set(item)
    for _ in pods:
        queue.park(taken(queue), ["NodeResourcesFit"])
    clock.now += 100
    return queue, clock, pods


GONE = PodEvent.of(pod("other", on="a"), None)


def test_of_pods_that_are_alike_one_is_woken_and_the_next_follows() -> None:
    queue, _, _ = parked(3)
    assert queue.notify(GONE) == 1
    first = taken(queue)
    assert first.name == "p0"
    assert queue.pop() is None
    queue.follow(first)
    queue.remove(first)
    second = taken(queue)
    assert second.name == "p1"
    queue.park(second, ["NodeResourcesFit"])
    assert queue.pop() is None


def test_the_next_is_woken_when_the_first_is_gone() -> None:
    queue, _, pods = parked(2)
    queue.notify(GONE)
    queue.remove(pods[0])
    assert taken(queue).name == "p1"


def test_a_waiting_pod_that_goes_wakes_nobody() -> None:
    queue, _, pods = parked(2)
    queue.remove(pods[0])
    assert queue.pop() is None
    assert queue.notify(GONE) == 1
    assert taken(queue).name == "p1"


def test_all_wait_for_what_rejected_the_last() -> None:
    queue, clock, _ = parked(2)
    queue.notify(GONE)
    queue.park(taken(queue), ["NodeUnschedulable"])
    clock.now += 100
    assert queue.notify(GONE) == 0
    cordoned = node("a", unschedulable=True)
    assert queue.notify(NodeEvent.of(cordoned, node("a"))) == 1
    first = taken(queue)
    queue.follow(first)
    assert taken(queue).name == "p1"


def test_a_change_sets_a_pod_apart() -> None:
    queue, _, pods = parked(2)
    smaller = pods[1] | {"spec": {"containers": [container({"cpu": "500m"})]}}
    queue.set(smaller)
    assert taken(queue).name == "p1"
    assert queue.notify(GONE) == 1
    assert taken(queue).name == "p0"


def test_with_anti_affinity_around_nobody_is_alike() -> None:
    queue, _, _ = parked(3)
    lonely = required("podAntiAffinity", pod_term({"app": "x"}))
    queue._state.set_node(node("a"))
    queue._state.set_pod(pod("lonely", on="a", affinity=lonely))
    assert queue.notify(GONE) == 3


def test_others_are_told_and_many_only_now_and_then() -> None:
    queue, clock, pods = parked(3)
    info = queue._state.info(pods[0])
    for _ in range(2):
        assert {other.name for other in queue.waiting_like(info)} == {"p1", "p2"}
    assert queue.waiting_like(queue._state.info(pod("stranger"))) == []
    queue, clock, pods = parked(25)
    info = queue._state.info(pods[0])
    assert len(queue.waiting_like(info)) == 24
    assert queue.waiting_like(info) == []
    clock.now += 31
    assert len(queue.waiting_like(info)) == 24


def test_a_pod_can_be_activated() -> None:
    queue, _, pods = parked(2)
    queue.activate(pods[1])
    queue.activate(pod("stranger"))
    assert taken(queue).name == "p1"


def test_backing_off_pods_of_one_second_go_by_priority() -> None:
    queue, clock = fresh()
    for name, priority in (("low", 0), ("high", 5)):
        queue.set(pod(name, priority=priority))
    for _ in range(2):
        queue.park(taken(queue), ["NodeUnschedulable"])
        clock.now += 0.01
    assert queue.notify(NodeEvent.of(node("a", unschedulable=True), node("a"))) == 2
    assert taken(queue).name == "high"


@pytest.mark.parametrize(
    ("event", "rules"),
    [
        (PodEvent.of(None, pod("x", on="a")), ["NodeResourcesFit", "NodePorts"]),
        (PodEvent.of(pod("x", on="a"), None), ["GangScheduling"]),
        (PodEvent.of(pod("x", on="a"), pod("x", on="a")), ["InterPodAffinity"]),
        (NodeEvent.of(None, node("a")), ["GangScheduling"]),
    ],
)
def test_events_that_concern_no_rule_wake_nobody(event: ClusterEvent, rules: list[str]) -> None:
    queue, _ = fresh()
    queue.set(pod("p"))
    queue.park(taken(queue), rules)
    assert queue.listening
    assert queue.notify(event) == 0
