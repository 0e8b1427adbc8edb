"""Pools: places are given once, proplets are found by their ids, and lost ones are told apart."""

from __future__ import annotations

from typing import Any, cast

import pytest

from corral.api.propeller.kinds import PROPLETGROUPS, PropletGroup, WasmTask
from corral.families.federated.groups.family import group_status
from corral.families.federated.groups.pools import NotListed, Pools
from corral.families.federated.groups.proplets import Proplet
from corral.families.federated.settings import FederatedSettings
from corral.families.federated.tasks.placing import Placing
from corral.kube.client import KubeClient
from corral.runtime import Manager

Obj = dict[str, Any]
EDGE = {"type": "edge"}


class Cluster:
    """What the caches of an operator hold."""

    def __init__(self) -> None:
        self.now = 0.0
        self.manager = manager = Manager(cast(KubeClient, object()))
        self.settings = FederatedSettings(heartbeat_timeout=30)
        self.pools = Pools(manager, self.settings, wall=lambda: self.now, clock=lambda: self.now)
        self.placing = Placing(self.pools, self.settings)
        self.edge = self.pools._all_pods()
        self.edge._synced.set()

    def node(self, name: str, *, ready: str = "True", **labels: str) -> None:
        condition = {"type": "Ready", "status": ready}
        status = {"conditions": [condition]}
        self.pools.nodes.store.put({"metadata": {"name": name, "labels": labels}, "status": status})

    def proplet(self, name: str, node: str, *, phase: str = "Running", label: bool = True) -> None:
        labels = {**EDGE, **({"proplet-id": name} if label else {})}
        metadata = {"name": name, "namespace": "ns", "labels": labels}
        pod = {"metadata": metadata, "spec": {"nodeName": node}, "status": {"phase": phase}}
        self.edge.store.put(pod)
        if label:
            self.pools.labelled.store.put(pod)

    def group(self, limit: int = 0, algorithm: str = "least-loaded", **status: Any) -> Obj:
        group = {
            "apiVersion": PROPLETGROUPS.api_version,
            "kind": "PropletGroup",
            "metadata": {"name": "g", "namespace": "ns"},
            "spec": {
                "selector": {"matchLabels": EDGE},
                "scheduling": {"algorithm": algorithm, "maxTasksPerProplet": limit},
            },
            "status": status,
        }
        self.pools.groups.store.put(group)
        return group

    def task(self, name: str, status: Obj | None = None, **spec: Any) -> Obj:
        task = {
            "apiVersion": "propeller.absmach.io/v1alpha1",
            "kind": "WasmTask",
            "metadata": {"name": name, "namespace": "ns", "uid": name},
            "spec": {"imageUrl": "a", "propletGroupRef": {"name": "g"}, **spec},
            "status": status or {},
        }
        self.pools.tasks.store.put(task)
        return task

    def choose(self, task: Obj) -> str:
        """The id of a proplet, or the reason why there is none."""
        choice = self.placing.choose(task, WasmTask.read(task))
        return choice.proplet.id if choice.proplet is not None else choice.reason

    def standing(self, task: Obj) -> Any:
        return self.placing.standing(task, WasmTask.read(task))


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster()
    for number in ("1", "2"):
        cluster.node(f"n{number}")
        cluster.proplet(f"p{number}", f"n{number}")
    return cluster


def test_a_place_is_given_once_though_no_cache_knows_yet(cluster: Cluster) -> None:
    cluster.group(limit=1)
    tasks = [cluster.task(f"t{number}") for number in range(3)]
    assert [cluster.choose(task) for task in tasks] == ["p1", "p2", "PropletsFull"]
    # asked again, a task keeps nobody out of the place that it was given
    assert cluster.choose(tasks[0]) == "p1"
    assert cluster.pools.loads() == {"p1": 1, "p2": 1}
    # the cache has heard of it: it counts once
    cluster.task("t0", {"phase": "Scheduled", "propletId": "p1"})
    assert cluster.pools.loads() == {"p1": 1, "p2": 1}
    cluster.task("t0", {"phase": "Completed", "propletId": "p1"})
    assert cluster.pools.loads() == {"p2": 1}
    assert cluster.choose(tasks[2]) == "p1"


def test_a_reservation_goes_with_its_task(cluster: Cluster) -> None:
    cluster.group(limit=1)
    task = cluster.task("t")
    cluster.choose(task)
    cluster.pools.tasks.store.remove("ns/t")
    assert cluster.pools.loads() == {}
    cluster.choose(cluster.task("u"))
    cluster.pools.release(cluster.task("u"))
    assert cluster.pools.loads() == {}


def test_round_robin_goes_on_where_another_operator_stopped(cluster: Cluster) -> None:
    group = cluster.group(algorithm="round-robin", lastSelected="p1")
    assert cluster.choose(cluster.task("a")) == "p2"
    assert cluster.choose(cluster.task("b")) == "p1"
    assert cluster.pools.last_of(group) == "p1"


def test_pods_that_are_not_listed_yet(cluster: Cluster) -> None:
    cluster.group()
    cluster.edge._synced.clear()
    with pytest.raises(NotListed):
        cluster.choose(cluster.task("t"))


def test_a_group_that_selects_nothing(cluster: Cluster) -> None:
    group = cluster.group()
    group["spec"]["selector"] = {}
    assert cluster.choose(cluster.task("t")) == "NoProplets"
    status = group_status(PropletGroup.read(group), [], {}, last="", now=0.0)
    (ready,) = status.conditions or ()
    assert "matchLabels is empty" in ready.message


def test_groups_with_many_selectors_have_one_watch(cluster: Cluster) -> None:
    before = len(cluster.manager._informers)
    for number in range(50):
        group = cluster.group()
        group["metadata"] = {"name": f"g{number}", "namespace": "ns"}
        group["spec"]["selector"] = {"matchLabels": {"type": f"kind-{number}"}}
        assert cluster.choose(cluster.task("t")) == "NoProplets"
    assert len(cluster.manager._informers) == before


def test_a_pod_that_no_group_selects_is_no_proplet(cluster: Cluster) -> None:
    cluster.proplet("plain", "n2", label=False)
    assert cluster.pools.find("plain", "ns") is None


@pytest.mark.parametrize(
    ("id", "node"), [("p1", "n1"), ("plain", "n2"), ("n2", "n2"), ("marked", "n3")]
)
def test_a_proplet_by_its_id(cluster: Cluster, id: str, node: str) -> None:
    cluster.group()
    cluster.proplet("plain", "n2", label=False)
    cluster.node("n3", **{"proplet-id": "marked"})
    found = cluster.pools.find(id, "ns")
    assert found is not None and (found.id, found.node) == (id, node)
    assert cluster.pools.find("nobody", "ns") is None


def test_a_task_that_says_nothing_goes_to_whoever_is_called_a_proplet(cluster: Cluster) -> None:
    assert cluster.choose(cluster.task("t", propletGroupRef=None)) == "p1"
    bare = Cluster()
    bare.node("n1")
    bare.node("n2", **{"proplet-id": "second"})
    assert bare.choose(bare.task("t", propletGroupRef=None)) == "second"


def test_a_named_proplet_that_cannot_have_it(cluster: Cluster) -> None:
    assert cluster.choose(cluster.task("a", propletId="nobody")) == "PropletNotFound"
    cluster.proplet("p1", "n1", phase="Pending")
    assert cluster.choose(cluster.task("b", propletId="p1")) == "NoAliveProplet"
    assert cluster.choose(cluster.task("c", propletGroupRef={"name": "none"})) == "GroupNotFound"


# --- proplets that are lost ----------------------------------------------------------------------


def bound(cluster: Cluster, **spec: Any) -> Obj:
    return cluster.task("t", {"phase": "Running", "propletId": "p1", "nodeName": "n1"}, **spec)


def test_a_proplet_is_lost_after_its_time(cluster: Cluster) -> None:
    cluster.group()
    task = bound(cluster)
    assert cluster.standing(task).proplet.alive
    cluster.proplet("p1", "n1", phase="Pending")
    first = cluster.standing(task)
    assert (first.lost, first.trouble, first.after) == ("", "its pod is pending", 30.0)
    cluster.now = 29.0
    assert cluster.standing(task).after == 1.0
    cluster.now = 31.0
    assert cluster.standing(task).lost == "its pod is pending"


def test_one_that_comes_back_in_time_is_not_lost(cluster: Cluster) -> None:
    cluster.group()
    task = bound(cluster)
    cluster.proplet("p1", "n1", phase="Pending")
    cluster.standing(task)
    cluster.now = 20.0
    cluster.proplet("p1", "n1")
    assert not cluster.standing(task).lost
    cluster.proplet("p1", "n1", phase="Pending")
    cluster.now = 45.0
    assert cluster.standing(task).after == 30.0


def test_who_names_a_proplet_waits_for_it(cluster: Cluster) -> None:
    task = bound(cluster, propletId="p1")
    cluster.proplet("p1", "n1", phase="Pending")
    cluster.standing(task)
    cluster.now = 100.0
    standing = cluster.standing(task)
    assert (standing.lost, standing.trouble) == ("", "its pod is pending")
    cluster.proplet("p1", "n2")
    assert cluster.standing(task).lost == "it is on node n2 now"


def test_what_is_shown_of_a_group(cluster: Cluster) -> None:
    group = cluster.group()
    proplets = [
        Proplet("a", "n1", "Pod", namespace="ns", heartbeat="2027-01-15T08:00:00Z"),
        Proplet("b", "n2", "Node", why="it is not ready: away"),
    ]
    made = group_status(PropletGroup.read(group), proplets, {"a": 2}, last="a", now=0.0)
    status = made.model_dump(by_alias=True, exclude_none=True)
    assert status["proplets"] == [
        {
            "id": "a", "alive": True, "taskCount": 2, "kind": "Pod", "namespace": "ns",
            "nodeName": "n1", "lastHeartbeat": "2027-01-15T08:00:00Z",
        },
        {
            "id": "b", "alive": False, "taskCount": 0, "kind": "Node", "nodeName": "n2",
            "message": "it is not ready: away",
        },
    ]  # fmt: skip
    assert (status["totalProplets"], status["availableProplets"]) == (2, 1)
    assert status["lastSelected"] == "a"
