"""The whole message of a pod that finds no node."""

from __future__ import annotations

import pytest
from scheduling_objects import cluster, node, outcome, pod

from corral.cluster.scheduler.placement import ClusterState, FitError, Rejection
from corral.kube.types import Obj

NO_HELP = "preemption: 0/{n} nodes are available: {n} Preemption is not helpful for scheduling."
TAINT = [{"key": "k", "effect": "NoSchedule"}]

CASES: dict[str, tuple[list[Obj], list[Obj], Obj, str]] = {
    "nothing that evicting could help": (
        [node("a", cpu="1"), node("b", taints=TAINT), node("c", taints=TAINT)],
        [],
        pod("p", {"cpu": "2"}),
        "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) had untolerated taint(s). "
        + NO_HELP.format(n=3),
    ),
    "room is held by pods of the same priority": (
        [node("a"), node("b", taints=TAINT)],
        [pod("q", {"cpu": "4"}, on="a")],
        pod("p", {"cpu": "2"}),
        "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s). "
        "preemption: 0/2 nodes are available: 1 No preemption victims found for incoming pod, "
        "1 Preemption is not helpful for scheduling.",
    ),
    "two shortages on one node count twice": (
        [node("a", cpu="1", memory="1Gi")],
        [],
        pod("p", {"cpu": "2", "memory": "2Gi"}),
        "0/1 nodes are available: 1 Insufficient cpu, 1 Insufficient memory. "
        + NO_HELP.format(n=1),
    ),
    "counts are sorted as text": (
        [node(f"a{i}", unschedulable=True) for i in range(10)]
        + [node(f"b{i}", taints=TAINT) for i in range(2)],
        [],
        pod("p"),
        "0/12 nodes are available: 10 node(s) were unschedulable, "
        "2 node(s) had untolerated taint(s). " + NO_HELP.format(n=12),
    ),
    "never to preempt": (
        [node("a")],
        [pod("q", {"cpu": "4"}, on="a", priority=0)],
        pod("p", {"cpu": "2"}, priority=9, preemptionPolicy="Never"),
        "0/1 nodes are available: 1 Insufficient cpu. "
        "preemption: not eligible due to preemptionPolicy=Never.",
    ),
    "room can be made": (
        [node("a")],
        [pod("q", {"cpu": "4"}, on="a", priority=0)],
        pod("p", {"cpu": "2"}, priority=9),
        "0/1 nodes are available: 1 Insufficient cpu. preemption: found a potential placement for "
        "pod on node a, preempting 1 victims",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_message(case: str) -> None:
    nodes, pods, item, expected = CASES[case]
    assert outcome(cluster(nodes, pods), item) == expected


def test_no_nodes_at_all() -> None:
    assert outcome(ClusterState(), pod("p")) == "no nodes available to schedule pods"


def test_prefilter_message_replaces_reasons() -> None:
    rejections = {"a": Rejection("X", ("said twice",))}
    error = FitError(1, rejections, prefilter="failed early", postfilter="and then")
    assert str(error) == "0/1 nodes are available: failed early. and then"


def test_plugins_are_those_of_all_nodes() -> None:
    error = FitError(3, {"a": Rejection("X", ()), "b": Rejection("Y", ())}, Rejection("Z,W", ()))
    assert error.plugins == {"X", "Y", "Z", "W"}
