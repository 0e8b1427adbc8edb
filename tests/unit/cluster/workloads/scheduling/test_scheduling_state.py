"""The state follows pods and nodes, whatever order news comes in."""

from __future__ import annotations

from random import Random

from scheduling_objects import cluster, container, node, outcome, pod, pod_term, required

from corral.cluster.scheduler.placement import ClusterState, PodInfo
from corral.cluster.scheduler.placement.nodes import NodeInfo
from corral.kube.types import Obj


def used(state: ClusterState, name: str) -> tuple[int, int]:
    info = state.nodes[name]
    return info.requested.cpu, len(info.pods)


def test_bound_pods_count_until_they_end_or_go() -> None:
    state = cluster([node("a")])
    state.set_pod(pod("p", {"cpu": "1"}, on="a"))
    state.set_pod(pod("q", {"cpu": "2"}, on="a"))
    assert used(state, "a") == (3000, 2)
    state.set_pod(pod("p", {"cpu": "1"}, on="a", status={"phase": "Succeeded"}))
    assert used(state, "a") == (2000, 1)
    state.remove_pod(pod("q", on="a"))
    assert used(state, "a") == (0, 0)


def test_a_new_version_replaces_the_old() -> None:
    state = cluster([node("a")], [pod("p", {"cpu": "1"}, on="a")])
    state.set_pod(pod("p", {"cpu": "3"}, on="a"))
    assert used(state, "a") == (3000, 1)


def test_the_same_version_twice_is_harmless() -> None:
    state, item, where = cluster([]), pod("p", {"cpu": "1"}, on="a"), node("a")
    for _ in range(2):
        state.set_node(where)
        state.set_pod(item)
    assert used(state, "a") == (1000, 1)


def test_pods_may_come_before_their_node_and_outlive_it() -> None:
    state = cluster([], [pod("p", {"cpu": "1"}, on="a")])
    assert not state.nodes
    state.set_node(node("a"))
    assert used(state, "a") == (1000, 1)
    state.remove_node("a")
    assert not state.nodes
    state.set_node(node("a"))
    assert used(state, "a") == (1000, 1)
    state.remove_node("a")
    state.remove_pod(pod("p"))
    state.set_node(node("a"))
    assert used(state, "a") == (0, 0)


def test_affinity_of_pods_on_a_removed_node_is_forgotten() -> None:
    lonely = pod("q", on="a", affinity=required("podAntiAffinity", pod_term({"app": "x"}, "rack")))
    nodes = [node("a", labels={"rack": "1"}), node("b", labels={"rack": "1"})]
    state = cluster(nodes, [lonely])
    assert outcome(state, pod("p", labels={"app": "x"})).startswith("0/2")
    state.remove_node("a")
    assert outcome(state, pod("p", labels={"app": "x"})) == "b"
    state.set_node(nodes[0])
    assert outcome(state, pod("p", labels={"app": "x"})).startswith("0/2")


def test_an_assumed_pod_counts_until_it_is_bound_or_forgotten() -> None:
    state = cluster([node("a"), node("b")])
    waiting = pod("p", {"cpu": "1"})
    state.assume(waiting, "a")
    assert state.is_assumed(waiting) and state.node_of(waiting) == "a"
    state.set_pod(pod("p", {"cpu": "1"}, labels={"new": "label"}))
    assert used(state, "a") == (1000, 1)
    state.set_pod(pod("p", {"cpu": "1"}, on="b"))
    assert (used(state, "a"), used(state, "b")) == ((0, 0), (1000, 1))
    assert not state.is_assumed(waiting)
    state.forget(waiting)
    assert used(state, "b") == (1000, 1)


def test_forgetting_takes_an_assumption_back() -> None:
    state = cluster([node("a")])
    state.assume(pod("p", {"cpu": "1"}), "a")
    state.forget(pod("p"))
    assert used(state, "a") == (0, 0)


def test_a_node_update_keeps_its_pods() -> None:
    state = cluster([node("a")], [pod("p", {"cpu": "1"}, on="a")])
    state.set_node(node("a", cpu="8", unschedulable=True))
    info = state.nodes["a"]
    assert (info.allocatable.cpu, info.unschedulable, info.requested.cpu) == (8000, True, 1000)


def test_nominations_last_until_their_own_write_is_undone() -> None:
    state = cluster([node("a")])
    state.set_pod(pod("p"))
    state.nominate(pod("p"), "a")
    # News of the pod from before the nomination was written.
    state.set_pod(pod("p", labels={"x": "y"}))
    assert [info.name for info in state.nominated_on("a").values()] == ["p"]
    state.set_pod(pod("p", status={"nominatedNodeName": "a"}))
    state.set_pod(pod("p"))
    assert not state.nominated_on("a")


def test_a_trial_changes_nothing() -> None:
    state = cluster([node("a")], [pod("q", {"cpu": "1"}, on="a")])
    state.nominate(pod("p"), "a")
    with state.trial():
        state.assume(pod("p", {"cpu": "2"}), "a")
        assert used(state, "a") == (3000, 2)
    assert used(state, "a") == (1000, 1)
    assert len(state.nominated_on("a")) == 1


def sums(info: NodeInfo) -> Obj:
    fresh = NodeInfo(info.name)
    for item in info.pods.values():
        fresh.add(item)
    return {
        "requested": (fresh.requested.cpu, fresh.requested.memory),
        "scalars": {k: v for k, v in fresh.requested.scalars.items() if v},
        "scored": (fresh.scored_cpu, fresh.scored_memory),
        "ports": {k: v for k, v in fresh.ports.items() if v},
    }


def kept(info: NodeInfo) -> Obj:
    return {
        "requested": (info.requested.cpu, info.requested.memory),
        "scalars": {k: v for k, v in info.requested.scalars.items() if v},
        "scored": (info.scored_cpu, info.scored_memory),
        "ports": {k: v for k, v in info.ports.items() if v},
    }


def test_sums_stay_right_under_random_changes() -> None:
    rng = Random(11)
    state = cluster([node(f"n{i}") for i in range(4)])
    selector = state.info(pod("x", affinity=required("podAffinity", pod_term({"a": "1"}))))
    watched = selector.affinity[0].selector
    for step in range(600):
        name, where = f"p{rng.randrange(20)}", f"n{rng.randrange(5)}"
        ports = [{"hostPort": rng.randrange(80, 83)}] if rng.random() < 0.3 else []
        requests = {"cpu": f"{rng.randrange(1, 900)}m", "nvidia.com/gpu": str(rng.randrange(3))}
        item = pod(
            name,
            on=where if rng.random() < 0.7 else "",
            labels={"a": str(rng.randrange(2))},
            containers=[container(requests, ports=ports)],
        )
        match rng.randrange(5):
            case 0 | 1:
                state.set_pod(item)
            case 2:
                state.remove_pod(item)
            case 3:
                state.assume(item, where)
            case _:
                state.forget(item)
        if step % 50 == 0:
            state.remove_node("n1")
        elif step % 50 == 25:
            state.set_node(node("n1"))
        for info in state.nodes.values():
            assert kept(info) == sums(info)
            expected = sum(p.labels["a"] == "1" for p in info.pods.values())
            assert info.count_matching("default", watched) == expected


def test_namespaces_and_unknown_nodes_come_and_go() -> None:
    state = cluster([])
    state.set_namespace("x", {"a": "b"})
    state.set_namespace("y", None)
    state.remove_namespace("x")
    state.remove_node("never seen")
    assert state.namespaces == {"y": {}}


def test_many_selectors_on_one_node_are_all_counted_right() -> None:
    state = cluster([node("a")], [pod(f"p{i}", labels={"i": str(i)}, on="a") for i in range(80)])
    info = state.nodes["a"]
    for _ in range(2):
        for i in range(80):
            term = pod_term({"i": str(i)})
            item = state.info(pod("x", affinity=required("podAffinity", term)))
            assert info.count_matching("default", item.affinity[0].selector) == 1
        state.set_pod(pod("p0", labels={"i": "0"}, on="a"))


def test_a_new_version_reads_only_what_changed() -> None:
    old = PodInfo.parse(pod("p", {"cpu": "1"}, labels={"a": "b"}))
    bound = pod("p", {"cpu": "1"}, labels={"a": "b"}, on="n", status={"startTime": "now"})
    new = old.updated(bound)
    assert (new.node_name, new.started, new.pod) == ("n", "now", bound)
    assert new.requests is old.requests
    assert new.counts_as(old)
    for other in (
        pod("p", {"cpu": "2"}, labels={"a": "b"}),
        pod("p", {"cpu": "1"}, labels={"a": "c"}),
        pod("p", {"cpu": "1"}, labels={"a": "b"}, annotations={"x": "y"}),
        pod("p", {"cpu": "1"}, labels={"a": "b"}, hostNetwork=True, hostPID=True),
    ):
        assert old.updated(other).requests is not old.requests
    resized = {"containerStatuses": [{"name": "c", "allocatedResources": {"cpu": "3"}}]}
    grown = old.updated(pod("p", {"cpu": "1"}, labels={"a": "b"}, status=resized))
    assert grown.requests.cpu == 3000
    leaving = pod("p", {"cpu": "1"}, labels={"a": "b"}, meta={"deletionTimestamp": "now"})
    assert not old.updated(leaving).counts_as(old)


def test_a_heartbeat_changes_nothing_of_a_node() -> None:
    state = cluster([node("a")])
    before = state.nodes["a"].allocatable
    beat = node("a")
    beat["status"]["conditions"] = [{"type": "Ready"}]
    state.set_node(beat)
    assert state.nodes["a"].allocatable is before
    assert state.nodes["a"].obj is beat
    state.set_node(node("a", cpu="9"))
    assert state.nodes["a"].allocatable.cpu == 9000


def test_pods_are_seen_as_gone_for_a_while() -> None:
    placed = pod("p", {"cpu": "1"}, on="a")
    state = cluster([node("a")], [placed])
    info = state.info(placed)
    with state.without([info, state.info(pod("never"))]):
        assert state.nodes["a"].requested.cpu == 0
        assert state.node_of(info) == ""
    assert state.nodes["a"].requested.cpu == 1000
    assert state.known(info.key) is info
    assert state.known(placed) is info
