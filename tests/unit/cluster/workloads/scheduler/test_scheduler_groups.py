"""The status of PodGroups, and the definitions of their kinds."""

from __future__ import annotations

from typing import Any

import pytest
from scheduler_world import Client, Recorder, make_pod

from corral.cluster.scheduler import crds
from corral.cluster.scheduler.gangs import Gang, Gangs
from corral.cluster.scheduler.groupstatus import Tally, group_status, tally
from corral.cluster.scheduler.groupwriter import GroupWriter, joined, parted
from corral.cluster.scheduler.placement import COSCHEDULING, VOLCANO, PodGroup
from corral.kube import errors
from corral.kube.types import Obj
from corral.runtime import Result

NOW = "2026-01-01T00:00:10Z"
VERSIONS = {VOLCANO: "v1beta1", COSCHEDULING: "v1alpha1"}


def group(family: str, minimum: int, status: Obj | None = None, **spec: Any) -> Obj:
    return {
        "apiVersion": f"{family}/{VERSIONS[family]}",
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "ns", "uid": "u"},
        "spec": {"minMember": minimum, **spec},
        "status": status or {},
    }


def pods(*phases: str) -> dict[str, Obj]:
    """``waiting`` has no node, ``placed`` has one and has not begun."""
    found = {}
    for number, phase in enumerate(phases):
        on = "" if phase == "waiting" else "n"
        status = {} if phase in ("waiting", "placed") else {"phase": phase}
        found[str(number)] = make_pod(f"p{number}", on=on, status=status)
    return found


def gang(family: str, minimum: int, *phases: str, status: Obj | None = None) -> Gang:
    obj = group(family, minimum, status)
    made = Gang((family, "ns", "g"), obj, PodGroup.parse(obj))
    made.pods = pods(*phases)
    return made


def status_of(made: Gang) -> Obj:
    return group_status(made, now=NOW, transition="t1")


def test_members_are_counted() -> None:
    found = tally(pods("waiting", "placed", "Running", "Succeeded", "Failed").values())
    assert found == Tally(pods=3, placed=2, running=1, succeeded=1, failed=1)


PHASES = [
    (COSCHEDULING, 2, ("waiting",), "Pending"),
    (COSCHEDULING, 2, ("waiting", "waiting"), "Scheduling"),
    (COSCHEDULING, 2, ("placed", "waiting"), "Scheduling"),
    (COSCHEDULING, 2, ("placed", "placed"), "Scheduled"),
    (COSCHEDULING, 2, ("Running", "Running"), "Running"),
    (COSCHEDULING, 2, ("Running", "Succeeded"), "Running"),
    (COSCHEDULING, 2, ("Succeeded", "Succeeded"), "Finished"),
    (COSCHEDULING, 2, ("Failed", "Running"), "Failed"),
    (VOLCANO, 2, ("waiting", "waiting"), "Pending"),
    (VOLCANO, 2, ("placed", "placed"), "Inqueue"),
    (VOLCANO, 2, ("Running", "Running"), "Running"),
    (VOLCANO, 2, ("Succeeded", "Failed"), "Completed"),
]


@pytest.mark.parametrize(("family", "minimum", "phases", "expected"), PHASES)
def test_phases(family: str, minimum: int, phases: tuple[str, ...], expected: str) -> None:
    assert status_of(gang(family, minimum, *phases))["phase"] == expected


def test_a_group_that_is_stuck_half_way() -> None:
    made = gang(VOLCANO, 3, "Running", "waiting", status={"phase": "Inqueue"})
    assert status_of(made)["phase"] == "Inqueue"
    made.problem, made.problem_reason = "no room", "NotEnoughResources"
    assert status_of(made)["phase"] == "Unknown"


def test_the_start_is_noted_once() -> None:
    made = gang(COSCHEDULING, 1, "waiting")
    assert status_of(made)["scheduleStartTime"] == NOW
    earlier = {"scheduleStartTime": "2025-01-01T00:00:00Z", "occupiedBy": "job"}
    made = gang(COSCHEDULING, 1, "waiting", status=earlier)
    assert status_of(made).items() >= earlier.items()


def test_counts_of_nothing_are_written_only_over_others() -> None:
    assert "running" not in status_of(gang(COSCHEDULING, 1, "waiting"))
    made = gang(COSCHEDULING, 1, "waiting", status={"running": 3})
    assert status_of(made)["running"] == 0


def test_conditions_of_volcano() -> None:
    made = gang(VOLCANO, 2, "waiting", "waiting")
    assert "conditions" not in status_of(made)
    made.problem, made.problem_reason = "no room", "NotEnoughResources"
    status = status_of(made)
    condition = {
        "type": "Unschedulable",
        "status": "True",
        "reason": "NotEnoughResources",
        "message": "no room",
        "lastTransitionTime": NOW,
        "transitionID": "t1",
    }
    assert status["conditions"] == [condition]
    again = gang(VOLCANO, 2, "waiting", "waiting", status=status)
    again.problem, again.problem_reason = made.problem, made.problem_reason
    assert group_status(again, now="later", transition="t2") == status
    ready = gang(VOLCANO, 2, "placed", "placed", status=status)
    found = group_status(ready, now="later", transition="t2")["conditions"]
    assert [(c["type"], c["status"]) for c in found] == [
        ("Unschedulable", "False"),
        ("Scheduled", "True"),
    ]


# Writing it


class Writing:
    def __init__(self, obj: Obj, *phases: str) -> None:
        self.client, self.recorder, self.wall = Client(), Recorder(), 1_767_225_610.0
        self.gangs = Gangs(lambda key: None)
        self.gangs.set_group(obj, gone=False)
        self.gang = self.gangs.get(PodGroup.parse(obj).key)
        self.gang.pods, self.gang.ours = pods(*phases), True
        client: Any = self.client
        recorder: Any = self.recorder
        self.writer = GroupWriter(
            client, recorder, self.gangs, wall=lambda: self.wall, identity=lambda: "t"
        )

    async def reconcile(self) -> Result | None:
        return await self.writer.reconcile(joined(self.gang.key))


def test_keys_for_the_queue() -> None:
    key = (VOLCANO, "ns", "g")
    assert parted(joined(key)) == key


async def test_a_status_is_written_when_it_differs() -> None:
    world = Writing(group(COSCHEDULING, 1, {"phase": "Pending", "gone": 1}), "Running")
    await world.reconcile()
    ((name, body),) = world.client.of("patch")
    assert name == "g"
    assert body["metadata"] == {"uid": "u"}
    assert body["status"]["phase"] == "Running"
    world.gangs.set_group(group(COSCHEDULING, 1, body["status"]), gone=False)
    await world.reconcile()
    assert len(world.client.of("patch")) == 1


async def test_a_definition_without_the_subresource() -> None:
    world = Writing(group(VOLCANO, 1), "Running")
    world.client.fail["patch", "g"] = errors.NotFound("no such path")
    await world.reconcile()
    assert len(world.client.of("patch")) == 2
    world = Writing(group(VOLCANO, 1), "Running")
    world.client.fail["patch", "g"] = errors.NotFound("no such group")
    world.client.fail["get", "g"] = errors.NotFound("no such group")
    await world.reconcile()
    assert len(world.client.of("patch")) == 1


async def test_a_group_that_is_gone_is_not_written() -> None:
    world = Writing(group(VOLCANO, 1), "Running")
    world.gangs.set_group(group(VOLCANO, 1), gone=True)
    assert await world.reconcile() is None
    assert not world.client.calls


async def test_a_group_may_go_while_it_is_written() -> None:
    world = Writing(group(VOLCANO, 1), "Running")

    def go(*_: Any) -> None:
        world.gangs.set_group(group(VOLCANO, 1), gone=True)

    world.client.after = go
    assert await world.reconcile() is None
    assert len(world.client.of("patch")) == 1


async def test_a_group_of_another_scheduler_is_left_alone() -> None:
    world = Writing(group(COSCHEDULING, 1), "Running")
    world.gang.ours = False
    assert await world.reconcile() is None
    assert not world.client.calls


async def test_problems_are_told_when_they_change() -> None:
    world = Writing(group(VOLCANO, 1), "waiting")
    assert world.gangs.blame(world.gang, "no room", "NotEnoughResources")
    assert not world.gangs.blame(world.gang, "no room", "NotEnoughResources")
    for _ in range(2):
        await world.reconcile()
    assert world.recorder.said("g", "Unschedulable") == ["no room"]
    world.gangs.blame(world.gang, "")
    await world.reconcile()
    assert world.recorder.said("g", "Scheduled") == ["pod group is ready"]


async def test_a_group_that_waits_too_long_is_reported_once() -> None:
    world = Writing(group(COSCHEDULING, 2, scheduleTimeoutSeconds=5), "waiting", "waiting")
    result = await world.reconcile()
    assert result == Result(requeue_after=6.0)
    began = {"scheduleStartTime": "2026-01-01T00:00:00Z"}
    world.gangs.set_group(group(COSCHEDULING, 2, began, scheduleTimeoutSeconds=5), gone=False)
    world.gangs.blame(world.gang, "no room")
    for _ in range(2):
        assert await world.reconcile() is None
    said = world.recorder.said("g", "ScheduleTimeout")
    assert said == ["pod group was not scheduled within 5 seconds: no room"]
    world.gang.pods = pods("placed", "placed")
    assert await world.reconcile() is None


# The definitions


def test_definitions_of_both_kinds() -> None:
    found = {crd["spec"]["group"]: crd for crd in crds()}
    assert set(found) == {VOLCANO, COSCHEDULING}
    for family, crd in found.items():
        assert crd["metadata"]["name"] == f"podgroups.{family}"
        (version,) = crd["spec"]["versions"]
        assert version["name"] == VERSIONS[family]
        assert "status" in version["subresources"]
    crds()[0]["spec"].clear()
    assert crds()[0]["spec"]
