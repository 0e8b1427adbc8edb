"""EndpointSlices from services and pods."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from corral.cluster.workloads.endpoints import SlicePlan, plan_slices, selected_pods
from corral.kube.types import Obj

OWNER = {"apiVersion": "v1", "kind": "Service", "name": "web", "uid": "svc", "controller": True,
         "blockOwnerDeletion": True}  # fmt: skip
LABELS = {"kubernetes.io/service-name": "web",
          "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"}  # fmt: skip
NODES: dict[str, Obj] = {
    "n1": {"metadata": {"name": "n1", "labels": {"topology.kubernetes.io/zone": "z1"}}},
    "n2": {"metadata": {"name": "n2"}},
}
HTTP = {"name": "http", "port": 80, "targetPort": 8080, "protocol": "TCP"}


def service(**spec: Any) -> Obj:
    meta = {"name": "web", "namespace": "ns", "uid": "svc", **spec.pop("meta", {})}
    full = {"selector": {"a": "b"}, "clusterIP": "10.0.0.1", "ipFamilies": ["IPv4"],
            "ports": [HTTP], **spec}  # fmt: skip
    return {"metadata": meta, "spec": full}


def pod(name: str, ip: str = "10.1.0.1", *, ready: bool = True, deleting: bool = False,
        phase: str = "Running", **spec: Any) -> Obj:  # fmt: skip
    meta: Obj = {"name": name, "namespace": "ns", "uid": f"uid-{name}", "labels": {"a": "b"}}
    if deleting:
        meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return {
        "metadata": meta, "spec": {"nodeName": "n1", **spec},
        "status": {"phase": phase, "podIP": ip, "podIPs": [{"ip": ip}] if ip else [],
                   "conditions": [{"type": "Ready", "status": "True" if ready else "False"}]},
    }  # fmt: skip


def many(count: int, first: int = 0) -> list[Obj]:
    return [pod(f"p{i:03}", f"10.1.{i // 250}.{i % 250 + 1}") for i in range(first, first + count)]


class World:
    """The slices a server keeps, and how many writes a plan took."""

    def __init__(self) -> None:
        self.slices: dict[str, Obj] = {}
        self.made = 0

    def sync(self, subject: Obj, pods: list[Obj], **options: Any) -> SlicePlan:
        plan = plan_slices(subject, pods, NODES, copy.deepcopy(list(self.slices.values())),
                           **options)  # fmt: skip
        for one in plan.delete:
            del self.slices[one["metadata"]["name"]]
        for one in plan.create:
            self.made += 1
            one["metadata"]["name"] = f"web-{self.made}"
        for one in [*plan.create, *plan.update]:
            self.slices[one["metadata"]["name"]] = copy.deepcopy(one)
        return plan

    def sizes(self) -> list[int]:
        return sorted(len(s["endpoints"]) for s in self.slices.values())


def writes(plan: SlicePlan) -> tuple[int, int, int]:
    return len(plan.create), len(plan.update), len(plan.delete)


def only(subject: Obj, pods: list[Obj]) -> Obj:
    (one,) = plan_slices(subject, pods, NODES, []).create
    return one


def test_a_slice() -> None:
    assert only(service(meta={"labels": {"team": "x"}}), [pod("a")]) == {
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {"generateName": "web-", "namespace": "ns",
                     "labels": {"team": "x", **LABELS}, "ownerReferences": [OWNER]},
        "addressType": "IPv4",
        "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
        "endpoints": [{
            "addresses": ["10.1.0.1"],
            "conditions": {"ready": True, "serving": True, "terminating": False},
            "targetRef": {"kind": "Pod", "namespace": "ns", "name": "a", "uid": "uid-a"},
            "nodeName": "n1", "zone": "z1"}],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("options", "published", "expected"),
    [
        ({}, False, (True, True, False)),
        ({"ready": False}, False, (False, False, False)),
        ({"deleting": True}, False, (False, True, True)),
        ({"deleting": True, "ready": False}, False, (False, False, True)),
        ({"ready": False}, True, (True, False, False)),
        ({"deleting": True}, True, (True, True, True)),
    ],
)
def test_conditions(options: Any, published: bool, expected: tuple[bool, ...]) -> None:
    one = only(service(publishNotReadyAddresses=published), [pod("a", **options)])
    found = one["endpoints"][0]["conditions"]
    assert (found["ready"], found["serving"], found["terminating"]) == expected


@pytest.mark.parametrize(
    "one", [pod("a", phase="Failed"), pod("a", phase="Succeeded"), pod("a", ip="")]
)
def test_pods_that_are_no_endpoints(one: Obj) -> None:
    assert only(service(), [one])["endpoints"] == []


def test_pods_on_unknown_nodes_wait() -> None:
    lost = pod("a", nodeName="n9")
    plan = plan_slices(service(), [lost], NODES, [])
    assert plan.retry
    shown = plan_slices(service(publishNotReadyAddresses=True), [lost], NODES, [])
    assert not shown.retry and len(shown.create[0]["endpoints"]) == 1


def test_named_ports_and_different_pods() -> None:
    named = {"name": "http", "port": 80, "targetPort": "web", "appProtocol": "h2"}
    old = pod("a", containers=[{"ports": [{"name": "web", "containerPort": 8000}]}])
    new = pod("b", "10.1.0.2", containers=[{"ports": [{"name": "web", "containerPort": 9000}]}])
    sidecar = {"restartPolicy": "Always", "ports": [{"name": "web", "containerPort": 9000}]}
    side = pod("c", "10.1.0.3", initContainers=[sidecar])
    plan = plan_slices(service(ports=[named]), [old, new, side], NODES, [])
    found = {s["ports"][0]["port"]: len(s["endpoints"]) for s in plan.create}
    assert found == {8000: 1, 9000: 2}
    assert plan.create[0]["ports"][0]["appProtocol"] == "h2"
    nothing = only(service(ports=[named]), [pod("d")])
    assert nothing["ports"] == [] and len(nothing["endpoints"]) == 1


def test_headless_and_hostname() -> None:
    one = only(service(clusterIP="None", ports=[]), [pod("a", hostname="a", subdomain="web")])
    assert one["metadata"]["labels"]["service.kubernetes.io/headless"] == ""
    assert one["endpoints"][0]["hostname"] == "a" and one["ports"] == []
    other = only(service(), [pod("a", hostname="a", subdomain="other")])
    assert "hostname" not in other["endpoints"][0]


def test_an_empty_slice_without_ports_is_filled() -> None:
    world = World()
    headless = service(clusterIP="None", ports=[])
    world.sync(headless, [])
    assert writes(world.sync(headless, many(2))) == (0, 1, 0)
    assert world.sizes() == [2]


def test_both_families() -> None:
    both = pod("a")
    both["status"]["podIPs"] = [{"ip": "10.1.0.1"}, {"ip": "FD00:0::1"}]
    plan = plan_slices(service(ipFamilies=["IPv4", "IPv6"]), [both], NODES, [])
    found = {s["addressType"]: s["endpoints"][0]["addresses"] for s in plan.create}
    assert found == {"IPv4": ["10.1.0.1"], "IPv6": ["fd00::1"]}
    world = World()
    world.sync(service(ipFamilies=["IPv4", "IPv6"]), [both])
    assert writes(world.sync(service(), [both])) == (0, 0, 1)


def test_an_empty_service_has_an_empty_slice() -> None:
    world = World()
    assert writes(world.sync(service(), [])) == (1, 0, 0)
    assert writes(world.sync(service(), [])) == (0, 0, 0)
    assert writes(world.sync(service(), many(1))) == (0, 1, 0)
    assert world.sizes() == [1]
    assert writes(world.sync(service(), [])) == (0, 1, 0)
    assert world.sizes() == [0]


def test_a_hundred_to_a_slice() -> None:
    world = World()
    assert writes(world.sync(service(), many(250))) == (3, 0, 0)
    assert world.sizes() == [50, 100, 100]
    assert writes(world.sync(service(), many(250))) == (0, 0, 0)


def test_few_writes() -> None:
    world = World()
    world.sync(service(), many(150))
    assert writes(world.sync(service(), many(151))) == (0, 1, 0)
    assert world.sizes() == [51, 100]
    less = [p for p in many(151) if p["metadata"]["name"] != "p000"]
    assert writes(world.sync(service(), less)) == (0, 1, 0)
    assert world.sizes() == [51, 99]
    world.sync(service(), [*less, *many(1, 200)])
    assert world.sizes() == [51, 100]


def test_changes_of_an_endpoint_are_one_update() -> None:
    world = World()
    world.sync(service(), many(3))
    pods = many(3)
    pods[1]["status"]["conditions"][0]["status"] = "False"
    assert writes(world.sync(service(), pods)) == (0, 1, 0)
    (one,) = world.slices.values()
    assert [e["conditions"]["ready"] for e in one["endpoints"]] == [True, False, True]


def test_changed_labels_and_ports() -> None:
    world = World()
    world.sync(service(), many(2))
    assert writes(world.sync(service(meta={"labels": {"x": "y"}}), many(2))) == (0, 1, 0)
    moved = service(meta={"labels": {"x": "y"}}, ports=[{**HTTP, "targetPort": 9}])
    assert writes(world.sync(moved, many(2))) == (0, 1, 0)
    (one,) = world.slices.values()
    assert one["ports"][0]["port"] == 9 and len(one["endpoints"]) == 2


def test_slices_of_an_earlier_service_go() -> None:
    world = World()
    world.sync(service(), many(1))
    again = service(meta={"uid": "later"})
    assert writes(world.sync(again, many(1))) == (1, 0, 1)


def test_services_being_deleted_get_nothing_new() -> None:
    gone = service(meta={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    assert writes(plan_slices(gone, many(1), NODES, [])) == (0, 0, 0)


def test_trigger_time() -> None:
    world = World()
    world.sync(service(), many(1), trigger_time="2026-01-01T00:00:00Z")
    (one,) = world.slices.values()
    key = "endpoints.kubernetes.io/last-change-trigger-time"
    assert one["metadata"]["annotations"] == {key: "2026-01-01T00:00:00Z"}
    world.sync(service(), many(2))
    (one,) = world.slices.values()
    assert "annotations" not in one["metadata"]


def test_selection() -> None:
    other = pod("x")
    other["metadata"]["labels"] = {"a": "c"}
    far = pod("f")
    far["metadata"]["namespace"] = "far"
    found = selected_pods(service(), [pod("b"), pod("a"), other, far])
    assert [p["metadata"]["name"] for p in found or ()] == ["a", "b"]
    assert selected_pods(service(selector=None), [pod("a")]) is None
    assert selected_pods(service(type="ExternalName"), [pod("a")]) is None


def test_no_families_named() -> None:
    kinds = [s["addressType"] for s in plan_slices(
        service(ipFamilies=None, clusterIP="None"), [], NODES, []).create]  # fmt: skip
    assert kinds == ["IPv4", "IPv6"]
    (one,) = plan_slices(service(ipFamilies=None, clusterIP="fd00::9"), [], NODES, []).create
    assert one["addressType"] == "IPv6"
