"""All-or-nothing groups, on both servers with our scheduler."""

from __future__ import annotations

import pytest

from tests.cluster.objects import Obj, eventually
from tests.cluster.scheduling.arena import COSCHEDULING, VOLCANO, Arena

ONE = {"cpu": "1"}
both = pytest.mark.parametrize("family", [VOLCANO, COSCHEDULING])


def members(arena: Arena, group: str, family: str, count: int, **spec: object) -> list[str]:
    requests = spec.pop("requests", ONE)
    assert isinstance(requests, dict)
    names = [f"{group}-{number}" for number in range(count)]
    return [arena.member(name, group, family, requests, **spec) for name in names]


def reason(arena: Arena, name: str) -> str:
    return str(arena.condition(name).get("message", ""))


def fence(arena: Arena, name: str) -> None:
    """Whatever was there before this pod has been looked at when it has a node."""
    arena.pod(name, {"cpu": "1m"})
    arena.where(name)


@both
def test_a_group_starts_when_all_are_there(ring: Arena, family: str) -> None:
    ring.node("a", cpu="8")
    ring.group("trio", family, 3)
    names = members(ring, "trio", family, 2)
    expected = (
        "pod group is not ready, 2 Pending, 3 minAvailable"
        if family == VOLCANO
        else "cannot find enough sibling pods, current pods number: 2, minMember of group: 3"
    )
    eventually(lambda: expected in reason(ring, names[0]))
    assert ring.placed(*names) == 0
    assert eventually(lambda: ring.group_status("trio", family).get("phase")) == "Pending"
    names.append(ring.member("trio-2", "trio", family, ONE))
    for name in names:
        ring.where(name)
    wanted = "Inqueue" if family == VOLCANO else "Scheduled"
    eventually(lambda: ring.group_status("trio", family).get("phase") == wanted)


@both
def test_a_group_that_does_not_fit_takes_nothing(ring: Arena, family: str) -> None:
    ring.node("a", cpu="2100m")
    ring.group("trio", family, 3)
    names = members(ring, "trio", family, 3)
    expected = (
        "1/3 tasks in gang unschedulable: pod group is not ready, 3 Pending, 3 minAvailable"
        if family == VOLCANO
        else "pod group needs 3 pods together, 2 can run"
    )
    eventually(lambda: expected in reason(ring, names[0]))
    assert "Insufficient cpu" in reason(ring, names[0])
    fence(ring, "small")
    assert ring.placed(*names) == 0
    eventually(lambda: ring.events("trio", "Unschedulable"))
    if family == VOLCANO:
        conditions = ring.group_status("trio", family)["conditions"]
        assert conditions[0]["type"] == "Unschedulable"
        assert conditions[0]["reason"] == "NotEnoughResources"
    ring.node("b", cpu="1")
    for name in names:
        ring.where(name)
    eventually(lambda: ring.events("trio", "Scheduled"))


@both
def test_two_groups_do_not_block_each_other(ring: Arena, family: str) -> None:
    ring.node("a", cpu="2")
    ring.node("b", cpu="2")
    for group in ("left", "right"):
        ring.group(group, family, 3)
    # Interleaved, so that one after the other would leave both with a half.
    names: dict[str, list[str]] = {"left": [], "right": []}
    for number in range(3):
        for group, mine in names.items():
            mine.append(ring.member(f"{group}-{number}", group, family, ONE))
    eventually(lambda: 3 in (ring.placed(*names["left"]), ring.placed(*names["right"])))
    first, second = sorted(names, key=lambda group: -ring.placed(*names[group]))
    assert ring.placed(*names[second]) == 0
    for name in names[first]:
        ring.delete(name)
    for name in names[second]:
        ring.where(name)


@both
def test_a_group_that_is_missing(ring: Arena, family: str) -> None:
    ring.node("a")
    names = members(ring, "pair", family, 2)
    expected = f"PodGroup {ring.namespace}/pair of {family} not found"
    eventually(lambda: reason(ring, names[0]) == expected)
    assert expected in eventually(lambda: ring.events(names[0], "FailedScheduling"))
    ring.group("pair", family, 2)
    for name in names:
        ring.where(name)


def test_more_than_the_minimum_where_there_is_room(ring: Arena) -> None:
    ring.node("a", cpu="3")
    ring.group("elastic", COSCHEDULING, 2)
    names = members(ring, "elastic", COSCHEDULING, 4)
    eventually(lambda: ring.placed(*names) == 3)
    last = next(name for name in names if not ring.get(name)["spec"].get("nodeName"))
    ring.told(
        last,
        "0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: "
        "1 No preemption victims found for incoming pod.",
    )


def test_min_resources_are_waited_for(ring: Arena) -> None:
    ring.node("a", cpu="2")
    ring.group("pair", COSCHEDULING, 2, minResources={"cpu": "3"})
    names = members(ring, "pair", COSCHEDULING, 2)
    eventually(
        lambda: "Insufficient cpu for the pod group's minResources" in reason(ring, names[0])
    )
    ring.node("b", cpu="2")
    for name in names:
        ring.where(name)


@both
def test_a_group_makes_room_for_all_of_itself(ring: Arena, family: str) -> None:
    low, high = ring.priority("low", 10), ring.priority("high", 1000)
    for node in ("a", "b"):
        ring.node(node, cpu="2")
    for number in range(4):
        ring.pod(f"old-{number}", ONE, priorityClassName=low)
    for number in range(4):
        ring.where(f"old-{number}")
    ring.group("team", family, 3)
    names = members(ring, "team", family, 3, priorityClassName=high)
    for name in names:
        ring.where(name)
    left = ring.objects.names("v1", "pods")
    assert len(left & {f"old-{number}" for number in range(4)}) == 1


def test_nobody_is_evicted_for_a_group_that_would_not_fit(ring: Arena) -> None:
    low, high = ring.priority("low", 10), ring.priority("high", 1000)
    ring.node("a", cpu="2100m")
    for number in range(2):
        ring.pod(f"old-{number}", ONE, priorityClassName=low)
        ring.where(f"old-{number}")
    ring.group("team", COSCHEDULING, 3)
    names = members(ring, "team", COSCHEDULING, 3, priorityClassName=high)
    eventually(lambda: "pod group needs 3 pods together, 0 can run" in reason(ring, names[0]))
    fence(ring, "small")
    for number in range(2):
        assert not ring.get(f"old-{number}")["metadata"].get("deletionTimestamp")


@pytest.mark.parametrize(
    ("family", "running", "finished"),
    [(VOLCANO, "Running", "Completed"), (COSCHEDULING, "Running", "Finished")],
)
def test_the_status_follows_the_pods(ring: Arena, family: str, running: str, finished: str) -> None:
    ring.node("a")
    ring.group("pair", family, 2)
    names = members(ring, "pair", family, 2)

    def status_is(**expected: object) -> bool:
        status: Obj = ring.group_status("pair", family)
        return all(status.get(key) == value for key, value in expected.items())

    for name in names:
        ring.where(name)
        body = {"status": {"phase": "Running"}}
        ring.objects.patch("v1", "pods", name, body, subresource="status")
    eventually(lambda: status_is(phase=running, running=2))
    for name in names:
        body = {"status": {"phase": "Succeeded"}}
        ring.objects.patch("v1", "pods", name, body, subresource="status")
    eventually(lambda: status_is(phase=finished, succeeded=2))


def test_a_group_that_waits_too_long_is_reported(ring: Arena) -> None:
    ring.node("a", cpu="1")
    ring.group("pair", COSCHEDULING, 2, scheduleTimeoutSeconds=1)
    members(ring, "pair", COSCHEDULING, 2)
    said = eventually(lambda: ring.events("pair", "ScheduleTimeout"))
    assert said[0].startswith("pod group was not scheduled within 1 seconds: ")


def test_gated_members_keep_the_others_waiting(ring: Arena) -> None:
    ring.node("a")
    ring.group("pair", COSCHEDULING, 2)
    first = ring.member("pair-0", "pair", COSCHEDULING, ONE)
    gates = [{"name": "example.test/wait"}]
    second = ring.member("pair-1", "pair", COSCHEDULING, ONE, schedulingGates=gates)
    eventually(lambda: "current pods number: 1" in reason(ring, first))
    ring.objects.patch("v1", "pods", second, {"spec": {"schedulingGates": None}})
    for name in (first, second):
        ring.where(name)
