"""Proplets: which there are, how they are, and who gets a task."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest

from corral.api.propeller.tasks import Placement, Scheduling, Weights
from corral.families.federated.groups.choosing import Demand, choose
from corral.families.federated.groups.proplets import Proplet, discover, from_node, slim
from corral.runtime.sightings import Sightings

Obj = dict[str, Any]
NOW = 1_800_000_000.0
BEAT = "propeller.absmach.io/last-heartbeat"
RECENT = "2027-01-15T08:00:00Z"
"""The same as a time of the API."""


def node(name: str, *, ready: str | None = "True", **metadata: Any) -> Obj:
    conditions = [] if ready is None else [{"type": "Ready", "status": ready, "message": "kubelet"}]
    return {"metadata": {"name": name, **metadata}, "status": {"conditions": conditions}}


def pod(name: str, node: str = "n1", *, phase: str = "Running", **metadata: Any) -> Obj:
    return {
        "metadata": {"name": name, "namespace": "ns", **metadata},
        "spec": {"nodeName": node},
        "status": {"phase": phase},
    }


NODES = {"n1": node("n1"), "n2": node("n2", ready="Unknown")}


def found(pods: list[Obj], nodes: list[Obj] | None = None, timeout: float = 40) -> list[Proplet]:
    return discover(pods, nodes or [], node_of=NODES.get, now=NOW, timeout=timeout)


# --- discovery -----------------------------------------------------------------------------------


def test_pods_come_before_nodes() -> None:
    (one,) = found([pod("p", labels={"proplet-id": "alpha"})], [node("n9")])
    assert (one.id, one.node, one.kind, one.namespace, one.alive) == (
        "alpha",
        "n1",
        "Pod",
        "ns",
        True,
    )
    (other,) = found([], [node("n9")])
    assert (other.id, other.node, other.kind, other.namespace) == ("n9", "n9", "Node", "")
    (third,) = found([pod("done", phase="Succeeded")], [node("n9")])
    assert third.kind == "Node"


def test_without_a_label_the_name_is_the_id() -> None:
    assert [p.id for p in found([pod("b"), pod("a")])] == ["a", "b"]
    assert from_node(node("n", labels={"proplet-id": "x"})).id == "x"


def test_of_two_with_one_id_the_one_that_is_alive_counts() -> None:
    labels = {"proplet-id": "x"}
    pods = [pod("a", phase="Pending", labels=labels), pod("b", "n1", labels=labels)]
    (one,) = found(pods)
    assert one.alive


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"status": {"phase": "Pending"}}, "its pod is pending"),
        ({"metadata": {"deletionTimestamp": RECENT}}, "its pod is being deleted"),
        ({"spec": {"nodeName": "n2"}}, "its node n2: it is not ready: kubelet"),
        ({"spec": {"nodeName": "n7"}}, "its node n7 is gone"),
        (
            {"status": {"conditions": [{"type": "Ready", "status": "False", "message": "probe"}]}},
            "its pod is not ready: probe",
        ),
        (
            {
                "status": {
                    "containerStatuses": [
                        {"name": "c", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}
                    ]
                }
            },
            "its container c waits: CrashLoopBackOff",
        ),
        (
            {"metadata": {"annotations": {BEAT: "2020-01-01T00:00:00Z"}}},
            "nothing was heard of it for 222163200 s",
        ),
        (
            {"metadata": {"annotations": {BEAT: "noon"}}},
            "its last heartbeat 'noon' is no time",
        ),
    ],
)  # fmt: skip
def test_a_pod_that_is_not_alive(change: Obj, why: str) -> None:
    obj = pod("p")
    for part, more in change.items():
        obj[part] = {**obj[part], **more}
    (proplet,) = found([slim(obj)])
    assert not proplet.alive
    assert proplet.why == why


def test_a_heartbeat_that_is_recent_enough() -> None:
    beat = {BEAT: RECENT}
    (proplet,) = found([pod("p", annotations=beat)])
    assert (proplet.alive, proplet.heartbeat) == (True, RECENT)


def test_a_heartbeat_of_a_wrong_clock_is_not_recent_for_ever() -> None:
    known, beating = Sightings(), pod("p", annotations={BEAT: "2029-01-14T08:00:00Z"})
    for after, alive in ((0, True), (40, True), (41, False)):
        (proplet,) = discover(
            [beating], [], node_of=NODES.get, now=NOW + after, timeout=40, sightings=known
        )
        assert proplet.alive is alive


def test_nodes_without_a_condition_are_alive_and_cordoned_ones_too() -> None:
    assert from_node(node("n", ready=None)).alive
    assert not from_node(node("n", ready="False")).alive
    cordoned = from_node({**node("n"), "spec": {"unschedulable": True}})
    assert cordoned.alive and cordoned.cordoned


def test_what_data_there_is() -> None:
    marked = node(
        "n",
        annotations={"propeller.absmach.io/datasets": " mnist, ,digits "},
        labels={"dataset.propeller.absmach.io/faces": ""},
    )
    assert from_node(marked).datasets == {"mnist", "digits", "faces"}


# --- choosing ------------------------------------------------------------------------------------


def proplets(*ids: str, **more: Any) -> list[Proplet]:
    return [Proplet(id, f"node-{id}", "Pod", **more) for id in ids]


def chosen(among: list[Proplet], loads: dict[str, int], demand: Demand, seed: int = 0) -> str:
    choice = choose(among, loads, demand, Random(seed))
    assert choice.proplet is not None, choice
    return choice.proplet.id


def test_nobody_to_choose() -> None:
    demand = Demand()
    assert choose([], {}, demand, Random(0)).reason == "NoProplets"
    dead = proplets("a", why="it is not ready")
    choice = choose(dead, {}, demand, Random(0))
    assert choice.reason == "NoAliveProplet"
    assert choice.message == "none of 1 proplets is alive: a: it is not ready"
    assert choose(proplets("a", cordoned=True), {}, demand, Random(0)).reason == "PropletsCordoned"
    full = choose(proplets("a"), {"a": 2}, Demand(limit=2), Random(0))
    assert full.reason == "PropletsFull"
    strict = Demand(placement=Placement(match_labels={"gpu": "yes"}))
    assert choose(proplets("a"), {}, strict, Random(0)).reason == "NoSuitableProplet"


def test_round_robin_goes_on_after_the_last() -> None:
    among = proplets("c", "a", "b")
    rotation, last = [], ""
    for _ in range(5):
        last = chosen(among, {}, Demand("round-robin", last=last))
        rotation.append(last)
    assert rotation == ["a", "b", "c", "a", "b"]
    assert chosen(proplets("a", "c"), {}, Demand("round-robin", last="b")) == "c"


def test_least_loaded_and_the_first_of_equals() -> None:
    assert chosen(proplets("b", "a", "c"), {"a": 1, "b": 1}, Demand("least-loaded")) == "c"
    assert chosen(proplets("b", "a"), {"a": 1, "b": 1}, Demand("least-loaded")) == "a"


def test_random_is_spread_and_repeats_with_its_seed() -> None:
    rng, again = Random(7), Random(7)
    picks = [choose(proplets("a", "b", "c"), {}, Demand("random"), rng) for _ in range(300)]
    names = [pick.proplet.id for pick in picks if pick.proplet is not None]
    assert min(Counter(names).values()) > 60
    same = [choose(proplets("a", "b", "c"), {}, Demand("random"), again) for _ in range(300)]
    assert picks == same


def test_affinity() -> None:
    fast, slow = (
        Proplet("slow", "n", "Pod", labels={"disk": "hdd", "zone": "1"}),
        Proplet("fast", "n", "Pod", labels={"disk": "ssd"}),
    )
    liked = Placement.model_validate(
        {
            "preferred": [
                {"weight": 10, "matchLabels": {"disk": "ssd"}},
                {"weight": 1, "matchLabels": {"zone": "1"}},
            ]
        }
    )
    demand = Demand("affinity", placement=liked)
    assert chosen([fast, slow], {"fast": 9}, demand) == "fast"
    assert chosen([fast, slow], {"fast": 9}, Demand("affinity")) == "slow"


def test_data_locality() -> None:
    among = [
        Proplet("none", "n", "Pod"),
        Proplet("half", "n", "Pod", datasets=frozenset({"a"})),
        Proplet("all", "n", "Pod", datasets=frozenset({"a", "b", "c"})),
    ]
    demand = Demand("data-locality", placement=Placement(datasets=["a", "b"]))
    assert chosen(among, {"all": 5}, demand) == "all"
    assert chosen(among[:2], {"half": 5}, demand) == "half"


def test_advanced_weighs_everything() -> None:
    near = Proplet("near", "n", "Pod", datasets=frozenset({"a"}))
    idle = Proplet("idle", "n", "Pod")
    wanted = Placement(datasets=["a"])
    loads = {"near": 4}

    def demand(**weights: int) -> Demand:
        return Demand("advanced", limit=5, weights=Weights(**weights), placement=wanted)

    assert chosen([near, idle], loads, demand()) == "near"
    assert chosen([near, idle], loads, demand(load=10)) == "idle"


def test_a_demand_of_a_group() -> None:
    scheduling = Scheduling(algorithm="random", max_tasks_per_proplet=3)
    demand = Demand.of(scheduling, None, last="x")
    assert (demand.algorithm, demand.limit, demand.last) == ("random", 3, "x")
