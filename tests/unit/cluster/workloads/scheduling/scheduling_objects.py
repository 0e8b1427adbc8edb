"""Builders of nodes, pods and cluster states for the scheduler's tests."""

from __future__ import annotations

from random import Random
from typing import Any

from corral.cluster.scheduler.placement import ClusterState, FitError, Placement, schedule
from corral.kube.types import Obj

HOST = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"


def node(
    name: str,
    *,
    cpu: str = "4",
    memory: str = "8Gi",
    pods: int = 110,
    labels: dict[str, str] | None = None,
    taints: list[Obj] | None = None,
    unschedulable: bool = False,
    **extended: str,
) -> Obj:
    resources = {"cpu": cpu, "memory": memory, "pods": str(pods)}
    resources |= {key.replace("__", "/").replace("_", "."): v for key, v in extended.items()}
    spec: Obj = {"unschedulable": True} if unschedulable else {}
    if taints:
        spec["taints"] = taints
    return {
        "metadata": {"name": name, "labels": {HOST: name, **(labels or {})}},
        "spec": spec,
        "status": {"allocatable": resources},
    }


def container(requests: dict[str, str] | None = None, **more: Any) -> Obj:
    return {"name": more.pop("name", "c"), "resources": {"requests": requests or {}}, **more}


def pod(
    name: str,
    requests: dict[str, str] | None = None,
    *,
    namespace: str = "default",
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    on: str = "",
    priority: int | None = None,
    created: str = "2026-01-01T00:00:00Z",
    meta: Obj | None = None,
    status: Obj | None = None,
    **spec: Any,
) -> Obj:
    spec.setdefault("containers", [container(requests)])
    if on:
        spec["nodeName"] = on
    if priority is not None:
        spec["priority"] = priority
    return {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-{namespace}-{name}",
            "creationTimestamp": created,
            "labels": labels or {},
            "annotations": annotations or {},
            **(meta or {}),
        },
        "spec": spec,
        "status": status or {},
    }


def cluster(nodes: list[Obj], pods: list[Obj] | None = None) -> ClusterState:
    state = ClusterState()
    for item in nodes:
        state.set_node(item)
    for item in pods or ():
        state.set_pod(item)
    return state


def outcome(state: ClusterState, item: Obj, **options: Any) -> str:
    """The node of the pod, or the message why it has none."""
    found = schedule(state, item, Random(0), **options)
    if isinstance(found, Placement):
        return found.node
    return str(found if isinstance(found, FitError) else found.error)


def pod_term(labels: dict[str, str] | None, key: str = ZONE, **more: Any) -> Obj:
    selector = {} if labels is None else {"labelSelector": {"matchLabels": labels}}
    return {"topologyKey": key, **selector, **more}


def required(kind: str, *terms: Obj) -> Obj:
    """An ``affinity`` with required terms of one kind."""
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}


def preferred(kind: str, weight: int, term: Obj) -> Obj:
    item = {"weight": weight, "podAffinityTerm": term}
    return {kind: {"preferredDuringSchedulingIgnoredDuringExecution": [item]}}


def node_terms(*terms: Obj) -> Obj:
    chosen = {"nodeSelectorTerms": list(terms)}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": chosen}}


def expression(key: str, operator: str, *values: str) -> Obj:
    return {"key": key, "operator": operator, "values": list(values)}


def spread(
    labels: dict[str, str] | None, *, skew: int = 1, key: str = ZONE, hard: bool = True, **more: Any
) -> Obj:
    selector = {} if labels is None else {"labelSelector": {"matchLabels": labels}}
    action = "DoNotSchedule" if hard else "ScheduleAnyway"
    return {"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": action, **selector, **more}


def budget(labels: dict[str, str], allowed: int, *, disrupted: dict[str, str] | None = None) -> Obj:
    return {
        "metadata": {"name": "budget", "namespace": "default"},
        "spec": {"selector": {"matchLabels": labels}},
        "status": {"disruptionsAllowed": allowed, "disruptedPods": disrupted or {}},
    }
