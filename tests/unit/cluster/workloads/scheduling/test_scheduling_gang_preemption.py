"""Groups that make room for all of themselves, or touch nobody."""

from __future__ import annotations

from random import Random
from typing import Any

from scheduling_objects import HOST, budget, cluster, container, node, pod, pod_term, required

from corral.cluster.scheduler.placement import (
    ClusterState,
    GangPreemption,
    GangRejection,
    Placement,
    PodGroup,
    awaits_victims,
    schedule_group,
)
from corral.kube.types import Obj


def running(name: str, on: str, cpu: str = "1", priority: int = 0, **more: Any) -> Obj:
    return pod(name, {"cpu": cpu}, on=on, priority=priority, **more)


def gang(count: int, cpu: str = "1", priority: int = 10, **more: Any) -> list[Obj]:
    return [pod(f"g{i}", {"cpu": cpu}, priority=priority, **more) for i in range(count)]


def attempt(
    state: ClusterState, pods: list[Obj], minimum: int = 0, **more: Any
) -> list[Placement] | GangPreemption | GangRejection:
    group = PodGroup(("scheduling.x-k8s.io", "default", "g"), minimum or len(pods))
    before = picture(state)
    found = schedule_group(state, group, [state.info(p) for p in pods], rng=Random(0), **more)
    assert picture(state) == before, "trying changes nothing"
    return found


def picture(state: ClusterState) -> object:
    return {
        name: (sorted(n.pods), n.requested.cpu, n.requested.memory)
        for name, n in state.nodes.items()
    }


def victims(found: object) -> list[str]:
    assert isinstance(found, GangPreemption)
    return sorted(pod.name for pod, _ in found.victims)


def test_a_gang_that_fits_evicts_nobody() -> None:
    state = cluster([node("a", cpu="4")], [running("low", "a")])
    assert isinstance(attempt(state, gang(3)), list)


def test_as_many_as_needed_go() -> None:
    old = [running(f"old{i}", "ab"[i % 2]) for i in range(4)]
    state = cluster([node("a", cpu="2"), node("b", cpu="2")], old)
    found = attempt(state, gang(3))
    assert len(victims(found)) == 3
    assert isinstance(found, GangPreemption)
    assert len(found.placements) == 3


def test_nobody_goes_for_a_gang_that_would_not_fit() -> None:
    state = cluster([node("a", cpu="2")], [running("old", "a")])
    assert isinstance(attempt(state, gang(3)), GangRejection)


def test_the_same_priority_is_safe() -> None:
    state = cluster([node("a", cpu="2")], [running("old", "a", "2", priority=10)])
    assert isinstance(attempt(state, gang(1)), GangRejection)


def test_the_least_important_level_goes() -> None:
    old = [running("cheap", "a", "2", priority=1), running("dear", "b", "2", priority=5)]
    state = cluster([node("a", cpu="2"), node("b", cpu="2")], old)
    assert victims(attempt(state, gang(2))) == ["cheap"]
    assert victims(attempt(state, gang(4))) == ["cheap", "dear"]


def test_where_there_is_room_nobody_is_asked() -> None:
    old = [running("x", "a", "2"), running("y", "b", "1")]
    state = cluster([node("a", cpu="2"), node("b", cpu="3")], old)
    found = attempt(state, gang(3))
    assert len(victims(found)) == 1


def test_those_that_can_stay_do_with_guarded_ones_first() -> None:
    old = [
        running("guarded", "a", labels={"app": "db"}),
        running("open", "a", labels={"app": "web"}),
    ]
    state = cluster([node("a", cpu="2")], old)
    found = attempt(state, gang(1), budgets=[budget({"app": "db"}, 0)])
    assert victims(found) == ["open"]


def test_devices_ports_and_anti_affinity_count() -> None:
    gpu = {"nvidia.com/gpu": "1"}
    old = [pod("train", gpu, on="a", priority=0), running("web", "a")]
    state = cluster([node("a", cpu="8", nvidia_com__gpu="1")], old)
    assert victims(attempt(state, [pod("g0", gpu, priority=10)])) == ["train"]
    port = container(ports=[{"hostPort": 80}])
    state = cluster([node("a")], [pod("port", on="a", containers=[port]), running("web", "a")])
    assert victims(attempt(state, [pod("g0", priority=10, containers=[port])])) == ["port"]
    lonely = required("podAntiAffinity", pod_term({"app": "x"}, HOST))
    old = [pod("x", on="a", labels={"app": "x"}), running("web", "a")]
    state = cluster([node("a")], old)
    found = attempt(state, [pod("g0", priority=10, affinity=lonely)])
    assert victims(found) == ["x"]


def test_a_full_count_of_pods() -> None:
    state = cluster([node("a", pods=2)], [running("one", "a"), running("two", "a")])
    assert len(victims(attempt(state, gang(1)))) == 1


def test_members_that_run_are_never_victims() -> None:
    own = running("g9", "a", priority=0)
    state = cluster([node("a", cpu="2")], [own, running("old", "a")])
    found = attempt(state, gang(1), 2, running=[state.info(own)])
    assert victims(found) == ["old"]


def test_a_gang_that_never_preempts() -> None:
    state = cluster([node("a", cpu="1")], [running("old", "a")])
    assert isinstance(attempt(state, gang(1, preemptionPolicy="Never")), GangRejection)


def test_victims_on_their_way_out_are_waited_for() -> None:
    status = {
        "conditions": [
            {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
        ]
    }
    leaving = running("old", "a", meta={"deletionTimestamp": "2026-01-01T00:00:00Z"}, status=status)
    state = cluster([node("a", cpu="1"), node("b", cpu="1")], [leaving, running("other", "b")])
    (member,) = gang(1)
    assert isinstance(attempt(state, [member]), GangPreemption)
    state.nominate(member, "a")
    assert awaits_victims(state, [state.info(member)])
    assert isinstance(attempt(state, [member]), GangRejection)


def test_an_assumed_victim_stays_assumed() -> None:
    state = cluster([node("a", cpu="1")])
    state.assume(pod("fresh", {"cpu": "1"}), "a")
    assert victims(attempt(state, gang(1))) == ["fresh"]
    assert state.is_assumed(pod("fresh"))


def test_a_hopeless_gang_is_not_searched_for() -> None:
    state = cluster([node(f"n{i}", cpu="2", memory="1Gi") for i in range(3)])
    huge = [pod(f"g{i}", {"memory": "1Gi"}) for i in range(4)]
    assert isinstance(attempt(state, huge), GangRejection)
    assert isinstance(attempt(state, gang(7)), GangRejection)
