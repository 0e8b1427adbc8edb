"""Who must go, from which node, and when nobody."""

from __future__ import annotations

from random import Random

import pytest
from scheduling_objects import (
    HOST,
    budget,
    cluster,
    container,
    node,
    outcome,
    pod,
    pod_term,
    required,
    spread,
)

from corral.cluster.scheduler.placement import (
    ClusterState,
    Placement,
    Preemption,
    find_node,
    schedule,
)
from corral.cluster.scheduler.placement.pods import PodInfo
from corral.cluster.scheduler.placement.preemption import Victims, pick_node
from corral.kube.types import Obj


def run(state: ClusterState, item: Obj, *budgets: Obj) -> tuple[str, set[str], int]:
    found = schedule(state, item, Random(0), budgets=budgets)
    assert isinstance(found, Preemption), str(found)
    return found.victims.node, {v.name for v in found.victims.pods}, found.victims.violations


def low(name: str, cpu: str, where: str = "a", priority: int = 0, **more: object) -> Obj:
    return pod(name, {"cpu": cpu}, on=where, priority=priority, **more)


HIGH = pod("p", {"cpu": "3"}, priority=100)

VICTIMS: dict[str, tuple[list[Obj], Obj, set[str]]] = {
    "the only one": ([low("x", "4")], HIGH, {"x"}),
    "no more than needed, the more important stays": (
        [low("x", "1"), low("y", "1", priority=5), low("z", "2")],
        HIGH,
        {"x", "z"},
    ),
    "of equals the younger goes": (
        [
            low("old", "2", status={"startTime": "2026-01-01T00:00:00Z"}),
            low("new", "2", status={"startTime": "2026-01-02T00:00:00Z"}),
        ],
        pod("p", {"cpu": "2"}, priority=100),
        {"new"},
    ),
    "equal and higher priority are safe": (
        [low("same", "1", priority=100), low("x", "2"), low("y", "1")],
        pod("p", {"cpu": "2"}, priority=100),
        {"x"},
    ),
    "a host port": (
        [
            pod("x", on="a", priority=0, containers=[container(ports=[{"hostPort": 80}])]),
            low("y", "1"),
        ],
        pod("p", priority=1, containers=[container(ports=[{"hostPort": 80}])]),
        {"x"},
    ),
    "one that stands in the way by anti-affinity": (
        [low("x", "1", labels={"app": "x"}), low("y", "1")],
        pod("p", priority=1, affinity=required("podAntiAffinity", pod_term({"app": "x"}, HOST))),
        {"x"},
    ),
    "one whose own anti-affinity is in the way": (
        [
            low("x", "1", affinity=required("podAntiAffinity", pod_term({"app": "p"}, HOST))),
            low("y", "1"),
        ],
        pod("p", priority=1, labels={"app": "p"}),
        {"x"},
    ),
}


@pytest.mark.parametrize("case", VICTIMS)
def test_victims_on_one_node(case: str) -> None:
    placed, item, expected = VICTIMS[case]
    state = cluster([node("a")], placed)
    assert run(state, item) == ("a", expected, 0)
    # Looking changes nothing.
    assert len(state.nodes["a"].pods) == len(placed)
    assert run(state, item) == ("a", expected, 0)


def test_topology_spread_counts_without_the_victims() -> None:
    foo = {"foo": ""}
    nodes = [node("a", cpu="2"), node("b", cpu="2")]
    placed = [
        low("a1", "1", labels=foo),
        low("a2", "1", labels=foo),
        low("b1", "2", where="b", priority=50),
    ]
    item = pod(
        "p", {"cpu": "1"}, priority=10, labels=foo,
        topologySpreadConstraints=[spread(foo, key=HOST)],
    )  # fmt: skip
    # Node b is full of a more important pod; on a the skew is fine once both have gone.
    assert run(cluster(nodes, placed), item) == ("a", {"a1", "a2"}, 0)


NODES: dict[str, tuple[list[Obj], list[Obj], str]] = {
    "fewest violations": (
        [low("x", "4", labels={"app": "guarded"}), low("y", "4", "b", priority=50)],
        [budget({"app": "guarded"}, 0)],
        "b",
    ),
    "lowest highest priority": (
        [low("x", "2", priority=9), low("x2", "2"), low("y", "4", "b", priority=8)],
        [],
        "b",
    ),
    "lowest sum of priorities": (
        [
            low("x", "2", priority=9),
            low("x2", "2", priority=8),
            low("y", "2", "b", priority=9),
            low("y2", "2", "b", priority=7),
        ],
        [],
        "b",
    ),
    "fewest pods": ([low("x", "2"), low("x2", "2"), low("y", "4", "b")], [], "b"),
    "latest start": (
        [
            low("x", "4", status={"startTime": "2026-01-01T00:00:00Z"}),
            low("y", "4", "b", status={"startTime": "2026-01-02T00:00:00Z"}),
        ],
        [],
        "b",
    ),
}


@pytest.mark.parametrize("case", NODES)
def test_the_node_with_the_least_harm(case: str) -> None:
    placed, budgets, expected = NODES[case]
    state = cluster([node("a"), node("b")], placed)
    item = pod("p", {"cpu": "4"}, priority=100)
    assert run(state, item, *budgets)[0] == expected


def test_negative_priorities_do_not_make_more_victims_better() -> None:
    def info(name: str) -> PodInfo:
        return PodInfo.parse(pod(name, priority=-5))

    many = Victims("a", (info("x"), info("y")), 0)
    assert pick_node([many, Victims("b", (info("z"),), 0)]).node == "b"


BUDGETS: dict[str, tuple[list[Obj], set[str], int]] = {
    "the guarded one is spared": ([budget({"app": "x"}, 0)], {"y"}, 0),
    "one eviction is allowed": ([budget({"app": "x"}, 1)], {"x"}, 0),
    "an eviction under way counts already": (
        [budget({"app": "x"}, 0, disrupted={"x": "now"})],
        {"x"},
        0,
    ),
    "both guarded": ([budget({"app": "x"}, 0), budget({"app": "y"}, 0)], {"x"}, 1),
}


@pytest.mark.parametrize("case", BUDGETS)
def test_disruption_budgets(case: str) -> None:
    budgets, victims, violations = BUDGETS[case]
    old = {"startTime": "2026-01-01T00:00:00Z"}
    placed = [
        low("y", "2", labels={"app": "y"}, status=old),
        low("x", "2", labels={"app": "x"}),
    ]
    item = pod("p", {"cpu": "2"}, priority=100)
    assert run(cluster([node("a")], placed), item, *budgets) == ("a", victims, violations)


def test_a_nominated_pod_keeps_its_room_from_lower_priorities() -> None:
    state = cluster([node("a"), node("b", cpu="1")])
    state.nominate(pod("coming", {"cpu": "4"}, priority=50), "a")
    assert outcome(state, pod("p", {"cpu": "1"}, priority=10)) == "b"
    assert outcome(state, pod("p2", {"cpu": "2"}, priority=10)).startswith(
        "0/2 nodes are available: 2 Insufficient cpu."
    )
    assert outcome(state, pod("p3", {"cpu": "2"}, priority=60)) == "a"


def test_the_nominated_pod_takes_its_node_although_others_score_better() -> None:
    state = cluster([node("a", cpu="4"), node("b", cpu="64", memory="512Gi")])
    item = pod("p", {"cpu": "3"}, priority=50)
    state.set_pod(item)
    state.nominate(item, "a")
    assert outcome(state, item) == "a"


def test_preemption_withdraws_nominations_of_lower_priority() -> None:
    state = cluster([node("a")], [low("x", "4")])
    state.nominate(pod("coming", {"cpu": "4"}, priority=50), "a")
    found = schedule(state, pod("p", {"cpu": "3"}, priority=100), Random(0))
    assert isinstance(found, Preemption)
    assert [info.name for info in found.displaced] == ["coming"]


def terminating(reason: str) -> Obj:
    condition = {"type": "DisruptionTarget", "status": "True", "reason": reason}
    return low(
        "x",
        "4",
        meta={"deletionTimestamp": "2026-01-01T00:00:00Z"},
        status={"conditions": [condition]},
    )


def test_no_second_preemption_while_victims_are_leaving() -> None:
    state = cluster([node("a")], [terminating("PreemptionByScheduler")])
    item = pod("p", {"cpu": "3"}, priority=100, status={"nominatedNodeName": "a"})
    assert outcome(state, item) == (
        "0/1 nodes are available: 1 Insufficient cpu. preemption: not eligible due to a "
        "terminating pod on the nominated node."
    )
    again = cluster([node("a")], [terminating("EvictionByEvictionAPI")])
    assert isinstance(schedule(again, item, Random(0)), Preemption)


def test_a_node_that_can_never_fit_is_no_candidate() -> None:
    state = cluster([node("a", cpu="2"), node("b")], [low("x", "2"), low("y", "4", "b")])
    assert run(state, HIGH) == ("b", {"y"}, 0)


def test_preempting_then_placing() -> None:
    state = cluster([node("a")], [low("x", "4")])
    state.set_pod(HIGH)
    found = schedule(state, HIGH, Random(0))
    assert isinstance(found, Preemption)
    state.nominate(HIGH, found.victims.node)
    for victim in found.victims.pods:
        state.remove_pod(victim)
    placed = schedule(state, HIGH, Random(0))
    assert isinstance(placed, Placement) and placed.node == "a"
    state.assume(HIGH, "a")
    assert not state.nominated_on("a")


def test_a_nominated_node_that_has_become_unfit_does_not_stop_preemption() -> None:
    tainted = node("a", taints=[{"key": "k", "effect": "NoSchedule"}])
    state = cluster(
        [tainted, node("b")], [terminating("PreemptionByScheduler"), low("y", "4", "b")]
    )
    item = pod("p", {"cpu": "3"}, priority=100, status={"nominatedNodeName": "a"})
    assert run(state, item) == ("b", {"y"}, 0)


def test_a_terminating_pod_of_another_cause_does_not_stop_preemption() -> None:
    leaving = low("x", "4", meta={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    item = pod("p", {"cpu": "3"}, priority=100, status={"nominatedNodeName": "a"})
    assert run(cluster([node("a")], [leaving]), item) == ("a", {"x"}, 0)


def test_budgets_without_selector_or_elsewhere_do_not_matter() -> None:
    elsewhere = budget({"app": "x"}, 0)
    elsewhere["metadata"]["namespace"] = "other"
    empty = budget({}, 0)
    state = cluster([node("a")], [low("x", "4", labels={"app": "x"})])
    assert run(state, HIGH, elsewhere, empty) == ("a", {"x"}, 0)


def test_enough_candidates_are_enough() -> None:
    names = [f"n{i}" for i in range(150)]
    state = cluster([node(n) for n in names], [low(f"x{n}", "4", n) for n in names])
    found = schedule(state, HIGH, Random(3))
    assert isinstance(found, Preemption) and len(found.victims.pods) == 1
    assert found.error.rejections.keys() == set(names)


def test_a_nominated_node_without_leaving_pods_is_cleared_again() -> None:
    item = pod("p", {"cpu": "3"}, priority=100, status={"nominatedNodeName": "a"})
    assert run(cluster([node("a")], [low("x", "4")]), item) == ("a", {"x"}, 0)


def test_victims_of_another_namespace_do_not_count_for_spreading() -> None:
    foo = {"foo": ""}
    placed = [low("x", "4", labels=foo, namespace="other"), low("y", "4", "b", priority=100)]
    item = pod(
        "p",
        {"cpu": "1"},
        priority=10,
        labels=foo,
        topologySpreadConstraints=[spread(foo, key=HOST)],
    )
    assert run(cluster([node("a"), node("b")], placed), item) == ("a", {"x"}, 0)


def test_finding_a_node_alone_evicts_nobody() -> None:
    found = find_node(cluster([node("a")], [low("x", "4")]), HIGH, Random(0))
    assert str(found) == "0/1 nodes are available: 1 Insufficient cpu."
