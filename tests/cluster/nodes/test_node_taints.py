"""Taints by condition, and pods that leave tainted nodes: the same on every backend."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

from corral.cluster.workloads.nodehealth.controller import Settings, register
from tests.backends import Backend
from tests.cluster.nodes.controllers_thread import controllers
from tests.cluster.nodes.node_objects import Nodes, events, pod, pod_condition
from tests.cluster.objects import Obj, Objects, eventually


@pytest.fixture(scope="module", autouse=True)
def node_health(backend: Backend) -> Iterator[None]:
    with controllers(backend, partial(register, settings=Settings(period=0.2))):
        yield


@pytest.mark.parametrize(
    ("conditions", "taints"),
    [
        ({"MemoryPressure": "True"}, {"memory-pressure:NoSchedule"}),
        ({"DiskPressure": "True"}, {"disk-pressure:NoSchedule"}),
        ({"PIDPressure": "True"}, {"pid-pressure:NoSchedule"}),
        ({"NetworkUnavailable": "True"}, {"network-unavailable:NoSchedule"}),
        (
            {"MemoryPressure": "True", "PIDPressure": "True"},
            {"memory-pressure:NoSchedule", "pid-pressure:NoSchedule"},
        ),
    ],
    ids=lambda value: "-".join(sorted(value)) if isinstance(value, dict) else "",
)
def test_conditions_become_taints(
    nodes: Nodes, unique: str, conditions: dict[str, str], taints: set[str]
) -> None:
    name = f"n-{unique}"
    nodes.make(name)
    eventually(lambda: nodes.taints(name) == set())
    nodes.post(name, **conditions)
    eventually(lambda: nodes.taints(name) == taints)
    assert all(t.get("timeAdded") for t in nodes.get(name)["spec"]["taints"])
    nodes.post(name, **dict.fromkeys(conditions, "False"))
    eventually(lambda: nodes.taints(name) == set())


def test_cordon_is_a_taint(nodes: Nodes, cluster: Objects, unique: str) -> None:
    name = f"n-{unique}"
    nodes.make(name)
    cluster.patch("v1", "nodes", name, {"spec": {"unschedulable": True}})
    eventually(lambda: nodes.taints(name) == {"unschedulable:NoSchedule"})
    cluster.patch("v1", "nodes", name, {"spec": {"unschedulable": None}})
    eventually(lambda: nodes.taints(name) == set())


def test_taints_of_others_stay(nodes: Nodes, unique: str) -> None:
    name = f"n-{unique}"
    nodes.make(name)
    nodes.taint(name, "example.test/own", "NoSchedule")
    nodes.post(name, DiskPressure="True")
    eventually(lambda: nodes.taints(name) == {"own:NoSchedule", "disk-pressure:NoSchedule"})
    nodes.post(name)
    eventually(lambda: nodes.taints(name) == {"own:NoSchedule"})


def test_a_node_that_is_not_ready_is_given_up_and_taken_back(nodes: Nodes, unique: str) -> None:
    nodes.make(f"peer-{unique}")  # where all are down, none is given up
    name = f"n-{unique}"
    nodes.make(name, Ready="False")
    both = {"not-ready:NoSchedule", "not-ready:NoExecute"}
    eventually(lambda: nodes.taints(name) == both)
    nodes.post(name)
    eventually(lambda: nodes.taints(name) == set())


def test_old_labels_follow_the_new_ones(nodes: Nodes, cluster: Objects, unique: str) -> None:
    name = f"n-{unique}"
    nodes.make(name, labels={"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"})

    def labels() -> dict[str, str]:
        found: dict[str, str] = nodes.get(name)["metadata"]["labels"]
        return {key: value for key, value in found.items() if key.startswith("beta.")}

    wanted = {"beta.kubernetes.io/os": "linux", "beta.kubernetes.io/arch": "amd64"}
    eventually(lambda: labels() == wanted)
    cluster.patch("v1", "nodes", name, {"metadata": {"labels": {"beta.kubernetes.io/os": "other"}}})
    eventually(lambda: labels() == wanted)


def test_the_registration_is_told(nodes: Nodes, objects: Objects, unique: str) -> None:
    name = f"n-{unique}"
    nodes.make(name)
    message = f"Node {name} event: Registered Node {name} in Controller"
    wanted = ("Normal", "RegisteredNode", message)
    eventually(lambda: wanted in events(objects, name, "default"))


# --- pods leave --------------------------------------------------------------------------------

KEY = "example.test/leave"


def tolerated(seconds: int | None = None) -> Obj:
    toleration: Obj = {"key": KEY, "operator": "Exists", "effect": "NoExecute"}
    return toleration if seconds is None else toleration | {"tolerationSeconds": seconds}


def leaves(objects: Objects, name: str) -> bool:
    return "deletionTimestamp" in objects.get("v1", "pods", name)["metadata"]


def test_pods_leave_a_node_with_a_no_execute_taint(
    nodes: Nodes, objects: Objects, namespace: str, unique: str
) -> None:
    node = f"n-{unique}"
    nodes.make(node)
    kept = {"forever": [tolerated()], "long": [tolerated(3600)]}
    gone: dict[str, list[Obj]] = {
        "none": [],
        "zero": [tolerated(0)],
        "second": [tolerated(1)],
        "other": [{"key": "example.test/other", "operator": "Exists"}],
        "effect": [{"key": KEY, "operator": "Exists", "effect": "NoSchedule"}],
    }
    for name, tolerations in {**kept, **gone}.items():
        objects.create("pods", pod(name, node, *tolerations))
    nodes.taint(node, KEY)
    for name in gone:
        eventually(lambda name=name: leaves(objects, name))
        found = pod_condition(objects, name, "DisruptionTarget")
        assert found is not None
        assert (found["status"], found["reason"]) == ("True", "DeletionByTaintManager")
        assert found["message"] == "Taint manager: deleting due to NoExecute taint"
        told = ("Normal", "TaintManagerEviction", f"Marking for deletion Pod {namespace}/{name}")
        eventually(lambda name=name, told=told: told in events(objects, name))
    assert not any(leaves(objects, name) for name in kept)


def test_a_pod_that_comes_to_a_tainted_node_leaves(
    nodes: Nodes, objects: Objects, unique: str
) -> None:
    node = f"n-{unique}"
    nodes.make(node)
    nodes.taint(node, KEY)
    objects.create("pods", pod("late", node))
    eventually(lambda: leaves(objects, "late"))


def test_a_taint_that_goes_cancels_the_deletion(
    nodes: Nodes, objects: Objects, namespace: str, unique: str
) -> None:
    node = f"n-{unique}"
    nodes.make(node)
    objects.create("pods", pod("patient", node, tolerated(2)))
    objects.create("pods", pod("impatient", node, tolerated(0)))
    nodes.taint(node, KEY)
    eventually(lambda: leaves(objects, "impatient"))
    nodes.taint(node, None)
    told = ("Normal", "TaintManagerEviction", f"Cancelling deletion of Pod {namespace}/patient")
    eventually(lambda: told in events(objects, "patient"))
    assert not leaves(objects, "patient")
