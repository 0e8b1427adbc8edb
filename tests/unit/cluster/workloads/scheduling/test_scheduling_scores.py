"""Scores, with the figures of kube-scheduler's own tests where it has them."""

from __future__ import annotations

from random import Random

import pytest
from scheduling_objects import (
    HOST,
    ZONE,
    cluster,
    container,
    expression,
    node,
    pod,
    pod_term,
    preferred,
    required,
    spread,
)

from corral.cluster.scheduler.placement import Placement, find_node
from corral.cluster.scheduler.placement.interpod import interpod_scores
from corral.cluster.scheduler.placement.scores import (
    balanced_allocation,
    least_allocated,
    score_nodes,
)
from corral.cluster.scheduler.placement.spread import spread_scores
from corral.kube.types import Obj

TWO = [container({"cpu": "1", "memory": "2000"}), container({"cpu": "2", "memory": "3000"})]


def held(where: str, cpu: str, memory: str) -> Obj:
    return pod(f"on-{where}", {"cpu": cpu, "memory": memory}, on=where)


LEAST: dict[str, tuple[Obj, list[Obj], list[Obj], list[int]]] = {
    "nothing scheduled, differently sized nodes": (
        pod("p", containers=TWO),
        [node("a", cpu="4", memory="10000"), node("b", cpu="6", memory="10000")],
        [],
        [37, 50],
    ),
    "pods scheduled with resources": (
        pod("p", containers=TWO),
        [node("a", cpu="10", memory="20000"), node("b", cpu="10", memory="20000")],
        [held("a", "3", "0"), held("b", "3", "5000")],
        [57, 45],
    ),
    "more requested than there is": (
        pod("p", {"cpu": "3", "memory": "0"}),
        [node("a", cpu="4", memory="10000"), node("b", cpu="4", memory="10000")],
        [held("a", "3", "0"), held("b", "3", "5000")],
        [50, 25],
    ),
    "nodes with nothing": (pod("p"), [node("a", cpu="0", memory="0")], [], [0]),
}


@pytest.mark.parametrize("case", LEAST)
def test_least_allocated(case: str) -> None:
    item, nodes, pods, expected = LEAST[case]
    state = cluster(nodes, pods)
    assert [least_allocated(state.info(item), n) for n in state.nodes.values()] == expected


BALANCED: dict[str, tuple[Obj, list[Obj], list[Obj], list[int]]] = {
    "nothing scheduled, differently sized nodes": (
        pod("p", containers=TWO),
        [node("a", cpu="4", memory="10000"), node("b", cpu="6", memory="10000")],
        [],
        [68, 75],
    ),
    "pods scheduled with resources": (
        pod("p", containers=TWO),
        [node("a", cpu="10", memory="20000"), node("b", cpu="10", memory="50000")],
        [held("a", "3", "0"), held("b", "3", "5000")],
        [73, 70],
    ),
    "least and most": (
        pod("p", {"memory": "5000"}),
        [node("a", cpu="3", memory="5000"), node("b", cpu="3", memory="5000")],
        [pod("q", {"cpu": "3"}, on="a")],
        [100, 50],
    ),
    "at capacity": (
        pod("p", {"cpu": "3"}),
        [node("a", cpu="6", memory="10000"), node("b", cpu="6", memory="10000")],
        [held("a", "3", "0"), held("b", "3", "5000")],
        [62, 62],
    ),
    "only one resource to balance": (pod("p", {"cpu": "1"}), [node("a", memory="0")], [], [75]),
}


@pytest.mark.parametrize("case", BALANCED)
def test_balanced_allocation(case: str) -> None:
    item, nodes, pods, expected = BALANCED[case]
    state = cluster(nodes, pods)
    assert [balanced_allocation(state.info(item), n) for n in state.nodes.values()] == expected


FOO = {"foo": ""}


def on_nodes(**counts: int) -> list[Obj]:
    return [pod(f"{name}-{i}", labels=FOO, on=name) for name, n in counts.items() for i in range(n)]


def hosts(names: str) -> list[Obj]:
    return [node(name) for name in names]


def soft(*constraints: Obj) -> Obj:
    return pod("p", labels=FOO, topologySpreadConstraints=list(constraints))


SOFT: dict[str, tuple[Obj, list[Obj], list[Obj], str, list[int] | None]] = {
    "no constraints": (pod("p"), hosts("ab"), [], "ab", None),
    "no pods": (soft(spread(FOO, key=HOST, hard=False)), hosts("ab"), [], "ab", [100, 100]),
    "2/1/0/3 on nodes": (
        soft(spread(FOO, key=HOST, hard=False)),
        hosts("abcd"),
        on_nodes(a=2, b=1, d=3),
        "abcd",
        [20, 60, 100, 0],
    ),
    "2/1/0/3 on nodes, skew 2": (
        soft(spread(FOO, key=HOST, hard=False, skew=2)),
        hosts("abcd"),
        on_nodes(a=2, b=1, d=3),
        "abcd",
        [33, 66, 100, 16],
    ),
    "4/3/2/1 on nodes, skew 3": (
        soft(spread(FOO, key=HOST, hard=False, skew=3)),
        hosts("abcd"),
        on_nodes(a=4, b=3, c=2, d=1),
        "abcd",
        [44, 66, 77, 100],
    ),
    "no selector": (
        soft(spread(None, key=HOST, hard=False)),
        hosts("abcd"),
        on_nodes(a=2, b=1, d=3),
        "abcd",
        [100, 100, 100, 100],
    ),
    "one node is no candidate": (
        soft(spread(FOO, key=HOST, hard=False)),
        hosts("abxy"),
        on_nodes(a=4, b=2, x=1, y=3),
        "abx",
        [33, 83, 100],
    ),
    "one candidate lacks the label": (
        soft(spread(FOO, key="host", hard=False)),
        [
            node("a", labels={"host": "a"}),
            node("b"),
            node("x", labels={"host": "x"}),
            node("y", labels={"host": "y"}),
        ],
        on_nodes(a=4, b=2, x=1, y=3),
        "abx",
        [16, 0, 100],
    ),
    "zones, one node no candidate": (
        soft(spread(FOO, hard=False)),
        [
            node("a", labels={ZONE: "1"}),
            node("b", labels={ZONE: "1"}),
            node("x", labels={ZONE: "2"}),
            node("y", labels={ZONE: "2"}),
        ],
        on_nodes(a=4, b=2, x=1, y=3),
        "abx",
        [75, 75, 100],
    ),
}


@pytest.mark.parametrize("case", SOFT)
def test_soft_spread(case: str) -> None:
    item, nodes, pods, candidates, expected = SOFT[case]
    state = cluster(nodes, pods)
    assert spread_scores(state, state.info(item), [state.nodes[n] for n in candidates]) == expected


def service(selector: dict[str, str]) -> Obj:
    return {"metadata": {"name": "s", "namespace": "default"}, "spec": {"selector": selector}}


def test_default_constraints_apply_to_pods_of_a_service() -> None:
    state = cluster(hosts("abcd"), on_nodes(a=4, b=3, c=2, d=1))
    item, nodes = state.info(pod("p", labels=FOO)), list(state.nodes.values())
    assert spread_scores(state, item, nodes) is None
    state.set_service(service(FOO))
    assert spread_scores(state, item, nodes) == [44, 66, 77, 100]
    state.remove_service("default", "s")
    assert spread_scores(state, item, nodes) is None


def test_default_constraints_apply_to_pods_of_a_replica_set() -> None:
    state = cluster(hosts("abcd"), on_nodes(a=4, b=3, c=2, d=1))
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "controller": True}
    item = state.info(pod("p", labels=FOO, meta={"ownerReferences": [owner]}))
    state.set_owner(
        {
            "kind": "ReplicaSet",
            "metadata": {"name": "rs", "namespace": "default"},
            "spec": {"selector": {"matchLabels": FOO}},
        }
    )
    assert spread_scores(state, item, list(state.nodes.values())) == [44, 66, 77, 100]


WEB = {"app": "web"}
ZONED = [
    node("a", labels={ZONE: "1"}),
    node("b", labels={ZONE: "2"}),
    node("c", labels={ZONE: "3"}),
]

INTERPOD: dict[str, tuple[Obj, list[Obj], list[int] | None]] = {
    "nobody says anything": (pod("p"), [pod("q", labels=WEB, on="a")], None),
    "preferred company": (
        pod("p", affinity=preferred("podAffinity", 10, pod_term(WEB))),
        [pod("q", labels=WEB, on="a"), pod("r", labels=WEB, on="a"), pod("s", labels=WEB, on="b")],
        [100, 50, 0],
    ),
    "preferred solitude": (
        pod("p", affinity=preferred("podAntiAffinity", 10, pod_term(WEB))),
        [pod("q", labels=WEB, on="a")],
        [0, 100, 100],
    ),
    "a placed pod would like company": (
        pod("p", labels=WEB),
        [pod("q", on="b", affinity=preferred("podAffinity", 5, pod_term(WEB)))],
        [0, 100, 0],
    ),
    "a placed pod needs such company: weight 1": (
        pod("p", labels=WEB),
        [
            pod("q", on="b", affinity=required("podAffinity", pod_term(WEB))),
            pod("r", on="c", affinity=preferred("podAffinity", 2, pod_term(WEB))),
        ],
        [0, 50, 100],
    ),
    "the same everywhere": (
        pod("p", affinity=preferred("podAffinity", 10, pod_term(WEB))),
        [pod(f"q{name}", labels=WEB, on=name) for name in "abc"],
        [0, 0, 0],
    ),
    "nothing matches": (
        pod("p"),
        [pod("q", on="b", affinity=preferred("podAffinity", 5, pod_term(WEB)))],
        None,
    ),
}


@pytest.mark.parametrize("case", INTERPOD)
def test_preferred_affinity_between_pods(case: str) -> None:
    item, pods, expected = INTERPOD[case]
    state = cluster(ZONED, pods)
    assert interpod_scores(state, state.info(item), list(state.nodes.values())) == expected


def test_replication_controllers_select_by_plain_labels() -> None:
    state = cluster(hosts("abcd"), on_nodes(a=4, b=3, c=2, d=1))
    owner = {"apiVersion": "v1", "kind": "ReplicationController", "name": "rc", "controller": True}
    item = state.info(pod("p", labels=FOO, meta={"ownerReferences": [owner]}))
    meta = {"name": "rc", "namespace": "default"}
    state.set_owner({"kind": "ReplicationController", "metadata": meta, "spec": {"selector": FOO}})
    nodes = list(state.nodes.values())
    assert spread_scores(state, item, nodes) == [44, 66, 77, 100]
    state.remove_owner("ReplicationController", "default", "rc")
    assert spread_scores(state, item, nodes) is None


def best(state_nodes: list[Obj], item: Obj) -> str:
    found = find_node(cluster(state_nodes), item, Random(0))
    assert isinstance(found, Placement)
    return found.node


def test_soft_taints_count_threefold() -> None:
    dirty = [{"key": "old", "effect": "PreferNoSchedule"}]
    # The tainted node is far larger, which is worth at most 100; the taint costs 300.
    nodes = [node("a", cpu="64", memory="256Gi", taints=dirty), node("b")]
    assert best(nodes, pod("p", {"cpu": "2", "memory": "4Gi"})) == "b"
    tolerant = [{"key": "old", "operator": "Exists"}]
    assert best(nodes, pod("p", {"cpu": "2", "memory": "4Gi"}, tolerations=tolerant)) == "a"


def test_total_is_the_weighted_sum() -> None:
    weights = {
        "nodeAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 80, "preference": {"matchExpressions": [expression("gpu", "Exists")]}},
                {"weight": 20, "preference": {"matchExpressions": [expression("ssd", "Exists")]}},
            ]
        }
    }
    nodes = [node("a", labels={"gpu": ""}), node("b", labels={"ssd": ""}), node("c")]
    state = cluster(nodes)
    item = state.info(pod("p", {"cpu": "2", "memory": "4Gi"}, affinity=weights))
    # Half of each resource stays free (50), both equally used (75), no taints (3 times 100), and
    # twice the node affinity of 100, 25 and 0.
    scores = score_nodes(state, item, list(state.nodes.values()))
    assert scores == [50 + 75 + 300 + 200, 50 + 75 + 300 + 50, 50 + 75 + 300]


def test_ties_are_broken_by_the_given_chance() -> None:
    state = cluster([node(f"n{i}") for i in range(8)])
    item = pod("p")

    def draw(seed: int) -> str:
        found = find_node(state, item, Random(seed))
        assert isinstance(found, Placement)
        return found.node

    assert draw(7) == draw(7)
    assert len({draw(seed) for seed in range(50)}) == 8
