"""PodGroups: enough pods at once, or none."""

from __future__ import annotations

from random import Random

import pytest
from scheduling_objects import ZONE, cluster, node, pod, pod_term, required

from corral.cluster.scheduler.placement import (
    ClusterState,
    GangRejection,
    PodGroup,
    group_of,
    missing_members,
    place_gang,
    place_group,
    placed_members,
)
from corral.cluster.scheduler.placement.pods import PodInfo
from corral.cluster.scheduler.placement.resources import Amounts
from corral.kube.types import Obj


def members(count: int, cpu: str = "1", **more: object) -> list[Obj]:
    return [pod(f"w{i}", {"cpu": cpu}, **more) for i in range(count)]


def gang(state: ClusterState, pods: list[Obj], minimum: int, **more: int) -> dict[str, str] | None:
    found = place_gang(state, pods, minimum, rng=Random(0), **more)
    if isinstance(found, GangRejection):
        return None
    return {placement.pod.name: placement.node for placement in found}


def volcano(minimum: int, **spec: object) -> Obj:
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "default"},
        "spec": {"minMember": minimum, **spec},
    }


def coscheduling(minimum: int, **spec: object) -> Obj:
    return volcano(minimum, **spec) | {"apiVersion": "scheduling.x-k8s.io/v1alpha1"}


GROUPS: dict[str, tuple[Obj, tuple[str, str, str] | None]] = {
    "none": (pod("p"), None),
    "label": (
        pod("p", labels={"scheduling.x-k8s.io/pod-group": "g"}),
        ("scheduling.x-k8s.io", "default", "g"),
    ),
    "annotation": (
        pod("p", annotations={"scheduling.k8s.io/group-name": "g"}),
        ("scheduling.volcano.sh", "default", "g"),
    ),
    "volcano's own annotation": (
        pod("p", annotations={"scheduling.volcano.sh/group-name": "g"}, namespace="x"),
        ("scheduling.volcano.sh", "x", "g"),
    ),
}


@pytest.mark.parametrize("case", GROUPS)
def test_group_of(case: str) -> None:
    item, expected = GROUPS[case]
    assert group_of(item) == expected


def test_groups_are_read() -> None:
    first = PodGroup.parse(volcano(4, minResources={"cpu": "8", "nvidia.com/gpu": "4"}, queue="q"))
    assert first.key == ("scheduling.volcano.sh", "default", "g")
    assert (first.minimum, first.timeout) == (4, None)
    assert first.resources == Amounts(8000, scalars={"nvidia.com/gpu": 4})
    second = PodGroup.parse(coscheduling(3, scheduleTimeoutSeconds=10))
    assert second.key == ("scheduling.x-k8s.io", "default", "g")
    assert (second.minimum, second.timeout) == (3, 10.0)


def test_all_at_once() -> None:
    state = cluster([node("a"), node("b")])
    assert set(gang(state, members(8), 8) or {}) == {f"w{i}" for i in range(8)}
    assert gang(state, members(9), 9) is None
    assert all(not info.pods for info in state.nodes.values())


def test_more_than_the_minimum_where_there_is_room() -> None:
    state = cluster([node("a"), node("b")])
    assert len(gang(state, members(10), 5) or {}) == 8


def test_running_members_count() -> None:
    state = cluster([node("a")], [pod("r1", {"cpu": "1"}, on="a"), pod("r2", {"cpu": "1"}, on="a")])
    assert gang(state, members(3), 5, running=2) is None
    assert len(gang(state, members(3), 4, running=2) or {}) == 2
    assert gang(state, members(2, cpu="8"), 2, running=2) == {}


def test_too_few_pods_are_not_tried_further() -> None:
    found = place_gang(cluster([node("a")]), members(2), 3, rng=Random(0))
    assert isinstance(found, GangRejection)
    assert (found.placeable, found.pending) == (2, 2)


def test_large_pods_first_when_spreading_leaves_no_room() -> None:
    # Spread evenly, the small ones would leave 3 CPUs on each node for a pod that needs 4.
    state = cluster([node("a"), node("b")])
    pods = [pod("s0", {"cpu": "1"}), pod("s1", {"cpu": "1"}), pod("large", {"cpu": "4"})]
    found = gang(state, pods, 3)
    assert found is not None and len(found) == 3
    assert found["s0"] == found["s1"] != found["large"]


def test_going_back_on_choices() -> None:
    # Best fit puts 5 on the node of 7, after which 4+3 and 4+3 no longer work out.
    state = cluster([node("a", cpu="7"), node("b", cpu="9"), node("c", cpu="7")])
    sizes = [5, 4, 4, 3, 3, 2, 2]
    pods = [pod(f"w{i}", {"cpu": str(size)}) for i, size in enumerate(sizes)]
    found = gang(state, pods, len(pods))
    assert found is not None
    used = dict.fromkeys("abc", 0)
    for item, size in zip(pods, sizes, strict=True):
        used[found[item["metadata"]["name"]]] += size
    assert used == {"a": 7, "b": 9, "c": 7}


def test_the_zone_with_room_for_all() -> None:
    # The small zone looks best to the first pod; only the large one takes all four.
    nodes = [node("s", cpu="3", memory="64Gi", labels={ZONE: "small"})]
    nodes += [node(f"l{i}", cpu="2", memory="2Gi", labels={ZONE: "large"}) for i in range(2)]
    together = required("podAffinity", pod_term({"job": "g"}))
    pods = members(4, labels={"job": "g"}, affinity=together)
    found = gang(cluster(nodes), pods, 4)
    assert found is not None and set(found.values()) == {"l0", "l1"}


def test_anti_affinity_within_the_gang() -> None:
    apart = required("podAntiAffinity", pod_term({"job": "g"}, "kubernetes.io/hostname"))
    pods = members(3, labels={"job": "g"}, affinity=apart)
    assert len(set((gang(cluster([node("a"), node("b"), node("c")]), pods, 3) or {}).values())) == 3
    assert gang(cluster([node("a"), node("b")]), pods, 3) is None


def test_the_search_is_bounded() -> None:
    state = cluster([node(f"n{i}", cpu="10") for i in range(6)])
    pods = [pod(f"w{i}", {"cpu": f"{3400 + i}m"}) for i in range(15)]
    assert gang(state, pods, 15, steps=50) is None


def test_minimum_resources_are_of_the_whole_cluster() -> None:
    state = cluster([node("a"), node("b", unschedulable=True)])
    group = PodGroup.parse(volcano(2, minResources={"cpu": "5"}))
    found = place_group(state, group, members(2), rng=Random(0))
    assert isinstance(found, GangRejection)
    assert "Insufficient cpu for the pod group's minResources" in str(found)
    assert "NodeResourcesFit" in found.plugins
    state.set_node(node("b"))
    assert isinstance(place_group(state, group, members(2), rng=Random(0)), list)


def test_messages() -> None:
    state = cluster([node("a")])
    pods = members(6)
    first = place_group(state, PodGroup.parse(volcano(6)), pods, rng=Random(0))
    assert isinstance(first, GangRejection)
    assert str(first) == (
        "2/6 tasks in gang unschedulable: pod group is not ready, 6 Pending, 6 minAvailable; "
        "Pending: 2 Unschedulable, 4 Schedulable: pod default/w4: "
        "0/1 nodes are available: 1 Insufficient cpu."
    )
    assert first.plugins == {"GangScheduling", "NodeResourcesFit"}
    second = place_group(state, PodGroup.parse(coscheduling(6)), pods, rng=Random(0))
    assert str(second) == (
        "pod group needs 6 pods together, 4 can run: pod default/w4: "
        "0/1 nodes are available: 1 Insufficient cpu."
    )


def test_waiting_for_members() -> None:
    info = PodInfo.parse(pod("p"))
    group = PodGroup.parse(coscheduling(3))
    assert missing_members(group, info, 3) == ""
    assert missing_members(group, info, 2) == (
        "pre-filter pod p cannot find enough sibling pods, "
        "current pods number: 2, minMember of group: 3"
    )
    assert missing_members(PodGroup.parse(volcano(3)), info, 1) == (
        "pod group is not ready, 1 Pending, 3 minAvailable"
    )


def test_placed_members_are_bound_or_assumed() -> None:
    label = {"scheduling.x-k8s.io/pod-group": "g"}
    state = cluster([node("a")], [pod("bound", labels=label, on="a"), pod("other", on="a")])
    state.set_pod(pod("pending", labels=label))
    state.assume(pod("assumed", labels=label), "a")
    found = placed_members(state, ("scheduling.x-k8s.io", "default", "g"))
    assert {info.name for info in found} == {"bound", "assumed"}


def test_what_running_members_hold_is_part_of_the_minimum_resources() -> None:
    running = pod("r", {"cpu": "3"}, on="a")
    state = cluster([node("a")], [running])
    group = PodGroup.parse(coscheduling(2, minResources={"cpu": "4"}))
    assert isinstance(place_group(state, group, members(1), rng=Random(0)), GangRejection)
    found = place_group(state, group, members(1), rng=Random(0), running=[running])
    assert isinstance(found, list) and len(found) == 1
