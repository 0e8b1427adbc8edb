"""Nodes that nothing is heard of, and pods of nodes that are gone."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

from corral.cluster.workloads.nodehealth import controller as nodehealth
from corral.cluster.workloads.podgc import controller as podgc
from tests.backends import Backend
from tests.cluster.nodes.controllers_thread import controllers
from tests.cluster.nodes.node_objects import (
    Nodes,
    events,
    now,
    pod,
    pod_condition,
    running,
    slow_on_real,
)
from tests.cluster.objects import Objects, eventually

pytestmark = pytest.mark.timeout(240)


@pytest.fixture(scope="module", autouse=True)
def quick(backend: Backend) -> Iterator[None]:
    health = nodehealth.Settings(period=0.1, grace=2.0)
    garbage = podgc.Settings(period=0.1, quarantine=0.5)
    with controllers(
        backend,
        partial(nodehealth.register, settings=health),
        partial(podgc.register, settings=garbage),
    ):
        yield


def renew(leases: Objects, name: str) -> None:
    """What a kubelet does every ten seconds."""
    moment = now().replace("Z", ".000000Z")
    if leases.find("coordination.k8s.io/v1", "leases", name) is None:
        body = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": name},
            "spec": {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": moment},
        }
        leases.create("leases", body)
    else:
        patch = {"spec": {"renewTime": moment}}
        leases.patch("coordination.k8s.io/v1", "leases", name, patch)


@slow_on_real
def test_a_silent_node_is_unreachable(
    nodes: Nodes, objects: Objects, cluster: Objects, unique: str
) -> None:
    silent, alive = f"silent-{unique}", f"alive-{unique}"
    leases = Objects(cluster.backend, "kube-node-lease")
    for name in (silent, alive):
        nodes.make(name)
        renew(leases, name)
    objects.create("pods", pod("one", silent))
    objects.create("pods", pod("two", alive))
    for name in ("one", "two"):
        running(objects, name)
    unreachable = {"unreachable:NoSchedule", "unreachable:NoExecute"}

    def given_up() -> bool:
        renew(leases, alive)
        return nodes.taints(silent) == unreachable

    eventually(given_up, seconds=120)
    for kind in ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure"):
        found = nodes.status(silent, kind)
        assert (found["status"], found["reason"]) == ("Unknown", "NodeStatusUnknown")
        assert found["message"] == "Kubelet stopped posting node status."
    eventually(lambda: (pod_condition(objects, "one", "Ready") or {}).get("status") == "False")
    told = ("Warning", "NodeNotReady", "Node is not ready")
    eventually(lambda: told in events(objects, "one"))
    message = f"Node {silent} status is now: NodeNotReady"
    eventually(lambda: ("Normal", "NodeNotReady", message) in events(objects, silent, "default"))

    assert nodes.taints(alive) == set() and nodes.status(alive, "Ready")["status"] == "True"
    assert (pod_condition(objects, "two", "Ready") or {})["status"] == "True"
    # Default tolerations: five minutes.
    assert "deletionTimestamp" not in objects.get("v1", "pods", "one")["metadata"]

    nodes.post(silent)

    def taken_back() -> bool:
        renew(leases, alive)
        renew(leases, silent)
        return nodes.taints(silent) == set()

    eventually(taken_back, seconds=60)


@slow_on_real
def test_a_node_that_never_spoke(nodes: Nodes, cluster: Objects, backend: Backend) -> None:
    if backend.name == "embedded":
        pytest.skip("a fixed minute; shown by the unit tests")
    leases = Objects(cluster.backend, "kube-node-lease")
    nodes.make("peer")
    body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "mute"}}
    cluster.create("nodes", body)
    nodes.names.append("mute")

    def unknown() -> bool:
        renew(leases, "peer")
        return bool((nodes.get("mute").get("status") or {}).get("conditions"))

    eventually(unknown, seconds=120)
    found = nodes.status("mute", "Ready")
    assert (found["status"], found["reason"]) == ("Unknown", "NodeStatusNeverUpdated")
    assert found["message"] == "Kubelet never posted node status."


@slow_on_real
def test_when_all_are_silent_nobody_is_given_up(
    nodes: Nodes, objects: Objects, unique: str
) -> None:
    names = [f"a-{unique}", f"b-{unique}"]
    for name in names:
        nodes.make(name)
    objects.create("pods", pod("kept", names[0]))
    quiet = {"unreachable:NoSchedule"}
    for name in names:
        eventually(lambda name=name: nodes.taints(name) == quiet, seconds=120)
    for name in names:
        nodes.post(name)
        eventually(lambda name=name: nodes.taints(name) <= quiet, seconds=60)


@slow_on_real
def test_pods_of_a_node_that_is_gone(nodes: Nodes, objects: Objects, unique: str) -> None:
    node = f"gone-{unique}"
    nodes.make(node)
    held = pod("held", node)
    held["metadata"]["finalizers"] = ["example.test/hold"]
    objects.create("pods", held)
    objects.create("pods", pod("free", node))
    running(objects, "held")
    nodes.remove(node)
    eventually(lambda: objects.find("v1", "pods", "free") is None, seconds=150)
    found = pod_condition(objects, "held", "DisruptionTarget")
    assert found is not None and objects.get("v1", "pods", "held")["status"]["phase"] == "Failed"
    assert (found["reason"], found["message"]) == (
        "DeletionByPodGC", "PodGC: node no longer exists",
    )  # fmt: skip
    patch = {"metadata": {"finalizers": None}}
    objects.patch("v1", "pods", "held", patch)
    eventually(lambda: objects.find("v1", "pods", "held") is None)


@slow_on_real
def test_a_node_out_of_service_has_lost_its_pods(
    nodes: Nodes, objects: Objects, unique: str
) -> None:
    node = f"dead-{unique}"
    nodes.make(f"peer-{unique}")
    nodes.make(node, Ready="False")
    objects.create("pods", pod("stuck", node))
    running(objects, "stuck")
    objects.delete("v1", "pods", "stuck")
    assert "deletionTimestamp" in objects.get("v1", "pods", "stuck")["metadata"]
    nodes.taint(node, "node.kubernetes.io/out-of-service")
    eventually(lambda: objects.find("v1", "pods", "stuck") is None, seconds=60)


def test_a_lease_without_a_node_goes(
    nodes: Nodes, cluster: Objects, backend: Backend, unique: str
) -> None:
    if backend.name != "embedded":
        pytest.skip("kube-controller-manager leaves this to owner references")
    leases = Objects(cluster.backend, "kube-node-lease")
    stray, own = f"stray-{unique}", f"own-{unique}"
    nodes.make(own)
    for name in (stray, own):
        renew(leases, name)
    eventually(lambda: leases.find("coordination.k8s.io/v1", "leases", stray) is None)
    assert leases.find("coordination.k8s.io/v1", "leases", own) is not None
    leases.delete("coordination.k8s.io/v1", "leases", own)
