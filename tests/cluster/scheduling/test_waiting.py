"""Pods that no node will take: what they are told, and what sets them going again."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cluster.objects import eventually
from tests.cluster.scheduling.arena import HOST, ZONE, Arena

NO_HELP = "preemption: 0/{0} nodes are available: {0} Preemption is not helpful for scheduling."
NO_VICTIMS = (
    "preemption: 0/{0} nodes are available: {0} No preemption victims found for incoming pod."
)


def test_without_nodes(arena: Arena) -> None:
    arena.pod("early")
    arena.told("early", "no nodes available to schedule pods")
    arena.node("late")
    assert arena.short("early") == "late"


@pytest.mark.parametrize(
    ("case", "node", "pod", "message"),
    [
        (
            "cpu",
            {"cpu": "1"},
            {"requests": {"cpu": "2"}},
            "1 Insufficient cpu. " + NO_HELP,
        ),
        (
            "cpu and memory",
            {"cpu": "1", "memory": "1Gi"},
            {"requests": {"cpu": "2", "memory": "2Gi"}},
            "1 Insufficient cpu, 1 Insufficient memory. " + NO_HELP,
        ),
        (
            "device",
            {},
            {"requests": {"nvidia.com/gpu": "1"}, "limits": {"nvidia.com/gpu": "1"}},
            "1 Insufficient nvidia.com/gpu. " + NO_HELP,
        ),
        ("pods", {"pods": 0}, {}, "1 Too many pods. " + NO_VICTIMS),
        (
            "cordon",
            {"unschedulable": True},
            {},
            "1 node(s) were unschedulable. " + NO_HELP,
        ),
        (
            "taint",
            {"taints": [{"key": "a", "effect": "NoExecute"}]},
            {},
            "1 node(s) had untolerated taint(s). " + NO_HELP,
        ),
        (
            "selector",
            {},
            {"nodeSelector": {"a": "b"}},
            "1 node(s) didn't match Pod's node affinity/selector. " + NO_HELP,
        ),
        (
            "affinity",
            {},
            {
                "affinity": {
                    "podAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": [
                            {
                                "topologyKey": HOST,
                                "labelSelector": {"matchLabels": {"app": "other"}},
                            }
                        ]
                    }
                }
            },
            "1 node(s) didn't match pod affinity rules. " + NO_HELP,
        ),
        (
            "spread",
            {},
            {
                "topologySpreadConstraints": [
                    {
                        "maxSkew": 1,
                        "topologyKey": ZONE,
                        "whenUnsatisfiable": "DoNotSchedule",
                        "labelSelector": {"matchLabels": {"app": "x"}},
                    }
                ]
            },
            "1 node(s) didn't match pod topology spread constraints (missing required label). "
            + NO_HELP,
        ),
        (
            "named node",
            {},
            {
                "affinity": {
                    "nodeAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {
                            "nodeSelectorTerms": [
                                {
                                    "matchFields": [
                                        {
                                            "key": "metadata.name",
                                            "operator": "In",
                                            "values": ["elsewhere"],
                                        }
                                    ]
                                }
                            ]
                        }
                    }
                }
            },
            "1 node(s) didn't satisfy plugin(s) [NodeAffinity]. " + NO_HELP,
        ),
        (
            "claim",
            {},
            {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "none"}}]},
            'persistentvolumeclaim "none" not found. not found',
        ),
        (
            "conflict",
            {},
            {
                "affinity": {
                    "nodeAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {
                            "nodeSelectorTerms": [
                                {
                                    "matchFields": [
                                        {
                                            "key": "metadata.name",
                                            "operator": "In",
                                            "values": [name],
                                        }
                                        for name in ("here", "there")
                                    ]
                                }
                            ]
                        }
                    }
                }
            },
            "pod affinity terms conflict. not found",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) and len(value) < 20 else "",
)
def test_reasons(
    arena: Arena, case: str, node: dict[str, Any], pod: dict[str, Any], message: str
) -> None:
    arena.node("a", **node)
    spec = dict(pod)
    requests, limits = spec.pop("requests", None), spec.pop("limits", None)
    if limits:
        resources = {"requests": requests, "limits": limits}
        spec["containers"] = [{"name": "main", "image": "x", "resources": resources}]
    arena.pod("stuck", requests, **spec)
    arena.told("stuck", f"0/1 nodes are available: {message.format(1)}")


def test_room_appears_when_a_pod_goes(arena: Arena) -> None:
    arena.node("a", cpu="1")
    arena.pod("first", {"cpu": "1"})
    arena.where("first")
    arena.pod("second", {"cpu": "1"})
    arena.told(
        "second",
        "0/1 nodes are available: 1 Insufficient cpu. " + NO_VICTIMS.format(1),
    )
    arena.delete("first")
    assert arena.short("second") == "a"
    assert eventually(lambda: arena.condition("second").get("status") == "True")


def test_a_pod_that_has_ended_makes_room(arena: Arena) -> None:
    arena.node("a", cpu="1")
    arena.pod("first", {"cpu": "1"})
    arena.where("first")
    arena.pod("second", {"cpu": "1"})
    arena.told("second", "0/1 nodes are available: 1 Insufficient cpu. " + NO_VICTIMS.format(1))
    done = {"status": {"phase": "Succeeded"}}
    arena.objects.patch("v1", "pods", "first", done, subresource="status")
    assert arena.short("second") == "a"


def test_a_node_is_uncordoned(arena: Arena) -> None:
    node = arena.node("a", unschedulable=True)
    arena.pod("p")
    arena.told("p", "0/1 nodes are available: 1 node(s) were unschedulable. " + NO_HELP.format(1))
    arena.cluster.patch("v1", "nodes", node, {"spec": {"unschedulable": None, "taints": None}})
    assert arena.where("p") == node


def test_a_node_gets_the_label_that_was_missing(arena: Arena) -> None:
    node = arena.node("a")
    arena.pod("p", nodeSelector={"disk": "ssd"})
    text = "1 node(s) didn't match Pod's node affinity/selector. "
    arena.told("p", "0/1 nodes are available: " + text + NO_HELP.format(1))
    arena.cluster.patch("v1", "nodes", node, {"metadata": {"labels": {"disk": "ssd"}}})
    assert arena.where("p") == node


def test_a_node_grows(arena: Arena) -> None:
    node = arena.node("a", cpu="1")
    arena.pod("p", {"cpu": "2"})
    arena.told("p", "0/1 nodes are available: 1 Insufficient cpu. " + NO_HELP.format(1))
    amounts = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    status = {"status": {"allocatable": amounts, "capacity": amounts}}
    arena.cluster.patch("v1", "nodes", node, status, subresource="status")
    assert arena.where("p") == node


def test_a_pod_finds_the_company_it_wants(arena: Arena) -> None:
    arena.node("a")
    rule = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": "db"}}}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [rule]}}
    arena.pod("web", affinity=affinity)
    text = "1 node(s) didn't match pod affinity rules. "
    arena.told("web", "0/1 nodes are available: " + text + NO_HELP.format(1))
    arena.pod("db", labels={"app": "db"})
    assert arena.short("web") == "a"


def test_the_same_reason_is_said_once(arena: Arena) -> None:
    node = arena.node("a", cpu="1")
    arena.pod("p", {"cpu": "2"})
    text = "0/1 nodes are available: 1 Insufficient cpu. " + NO_HELP.format(1)
    arena.told("p", text)
    before = arena.condition("p")["lastTransitionTime"]
    arena.cluster.patch("v1", "nodes", node, {"metadata": {"labels": {"any": "thing"}}})
    arena.pod("marker", {"cpu": "1"})
    arena.where("marker")
    assert arena.condition("p")["lastTransitionTime"] == before
    # the scheduler may have heard of the pod before it heard that the node is ready
    assert arena.events("p", "FailedScheduling").count(text) == 1
