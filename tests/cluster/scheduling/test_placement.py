"""Where pods are put: the same cases with kube-scheduler and with ours."""

from __future__ import annotations

import pytest

from tests.cluster.objects import eventually
from tests.cluster.scheduling.arena import HOST, ZONE, Arena

CPU2 = {"cpu": "2"}


def required(*expressions: dict[str, object]) -> dict[str, object]:
    terms = {"nodeSelectorTerms": [{"matchExpressions": list(expressions)}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def term(label: str, key: str = HOST) -> dict[str, object]:
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": label}}}


def pods(kind: str, *terms: dict[str, object]) -> dict[str, object]:
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}


def test_a_pod_is_bound_told_and_announced(arena: Arena) -> None:
    node = arena.node("a")
    arena.pod("web")
    assert arena.where("web") == node
    eventually(lambda: arena.condition("web").get("status") == "True")
    message = f"Successfully assigned {arena.namespace}/web to {node}"
    assert eventually(lambda: arena.events("web", "Scheduled")) == [message]


def test_requests_decide(arena: Arena) -> None:
    arena.node("small", cpu="1")
    arena.node("large", cpu="8")
    arena.pod("big", {"cpu": "6"})
    assert arena.short("big") == "large"
    arena.pod("device", {"cpu": "100m"}, nodeSelector={"none": "such"})
    arena.told(
        "device",
        "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector. "
        "preemption: 0/2 nodes are available: "
        "2 Preemption is not helpful for scheduling.",
    )


def test_extended_resources_are_counted(arena: Arena) -> None:
    arena.node("plain")
    arena.node("gpu", extended={"nvidia.com/gpu": "2"})
    for name in ("one", "two"):
        container = {
            "name": "main",
            "image": "train",
            "resources": {"limits": {"nvidia.com/gpu": "1"}},
        }
        arena.pod(name, containers=[container])
        assert arena.short(name) == "gpu"


def test_pods_spread_over_equal_nodes(arena: Arena) -> None:
    arena.node("a")
    arena.node("b")
    for number in range(6):
        arena.pod(f"p{number}", {"cpu": "500m", "memory": "1Gi"})
    nodes = [arena.short(f"p{number}") for number in range(6)]
    assert sorted(nodes) == ["a"] * 3 + ["b"] * 3


@pytest.mark.parametrize(
    ("name", "spec"),
    [
        ("selector", {"nodeSelector": {"disk": "ssd"}}),
        (
            "in",
            {"affinity": required({"key": "disk", "operator": "In", "values": ["ssd", "nvme"]})},
        ),
        (
            "not-in",
            {"affinity": required({"key": "disk", "operator": "NotIn", "values": ["hdd"]})},
        ),
        ("greater", {"affinity": required({"key": "gen", "operator": "Gt", "values": ["3"]})}),
        (
            "preferred",
            {
                "affinity": {
                    "nodeAffinity": {
                        "preferredDuringSchedulingIgnoredDuringExecution": [
                            {
                                "weight": 100,
                                "preference": {
                                    "matchExpressions": [{"key": "gen", "operator": "Exists"}]
                                },
                            }
                        ]
                    }
                }
            },
        ),
    ],
)
def test_node_labels_decide(arena: Arena, name: str, spec: dict[str, object]) -> None:
    arena.node("hdd", labels={"disk": "hdd"})
    arena.node("ssd", labels={"disk": "ssd", "gen": "4"})
    arena.seen("disk=hdd", "disk=ssd")
    arena.pod(name, **spec)
    assert arena.short(name) == "ssd"


def test_a_pod_that_names_its_node_by_affinity_goes_there(arena: Arena) -> None:
    """As the pods of a DaemonSet do."""
    arena.node("a")
    wanted = arena.node("b")
    field = {"key": "metadata.name", "operator": "In", "values": [wanted]}
    terms = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    arena.pod("daemon", affinity=affinity)
    assert arena.where("daemon") == wanted


def test_pods_that_belong_together(arena: Arena) -> None:
    for name in ("a1", "a2", "b1", "b2"):
        arena.node(name, labels={ZONE: name[0]})
    arena.pod("db", labels={"app": "db"}, nodeSelector={ZONE: "b"})
    arena.where("db")
    arena.pod("web", affinity=pods("podAffinity", term("db", ZONE)))
    assert arena.short("web")[0] == "b"


def test_pods_that_must_be_apart(arena: Arena) -> None:
    arena.node("a")
    arena.node("b")
    for number in range(3):
        affinity = pods("podAntiAffinity", term("lonely"))
        arena.pod(f"p{number}", labels={"app": "lonely"}, affinity=affinity)
        if number < 2:
            arena.where(f"p{number}")
    assert {arena.short("p0"), arena.short("p1")} == {"a", "b"}
    arena.told(
        "p2",
        "0/2 nodes are available: 2 node(s) didn't match pod anti-affinity rules. "
        "preemption: 0/2 nodes are available: "
        "2 No preemption victims found for incoming pod.",
    )


def test_tolerations_open_tainted_nodes(arena: Arena) -> None:
    arena.node("free", cpu="1")
    arena.node("kept", taints=[{"key": "team", "value": "ml", "effect": "NoSchedule"}])
    arena.pod("guest", CPU2)
    arena.told(
        "guest",
        "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s). "
        "preemption: 0/2 nodes are available: "
        "2 Preemption is not helpful for scheduling.",
    )
    toleration = {"key": "team", "operator": "Equal", "value": "ml", "effect": "NoSchedule"}
    arena.pod("member", CPU2, tolerations=[toleration])
    assert arena.short("member") == "kept"


def test_hard_spread_keeps_zones_even(arena: Arena) -> None:
    for name in ("a1", "b1", "b2"):
        arena.node(name, labels={ZONE: name[0]})
    constraint = {
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "even"}},
    }
    zones = []
    for number in range(4):
        arena.pod(f"p{number}", labels={"app": "even"}, topologySpreadConstraints=[constraint])
        zones.append(arena.short(f"p{number}")[0])
    assert sorted(zones) == ["a", "a", "b", "b"]


def test_host_ports_are_taken_once(arena: Arena) -> None:
    arena.node("a")
    ports = [{"containerPort": 80, "hostPort": 8080}]
    arena.pod("first", ports=ports)
    arena.where("first")
    arena.pod("second", ports=ports)
    arena.told(
        "second",
        "0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports. "
        "preemption: 0/1 nodes are available: "
        "1 No preemption victims found for incoming pod.",
    )


def test_pods_of_another_scheduler_are_left_alone(arena: Arena) -> None:
    arena.node("a")
    arena.pod("foreign", schedulerName="somebody-else")
    arena.pod("ours")
    arena.stays("foreign", lambda: arena.where("ours"))


def test_gates_hold_a_pod_back(arena: Arena) -> None:
    arena.node("a")
    arena.pod("gated", schedulingGates=[{"name": "example.test/wait"}])
    condition = arena.condition("gated")
    assert (condition["status"], condition["reason"]) == ("False", "SchedulingGated")
    arena.pod("free")
    arena.stays("gated", lambda: arena.where("free"))
    arena.objects.patch("v1", "pods", "gated", {"spec": {"schedulingGates": None}})
    assert arena.short("gated") == "a"
