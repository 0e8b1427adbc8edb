"""The life of a machine's entry, and what is wished for."""

from __future__ import annotations

from typing import Any, cast

import pytest

from corral.api.spot.kinds import INSTANCE_LABEL
from corral.api.spot.vm import SpotInstanceVMSpec
from corral.clouds import (
    AccountRefused,
    BadRequest,
    CloudError,
    MissingLibrary,
    Notice,
    NoticeKind,
    QuotaExceeded,
    State,
    StockOut,
    Vm,
)
from corral.families.spot.machines import entries
from corral.families.spot.machines.clouds import Asked, MachineClouds
from corral.families.spot.machines.joining import Joiner
from corral.families.spot.machines.nodes import MachineNodes, is_its_node, marked
from corral.families.spot.machines.notices import Listeners
from corral.families.spot.machines.providers import Providers
from corral.families.spot.machines.requested import Wish, machines_named, wishes_for
from corral.runtime.keys import format_time
from corral.runtime.sightings import Sightings

Obj = dict[str, Any]
NOW = 1.8e9

AHEAD = 730 * 86400.0
"""Seconds by which a clock is wrong."""


def placement(instance: str, **more: Any) -> Obj:
    return {
        "instance": instance,
        "vm": "here",
        "cloud": "local",
        "region": "local",
        "zone": "local-a",
        "machineType": "small",
        "provisioningModel": "Spot",
        **more,
    }


def job(name: str, *placements: Obj, **metadata: Any) -> Obj:
    return {
        "metadata": {"name": name, "namespace": "n", "uid": f"uid-{name}", **metadata},
        "spec": {
            "spotInstanceVMRef": {"name": "here"},
            "alternativeVMRefs": [{"name": "there"}],
            "gcpCredentialsSecretRef": {"name": "keys"},
        },
        "status": {"placements": list(placements)},
    }


def wish(instance: str, *, uid: str = "u") -> Wish:
    return wishes_for("here", [job("j", placement(instance), uid=uid)])[0]


def vm(state: State = State.RUNNING, **more: Any) -> Vm:
    return Vm(name="m", zone="local-a", id="i-1", state=state, created=NOW, **more)


def begun(instance: str = "m") -> Obj:
    return entries.settled([], [wish(instance)], NOW)[0]


# --- wishes --------------------------------------------------------------------------------------


def test_a_wish_is_a_placement_without_an_end() -> None:
    jobs = [
        job("b", placement("b-0-1", endTime="2027-01-15T08:00:00Z"), placement("b-0-2")),
        job("a", placement("a-0-1", vm="there")),
        job("c", placement("c-0-1"), deletionTimestamp="2027-01-15T08:00:00Z"),
    ]
    found = wishes_for("here", jobs)
    assert [each.instance for each in found] == ["b-0-2"]
    assert found[0].credentials == {"name": "keys"}
    assert found[0].spot


def test_request_ids_are_of_one_job_and_one_machine_for_ever() -> None:
    assert wish("m").request_id == wish("m").request_id
    assert len({wish(m, uid=u).request_id for m in "ab" for u in "xy"}) == 4


def test_machines_named_are_those_of_spec_and_of_placements() -> None:
    assert machines_named(job("j", placement("m", vm="gone"))) == ["here", "there", "gone"]


# --- entries -------------------------------------------------------------------------------------


def test_a_wish_has_an_entry_with_its_request_before_anything_is_asked() -> None:
    entry = begun()
    assert entry["state"] == entries.PENDING
    assert entry["requestID"] == wish("m").request_id
    assert entry["credentialsSecretRef"] == {"name": "keys"}
    assert entries.settled([entry], [wish("m")], NOW + 5) == [entry]


@pytest.mark.parametrize("state", [entries.PENDING, entries.PROVISIONING, entries.RUNNING])
def test_what_nobody_wishes_is_to_go(state: str) -> None:
    known = {**begun(), "state": state}
    (entry,) = entries.settled([known], [], NOW)
    assert (entry["state"], entry["reason"]) == (entries.STOPPING, "Deleted")
    assert known["state"] == state, "what was read stays as it is"


def test_a_machine_of_another_job_with_the_same_name_goes_first() -> None:
    old = begun()
    (entry,) = entries.settled([old], [wish("m", uid="other")], NOW)
    assert entry["state"] == entries.STOPPING
    entries.removed(entry, now=NOW)
    (entry,) = entries.settled([entry], [wish("m", uid="other")], NOW)
    assert entry["requestID"] == wish("m", uid="other").request_id
    assert entry["state"] == entries.PENDING


def test_what_the_cloud_made_is_written_down() -> None:
    entry = begun()
    entries.created(entry, vm(State.PENDING, internal_ip="10.0.0.1"), now=NOW)
    assert (entry["state"], entry["instanceID"]) == (entries.PROVISIONING, "i-1")
    assert entry["internalIP"] == "10.0.0.1"
    assert "externalIP" not in entry
    entries.seen(entry, vm(external_ip="192.0.2.1"), now=NOW)
    assert entry["state"] == entries.RUNNING
    assert (entry["internalIP"], entry["externalIP"]) == ("10.0.0.1", "192.0.2.1")


def test_a_machine_that_was_made_too_late_stays_on_its_way_out() -> None:
    (entry,) = entries.settled([begun()], [], NOW)
    entries.created(entry, vm(), now=NOW)
    assert (entry["state"], entry["instanceID"]) == (entries.STOPPING, "i-1")
    assert not entries.is_over(entry)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (StockOut("none", code="NO_ROOM"), "StockOut"),
        (QuotaExceeded("full"), "QuotaExceeded"),
        (AccountRefused("who are you"), "AccountRefused"),
        (MissingLibrary("pip install"), "AccountRefused"),
        (BadRequest("no"), "BadRequest"),
        (CloudError("?"), "BadRequest"),
    ],
)
def test_a_refusal_is_an_end_with_a_reason(error: CloudError, reason: str) -> None:
    entry = begun()
    entries.refused(entry, error, now=NOW)
    assert (entry["state"], entry["reason"]) == (entries.TERMINATED, reason)
    assert str(error) == entry["message"]
    assert entries.is_over(entry)


@pytest.mark.parametrize(
    ("found", "announced", "reason"),
    [
        (vm(State.TERMINATED, preempted=True), False, "Preempted"),
        (vm(State.TERMINATED, preempted=False), True, "Lost"),
        (vm(State.TERMINATED), True, "Preempted"),
        (None, False, "Lost"),
        (None, True, "Preempted"),
    ],
)
def test_a_machine_that_is_gone_was_preempted_or_lost(
    found: Vm | None, announced: bool, reason: str
) -> None:
    entry = {**begun(), "state": entries.RUNNING}
    if announced:
        entry["preemptionDeadline"] = "2027-01-15T08:00:30Z"
    entries.seen(entry, found, now=NOW)
    assert (entry["state"], entry["reason"]) == (entries.TERMINATED, reason)
    assert not entries.is_over(entry), "what is left at the cloud is still to be cleared away"
    entries.removed(entry, now=NOW)
    assert entry["reason"] == reason
    assert entries.is_over(entry)


def test_only_the_oldest_that_jobs_know_of_are_forgotten() -> None:
    over = [{"name": f"m{n}", "endTime": "2027-01-15T08:00:00Z"} for n in range(5)]
    known = [*over, {"name": "alive", "state": entries.RUNNING}]
    left = entries.kept(known, ["m0"], 2)
    assert [entry["name"] for entry in left] == ["m0", "m3", "m4", "alive"]


# --- notices and nodes ---------------------------------------------------------------------------


def node(*conditions: Obj, **spec: Any) -> Obj:
    return {"metadata": {"name": "m"}, "spec": spec, "status": {"conditions": list(conditions)}}


READY = {"type": "Ready", "status": "True"}
TAKEN = {
    "type": "SpotPreemption",
    "status": "True",
    "lastTransitionTime": "2027-01-15T08:00:00Z",
    "message": "the machine will be taken at 2027-01-15T08:00:30Z",
}


def test_a_machine_has_joined_when_its_node_is_ready() -> None:
    entry = {**begun(), "state": entries.RUNNING}
    entries.told_by_node(entry, node({"type": "Ready", "status": "False"}))
    assert not entry["joinedCluster"]
    entries.told_by_node(entry, node(READY))
    assert (entry["joinedCluster"], entry["nodeName"]) == (True, "m")


def test_the_nearest_deadline_counts_and_the_first_notice() -> None:
    entry = {**begun(), "state": entries.RUNNING}
    entries.told_by_node(entry, node(READY, TAKEN))
    assert entry["preemptionNotice"] == "2027-01-15T08:00:00Z"
    assert entry["preemptionDeadline"] == "2027-01-15T08:00:30Z"
    for deadline in (NOW + 40, NOW + 20):
        kind = NoticeKind.PREEMPTION
        entries.told_by(entry, Notice(kind=kind, vm="m", deadline=deadline, seen=NOW + 1))
    assert entry["preemptionDeadline"] == "2027-01-15T08:00:20Z"
    assert entry["preemptionNotice"] == "2027-01-15T08:00:00Z"


@pytest.mark.parametrize("message", ["", "soon", "at 25 o'clock"])
def test_words_of_somebody_else_are_no_deadline(message: str) -> None:
    entry = {**begun(), "state": entries.RUNNING}
    entries.told_by_node(entry, node(READY, {**TAKEN, "message": message}))
    assert "preemptionDeadline" not in entry


def test_nodes_are_marked_once() -> None:
    entry = {**begun(), "preemptionDeadline": "2027-01-15T08:00:30Z"}
    other = {"key": "other", "effect": "NoExecute"}
    patch = marked(node(taints=[other]), entry)
    assert patch is not None
    taints = patch["spec"]["taints"]
    assert taints[0] == other
    assert {taint["key"].rpartition("/")[2]: taint.get("value") for taint in taints[1:]} == {
        "provisioned-instance": "m",
        "preemption": "1800000030",
    }
    done = node(taints=taints)
    done["metadata"]["labels"] = patch["metadata"]["labels"]
    assert marked(done, entry) is None


@pytest.mark.parametrize(
    ("status", "age", "joined", "state"),
    [
        ("True", 1000, True, entries.RUNNING),
        ("Unknown", 100, True, entries.RUNNING),
        ("Unknown", 200, True, entries.TERMINATED),
        ("False", 200, True, entries.TERMINATED),
        ("False", 200, False, entries.RUNNING),
    ],
)
def test_a_machine_whose_node_is_silent_for_long_is_lost(
    status: str, age: float, joined: bool, state: str
) -> None:
    entry = {**begun(), "state": entries.RUNNING, "joinedCluster": joined}
    ready = {"type": "Ready", "status": status, "lastTransitionTime": format_time(NOW - age)}
    entries.silent(entry, node(ready), now=NOW, limit=180)
    assert entry["state"] == state
    assert entry.get("reason") == ("Lost" if state == entries.TERMINATED else None)


@pytest.mark.parametrize(
    ("labels", "made", "its"),
    [
        ({}, "2027-01-15T08:00:05Z", True),
        ({}, "2027-01-15T07:58:00Z", True),
        ({}, "2027-01-15T07:00:00Z", False),
        ({INSTANCE_LABEL: "m"}, "2027-01-15T07:00:00Z", True),
        ({INSTANCE_LABEL: "other"}, "2027-01-15T07:00:00Z", False),
    ],
)
def test_a_node_that_was_there_before_is_somebody_else_s(
    labels: dict[str, str], made: str, its: bool
) -> None:
    found = {"metadata": {"name": "m", "labels": labels, "creationTimestamp": made}}
    assert is_its_node(found, begun(), now=NOW) is its


def test_a_node_of_a_machine_that_a_wrong_clock_began() -> None:
    entry = {**begun(), "creationTime": format_time(NOW + AHEAD)}
    found = {"metadata": {"name": "m", "creationTimestamp": format_time(NOW + 60)}}
    assert is_its_node(found, entry, now=NOW + 60)


def test_a_machine_that_a_wrong_clock_began_has_its_time_to_join() -> None:
    entry = {**begun(), "state": entries.RUNNING, "creationTime": format_time(NOW + AHEAD)}
    known = Sightings()
    lefts = [
        entries.left_to_join(entry, now=NOW + after, limit=900, sightings=known)
        for after in (0, 900, 901)
    ]
    assert lefts == [900, 0, -1]
    entry["joinedCluster"] = True
    assert entries.left_to_join(entry, now=NOW, limit=900, sightings=known) > 1e6


def test_a_machine_whose_node_a_wrong_clock_called_silent() -> None:
    """While the clock was two years ahead; the node may be back at once, so it has its time."""
    entry = {**begun(), "state": entries.RUNNING, "joinedCluster": True}
    told = {"type": "Ready", "status": "Unknown", "lastTransitionTime": format_time(NOW + AHEAD)}
    known = Sightings()
    for after, state in ((0, entries.RUNNING), (180, entries.RUNNING), (181, entries.TERMINATED)):
        entries.silent(entry, node(told), now=NOW + after, limit=180, sightings=known)
        assert entry["state"] == state
    assert entry["message"] == "its node has not been ready for 181 s"


@pytest.mark.parametrize(("after", "state"), [(0, None), (59, None), (60, entries.TERMINATED)])
async def test_a_machine_of_a_wrong_clock_that_its_cloud_does_not_know(
    after: float, state: str | None
) -> None:
    times = [NOW, NOW + after]
    clouds = MachineClouds(
        cast(Providers, NoMachines()),
        cast(MachineNodes, None),
        cast(Joiner, None),
        cast(Listeners, NoMachines()),
        wall=lambda: times[0],
    )
    made = {**begun(), "cloud": "aws", "zone": "us-east-1a", "region": "us-east-1"}
    made |= {"state": entries.RUNNING, "creationTime": format_time(NOW + AHEAD)}
    asked = Asked("team", SpotInstanceVMSpec())
    assert await clouds.look(asked, made) is None
    times.pop(0)
    change = await clouds.look(asked, made)
    if change is not None:
        change(made)
    assert (made["state"] if change is not None else None) == state


class NoMachines:
    """An account without any."""

    async def open(self, *_: object) -> NoMachines:
        return self

    async def owner(self) -> str:
        return "us"

    async def get(self, _: object) -> None:
        return None

    def listen(self, *_: object) -> None:
        return


@pytest.mark.parametrize(
    ("states", "phase"),
    [
        ([], "Idle"),
        ([(entries.TERMINATED, False)], "Idle"),
        ([(entries.RUNNING, True)], "Ready"),
        ([(entries.RUNNING, True), (entries.PENDING, False)], "Provisioning"),
    ],
)
def test_phases(states: list[tuple[str, bool]], phase: str) -> None:
    known = [{"state": state, "joinedCluster": joined} for state, joined in states]
    assert entries.phase_of(known, deleting=False) == phase
    assert entries.phase_of(known, deleting=True) == "Deleting"
