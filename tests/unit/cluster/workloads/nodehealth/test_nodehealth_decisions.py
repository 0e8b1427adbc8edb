"""Heartbeats, conditions, taints, zones and evictions: decisions without a server."""

from __future__ import annotations

import math
from typing import Any

import pytest

from corral.cluster.workloads.nodehealth.conditions import (
    disruption_patch,
    not_ready_patch,
    silence_patch,
)
from corral.cluster.workloads.nodehealth.evictions import Evictions, tolerated_for
from corral.cluster.workloads.nodehealth.heartbeats import Heartbeats
from corral.cluster.workloads.nodehealth.settings import Settings
from corral.cluster.workloads.nodehealth.taints import (
    changed_taints,
    labels_patch,
    settled_taints,
    with_eviction,
    without_eviction,
)
from corral.cluster.workloads.nodehealth.zones import Shift, Zones, ZoneState, zone_of

Obj = dict[str, Any]
NOW = "2024-05-01T12:00:00Z"
SETTINGS = Settings()


def node(name: str = "a", *, ready: str = "True", beat: str = "t0", **more: Any) -> Obj:
    conditions = [{"type": "Ready", "status": ready, "lastHeartbeatTime": beat}] if ready else []
    meta = {"name": name, "uid": more.pop("uid", f"uid-{name}"), "resourceVersion": "7"}
    meta["creationTimestamp"] = "2024-01-01T00:00:00Z"
    meta["labels"] = more.pop("labels", {})
    spec = {"taints": more.pop("taints", [])} | more.pop("spec", {})
    conditions += more.pop("conditions", [])
    return {"metadata": meta, "spec": spec, "status": {"conditions": conditions}}


def lease(renewed: str) -> Obj:
    return {"metadata": {"name": "a"}, "spec": {"renewTime": renewed}}


# --- heartbeats --------------------------------------------------------------------------------


class Listener:
    """Heartbeats of one node, heard second by second."""

    def __init__(self) -> None:
        self.beats = Heartbeats(SETTINGS)
        self.now = 0.0

    def hear(self, seconds: float, seen: Obj, renewed: str | None = None) -> bool:
        """Whether it is silent after so many more seconds."""
        self.now += seconds
        self.beats.observe(seen, lease(renewed) if renewed else None, self.now)
        return self.beats.is_silent(seen, self.now)


def test_a_new_node_has_its_whole_grace() -> None:
    listener = Listener()
    listener.now = 1e6
    assert not listener.hear(0, node(beat="long ago"))
    assert not listener.hear(40, node(beat="long ago"))
    assert listener.hear(0.1, node(beat="long ago"))


def test_lease_and_status_are_heartbeats() -> None:
    listener = Listener()
    listener.hear(0, node(), "r0")
    assert not listener.hear(30, node(), "r1")
    assert not listener.hear(30, node(beat="t1"), "r1")
    assert not listener.hear(30, node(beat="t1"), "r2")
    assert listener.hear(41, node(beat="t1"), "r2")


def test_what_we_write_is_no_heartbeat() -> None:
    listener = Listener()
    listener.hear(0, node())
    assert listener.hear(41, node(ready="Unknown"))


def test_a_lease_that_goes_and_returns_is_no_heartbeat() -> None:
    listener = Listener()
    listener.hear(0, node(), "r0")
    listener.hear(20, node())
    assert listener.hear(21, node(), "r0")


def test_startup_takes_longer() -> None:
    listener = Listener()
    mute = node(ready="")
    listener.hear(0, mute)
    assert not listener.hear(60, mute)
    assert listener.hear(1, mute)


def test_a_node_made_again_begins_anew() -> None:
    listener = Listener()
    listener.hear(0, node())
    assert not listener.hear(100, node(uid="another"))


def test_all_begin_anew() -> None:
    listener = Listener()
    listener.hear(0, node())
    assert listener.hear(50, node()) and listener.beats.is_suspect(node(), 21)
    listener.beats.start_anew(listener.now)
    assert not listener.hear(40, node())
    assert not listener.beats.is_suspect(node(), listener.now - 20)


def test_nodes_that_are_gone_are_forgotten() -> None:
    listener = Listener()
    listener.hear(0, node())
    listener.beats.keep_only(set())
    assert listener.beats.silence("a", 1000) == 0
    assert not listener.hear(1000, node())


# --- conditions --------------------------------------------------------------------------------


def test_the_status_of_a_silent_node() -> None:
    pressure = {"type": "MemoryPressure", "status": "False", "reason": "x"}
    unknown = {"type": "DiskPressure", "status": "Unknown", "reason": "kept"}
    patch = silence_patch(node(conditions=[pressure, unknown]), NOW)
    assert patch is not None and patch["metadata"] == {"resourceVersion": "7"}
    found = {c["type"]: c for c in patch["status"]["conditions"]}
    assert set(found) == {"Ready", "MemoryPressure", "PIDPressure"}
    stopped = {
        "type": "Ready",
        "status": "Unknown",
        "reason": "NodeStatusUnknown",
        "message": "Kubelet stopped posting node status.",
        "lastTransitionTime": NOW,
    }
    assert found["Ready"] == stopped
    assert found["PIDPressure"]["reason"] == "NodeStatusNeverUpdated"
    assert found["PIDPressure"]["message"] == "Kubelet never posted node status."
    assert found["PIDPressure"]["lastHeartbeatTime"] == "2024-01-01T00:00:00Z"


def test_a_silent_node_is_marked_once() -> None:
    kinds = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
    marked = node(ready="", conditions=[{"type": k, "status": "Unknown"} for k in kinds])
    assert silence_patch(marked, NOW) is None


def pod(name: str = "p", **more: Any) -> Obj:
    meta = {"name": name, "namespace": "ns", "uid": more.pop("uid", f"uid-{name}")}
    meta["generation"] = 3
    conditions = more.pop("conditions", [])
    return {"metadata": meta, "spec": more, "status": {"conditions": conditions}}


def test_pods_of_a_silent_node() -> None:
    ready = pod(conditions=[{"type": "Ready", "status": "True"}])
    condition = {"type": "Ready", "status": "False", "lastTransitionTime": NOW}
    wanted = {"metadata": {"uid": "uid-p"}, "status": {"conditions": [condition]}}
    assert not_ready_patch(ready, NOW) == wanted
    assert not_ready_patch(pod(conditions=[{"type": "Ready", "status": "False"}]), NOW) is None
    assert not_ready_patch(pod(), NOW) is None


def test_the_status_of_a_pod_that_must_go() -> None:
    patch = disruption_patch(pod(), reason="R", message="M", now=NOW)
    assert patch is not None
    (condition,) = patch["status"]["conditions"]
    assert condition == {
        "type": "DisruptionTarget", "status": "True", "reason": "R", "message": "M",
        "lastTransitionTime": NOW, "observedGeneration": 3,
    }  # fmt: skip
    assert disruption_patch(pod(conditions=[condition]), reason="R", message="M", now="x") is None
    again = disruption_patch(pod(conditions=[condition]), reason="Other", message="M", now="x")
    assert again is not None and again["status"]["conditions"][0]["lastTransitionTime"] == NOW


# --- taints ------------------------------------------------------------------------------------

ROOT = "node.kubernetes.io/"


def taint(text: str) -> Obj:
    key, _, effect = text.partition(":")
    return {"key": key if "/" in key else ROOT + key, "effect": effect}


def marks(taints: list[Obj] | None) -> set[str] | None:
    if taints is None:
        return None
    return {f"{t['key'].removeprefix(ROOT)}:{t['effect']}" for t in taints}


@pytest.mark.parametrize(
    ("given", "taints", "wanted"),
    [
        ({}, [], None),
        ({"ready": "False"}, [], {"not-ready:NoSchedule"}),
        ({"ready": "Unknown"}, [], {"unreachable:NoSchedule"}),
        ({"ready": ""}, [], None),
        ({"spec": {"unschedulable": True}}, [], {"unschedulable:NoSchedule"}),
        ({}, ["unschedulable:NoSchedule"], set()),
        ({"ready": "Unknown"}, ["not-ready:NoSchedule"], {"unreachable:NoSchedule"}),
        ({}, ["unreachable:NoSchedule", "unreachable:NoExecute"], set()),
        (
            {"ready": "False"},
            ["not-ready:NoSchedule", "unreachable:NoExecute"],
            {"not-ready:NoSchedule", "not-ready:NoExecute"},
        ),
        (
            {"ready": "Unknown"},
            ["unreachable:NoSchedule", "not-ready:NoExecute"],
            {"unreachable:NoSchedule", "unreachable:NoExecute"},
        ),
        ({"ready": "False"}, ["not-ready:NoSchedule", "not-ready:NoExecute"], None),
        ({}, ["x.test/own:NoSchedule", "x.test/own:NoExecute"], None),
        ({}, ["x.test/own:NoExecute", "not-ready:NoSchedule"], {"x.test/own:NoExecute"}),
        ({}, ["not-ready:PreferNoSchedule"], None),
        ({}, ["memory-pressure:NoExecute"], None),
    ],
)
def test_taints_that_need_no_turn(given: Obj, taints: list[str], wanted: set[str] | None) -> None:
    given = dict(given)
    spec = {"taints": [taint(text) for text in taints]} | given.pop("spec", {})
    assert marks(settled_taints(node(**given, spec=spec), NOW)) == wanted


@pytest.mark.parametrize(
    ("kind", "key"),
    [
        ("MemoryPressure", "memory-pressure"),
        ("DiskPressure", "disk-pressure"),
        ("PIDPressure", "pid-pressure"),
        ("NetworkUnavailable", "network-unavailable"),
    ],
)
def test_conditions_as_taints(kind: str, key: str) -> None:
    bad = node(conditions=[{"type": kind, "status": "True"}])
    assert marks(settled_taints(bad, NOW)) == {f"{key}:NoSchedule"}
    unknown = node(conditions=[{"type": kind, "status": "Unknown"}])
    assert settled_taints(unknown, NOW) is None


def test_evicting_taints() -> None:
    assert with_eviction(node(), NOW) is None
    assert with_eviction(node(ready=""), NOW) is None
    assert marks(with_eviction(node(ready="False"), NOW)) == {"not-ready:NoExecute"}
    swapped = node(ready="Unknown", taints=[taint("not-ready:NoExecute")])
    assert marks(with_eviction(swapped, NOW)) == {"unreachable:NoExecute"}
    assert with_eviction(node(ready="False", taints=[taint("not-ready:NoExecute")]), NOW) is None
    kept = [taint("unreachable:NoExecute"), taint("unreachable:NoSchedule")]
    assert marks(without_eviction(node(taints=kept), NOW)) == {"unreachable:NoSchedule"}
    assert without_eviction(node(), NOW) is None


def test_a_taint_keeps_its_time() -> None:
    old = taint("not-ready:NoSchedule") | {"timeAdded": "before"}
    assert changed_taints(node(taints=[old]), add=[(old["key"], "NoSchedule")], now=NOW) is None
    more = changed_taints(node(taints=[old]), add=[("k", "NoExecute")], now=NOW)
    assert more == [old, {"key": "k", "effect": "NoExecute", "timeAdded": NOW}]


def test_labels() -> None:
    assert labels_patch(node()) == {}
    stable = {"kubernetes.io/os": "linux", "kubernetes.io/arch": "arm64"}
    old = {"beta.kubernetes.io/os": "linux", "beta.kubernetes.io/arch": "arm64"}
    assert labels_patch(node(labels=stable)) == old
    assert labels_patch(node(labels=stable | old)) == {}
    wrong = stable | old | {"beta.kubernetes.io/os": "plan9"}
    assert labels_patch(node(labels=wrong)) == {"beta.kubernetes.io/os": "linux"}


# --- zones -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ready", "down", "state"),
    [
        (0, 1, ZoneState.FULL),
        (0, 5, ZoneState.FULL),
        (1, 2, ZoneState.NORMAL),
        (1, 3, ZoneState.PARTIAL),
        (4, 4, ZoneState.NORMAL),
        (4, 5, ZoneState.PARTIAL),
        (5, 0, ZoneState.NORMAL),
    ],
)
def test_states_of_a_zone(ready: int, down: int, state: ZoneState) -> None:
    zones = Zones(SETTINGS)
    zones.judge({"z": [True] * ready + [False] * down})
    assert zones.state("z") is state


def test_one_node_every_ten_seconds() -> None:
    zones = Zones(SETTINGS)
    zones.judge({"": [True] * 5 + [False] * 3})
    for name in "abc":
        zones.wait("", name)
    assert zones.turns(100.0) == ["a"]
    assert zones.turns(105.0) == []
    assert zones.turns(110.0) == ["b"]
    zones.leave("c")
    assert zones.turns(130.0) == []


def test_zones_have_turns_of_their_own() -> None:
    zones = Zones(SETTINGS)
    zones.judge({"x": [True, False], "y": [True, False]})
    zones.wait("x", "a")
    zones.wait("y", "b")
    assert sorted(zones.turns(0.0)) == ["a", "b"]


def test_small_unhealthy_zones_stand_still_and_large_ones_go_slowly() -> None:
    small, large = Zones(SETTINGS), Zones(SETTINGS)
    small.judge({"": [True] + [False] * 9})
    large.judge({"": [True] * 10 + [False] * 90})
    for zones in (small, large):
        zones.wait("", "a")
        zones.wait("", "b")
    assert small.turns(0.0) == [] and small.turns(1e6) == []
    assert large.turns(0.0) == ["a"]
    assert large.turns(99.0) == [] and large.turns(100.0) == ["b"]


def test_when_all_are_down_nobody_is_given_up() -> None:
    zones = Zones(SETTINGS)
    assert zones.judge({"x": [True], "y": [True]}) is Shift.NONE
    assert zones.judge({"x": [False], "y": [True]}) is Shift.NONE
    zones.wait("x", "a")
    assert zones.judge({"x": [False], "y": [False]}) is Shift.ALL_DOWN
    zones.wait("x", "a")
    assert zones.turns(1e6) == []
    assert zones.judge({"x": [False], "y": [False]}) is Shift.NONE
    assert zones.judge({"x": [False], "y": [True]}) is Shift.NOT_ALL_DOWN
    assert zones.turns(2e6) == ["a"]


def test_a_start_with_all_down() -> None:
    zones = Zones(SETTINGS)
    assert zones.judge({"": [False, False]}) is Shift.ALL_DOWN
    assert zones.judge({"": [True, False]}) is Shift.NOT_ALL_DOWN


def test_no_nodes_and_zones_that_go() -> None:
    zones = Zones(SETTINGS)
    assert zones.judge({}) is Shift.NONE
    zones.judge({"x": [True], "y": [False]})
    zones.judge({"x": [True]})
    assert zones.state("y") is ZoneState.INITIAL


def test_names_of_zones() -> None:
    assert zone_of(node()) == ""
    new = {"topology.kubernetes.io/zone": "z", "topology.kubernetes.io/region": "r"}
    assert zone_of(node(labels=new)) == "r:\0:z"
    old = {"failure-domain.beta.kubernetes.io/zone": "old"}
    assert zone_of(node(labels=new | old)) == "r:\0:old"


# --- evictions ---------------------------------------------------------------------------------


def toleration(key: str = "", seconds: int | None = None, effect: str = "NoExecute") -> Obj:
    found: Obj = {"operator": "Exists", "effect": effect}
    if key:
        found["key"] = key
    return found if seconds is None else found | {"tolerationSeconds": seconds}


LEAVE = {"key": "leave", "effect": "NoExecute"}
OTHER = {"key": "other", "effect": "NoExecute"}


@pytest.mark.parametrize(
    ("tolerations", "taints", "wanted"),
    [
        ([], [], math.inf),
        ([], [LEAVE], 0),
        ([toleration("leave")], [LEAVE], math.inf),
        ([toleration("leave", 30)], [LEAVE], 30),
        ([toleration("leave", 0)], [LEAVE], 0),
        ([toleration("leave", -5)], [LEAVE], 0),
        ([toleration("leave", 30)], [LEAVE, OTHER], 0),
        ([toleration("leave", 30), toleration("other", 10)], [LEAVE, OTHER], 10),
        ([toleration("leave", 30), toleration("other")], [LEAVE, OTHER], 30),
        ([toleration()], [LEAVE, OTHER], math.inf),
        ([toleration("leave", 30), toleration()], [LEAVE], 30),
        ([toleration("leave", effect="NoSchedule")], [LEAVE], 0),
        ([{"key": "leave", "value": "x"}], [LEAVE | {"value": "x"}], math.inf),
        ([{"key": "leave", "value": "x"}], [LEAVE | {"value": "y"}], 0),
    ],
)
def test_how_long_taints_are_tolerated(
    tolerations: list[Obj], taints: list[Obj], wanted: float
) -> None:
    assert tolerated_for(tolerations, taints) == wanted


def test_the_time_of_a_pod_runs_from_when_it_was_seen() -> None:
    evictions = Evictions()
    patient = pod(tolerations=[toleration("leave", 30), toleration("other", 100)])
    assert evictions.due_in(patient, [LEAVE], 1000.0) == 30
    assert evictions.due_in(patient, [LEAVE], 1010.0) == 20
    assert evictions.due_in(patient, [OTHER], 1020.0) == 80
    assert evictions.due_in(patient, [LEAVE], 1100.0) == 0
    assert evictions.due_in(pod(uid="new", tolerations=[toleration("leave", 30)]), [LEAVE], 1100.0)


def test_a_pod_may_stay_again() -> None:
    evictions = Evictions()
    patient = pod(tolerations=[toleration("leave", 30)])
    evictions.due_in(patient, [LEAVE], 0.0)
    assert evictions.due_in(patient, [], 10.0) is None
    assert evictions.cancel("ns/p") and not evictions.cancel("ns/p")
    assert evictions.due_in(patient, [LEAVE], 20.0) == 30
    assert evictions.due_in(pod("q", tolerations=[toleration()]), [LEAVE], 0.0) is None
    assert len(evictions) == 1
