"""What must hold whatever the cluster looks like, on seeded random ones."""

from __future__ import annotations

from random import Random

import pytest
from scheduling_objects import HOST, ZONE, cluster, container, node, pod, pod_term, required, spread

from corral.cluster.scheduler.placement import (
    ClusterState,
    GangRejection,
    Placement,
    Preemption,
    place_gang,
    schedule,
)
from corral.kube.types import Obj
from tests.support.matrix import seeds


def random_nodes(rng: Random) -> list[Obj]:
    return [
        node(
            f"n{i}",
            cpu=str(rng.randrange(1, 9)),
            memory=f"{rng.randrange(1, 17)}Gi",
            pods=rng.randrange(2, 12),
            labels={ZONE: f"z{i % 3}"},
            nvidia_com__gpu=str(rng.randrange(3)),
        )
        for i in range(rng.randrange(2, 9))
    ]


def random_pod(rng: Random, name: str) -> Obj:
    requests = {"cpu": f"{rng.randrange(1, 30) * 100}m", "memory": f"{rng.randrange(64, 4096)}Mi"}
    if rng.random() < 0.2:
        requests["nvidia.com/gpu"] = "1"
    app = {"app": f"app{rng.randrange(3)}"}
    more: Obj = {}
    if rng.random() < 0.2:
        more["affinity"] = required("podAntiAffinity", pod_term(app, HOST))
    elif rng.random() < 0.2:
        more["topologySpreadConstraints"] = [spread(app)]
    ports = [{"hostPort": rng.randrange(80, 84)}] if rng.random() < 0.2 else []
    return pod(
        name,
        labels=app,
        priority=rng.choice([0, 0, 10, 20]),
        containers=[container(requests, ports=ports)],
        **more,
    )


def assert_within_capacity(state: ClusterState) -> None:
    for info in state.nodes.values():
        has, used = info.allocatable, info.requested
        assert used.cpu <= has.cpu and used.memory <= has.memory
        assert len(info.pods) <= has.pods
        assert all(amount <= has.scalars.get(k, 0) for k, amount in used.scalars.items())
        taken = [p for placed in info.pods.values() for p in placed.ports]
        assert len(taken) == len(set(taken))


def assert_anti_affinity_holds(state: ClusterState) -> None:
    for info in state.nodes.values():
        for one in info.pods.values():
            for term in one.anti_affinity:
                others = [p for p in info.pods.values() if p is not one]
                assert not any(term.matches(p.namespace, p.labels, {}) for p in others)


@pytest.mark.parametrize("seed", seeds(30, always=6))
def test_placements_never_exceed_capacity(seed: int) -> None:
    rng = Random(seed)
    state = cluster(random_nodes(rng))
    for i in range(60):
        item = random_pod(rng, f"p{i}")
        found = schedule(state, item, rng)
        if isinstance(found, Placement):
            state.assume(item, found.node)
        elif isinstance(found, Preemption):
            victims = found.victims.pods
            assert all(v.priority < found.pod.priority for v in victims)
            for victim in victims:
                state.remove_pod(victim)
            again = schedule(state, item, rng)
            # The evicted pods were exactly what was in the way.
            assert isinstance(again, Placement)
            state.assume(item, again.node)
        else:
            assert str(found).startswith(f"0/{len(state.nodes)} nodes are available: ")
    assert_within_capacity(state)
    assert_anti_affinity_holds(state)


def test_a_thousand_pods_fill_fifty_nodes_evenly() -> None:
    rng = Random(5)
    state = cluster([node(f"n{i}", cpu="32", memory="128Gi") for i in range(50)])
    for i in range(1000):
        item = pod(f"p{i}", {"cpu": "100m", "memory": "64Mi"})
        found = schedule(state, item, rng)
        assert isinstance(found, Placement)
        state.assume(item, found.node)
    assert {len(info.pods) for info in state.nodes.values()} == {20}


@pytest.mark.parametrize("seed", seeds(30, always=6))
def test_no_victim_is_evicted_in_vain(seed: int) -> None:
    rng = Random(1000 + seed)
    state = cluster(random_nodes(rng))
    for i in range(40):
        item = random_pod(rng, f"p{i}")
        found = schedule(state, item, rng)
        if isinstance(found, Placement):
            state.assume(item, found.node)
            continue
        if not isinstance(found, Preemption):
            continue
        # Putting back any one victim leaves no room on the node for the pod.
        kept = {v.key for v in state.nodes[found.victims.node].pods.values()}
        for spared in found.victims.pods:
            copy = cluster([n.obj for n in state.nodes.values() if n.obj is not None])
            for info in state.nodes.values():
                for placed in info.pods.values():
                    if placed not in found.victims.pods or placed is spared:
                        copy.assume(placed, info.name)
            other = schedule(copy, item, rng)
            assert not isinstance(other, Placement) or other.node != found.victims.node
        assert kept == {v.key for v in state.nodes[found.victims.node].pods.values()}


def everything(state: ClusterState) -> dict[str, tuple[set[str], int, int]]:
    return {
        name: (set(info.pods), info.requested.cpu, info.requested.memory)
        for name, info in state.nodes.items()
    }


@pytest.mark.parametrize("seed", seeds(40, always=8))
def test_gangs_are_all_or_nothing(seed: int) -> None:
    rng = Random(2000 + seed)
    state = cluster(random_nodes(rng))
    for group in range(6):
        pods = [random_pod(rng, f"g{group}-{i}") for i in range(rng.randrange(1, 10))]
        minimum = rng.randrange(1, len(pods) + 1)
        before = everything(state)
        found = place_gang(state, pods, minimum, rng=rng, steps=300)
        assert everything(state) == before
        if isinstance(found, GangRejection):
            continue
        assert len(found) >= minimum
        assert len({placement.pod.key for placement in found}) == len(found)
        for placement in found:
            state.assume(placement.pod, placement.node)
        assert_within_capacity(state)
        assert_anti_affinity_holds(state)


@pytest.mark.parametrize("seed", seeds(40, always=8))
def test_small_gangs_are_placed_whenever_possible(seed: int) -> None:
    """Against trying every assignment."""
    rng = Random(3000 + seed)
    capacity = [rng.randrange(2, 8) for _ in range(3)]
    sizes = [rng.randrange(1, 5) for _ in range(rng.randrange(2, 7))]
    state = cluster([node(f"n{i}", cpu=str(c)) for i, c in enumerate(capacity)])
    pods = [pod(f"w{i}", {"cpu": str(size)}) for i, size in enumerate(sizes)]

    def fits(index: int, free: tuple[int, ...]) -> bool:
        if index == len(sizes):
            return True
        return any(
            fits(index + 1, (*free[:i], left - sizes[index], *free[i + 1 :]))
            for i, left in enumerate(free)
            if left >= sizes[index]
        )

    found = place_gang(state, pods, len(pods), rng=rng)
    assert isinstance(found, list) == fits(0, tuple(capacity))
