"""EndpointSlices of a service: up to 100 endpoints each, with as few writes as possible.

Slices that exist are kept as they are where they can be: endpoints that went are taken out,
new ones fill slices that change anyway, then one slice with just enough room, then new slices.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from corral.cluster.workloads.endpoints.addresses import (
    AddressType,
    address_types,
    endpoint,
    endpoint_ports,
    has_address,
)
from corral.cluster.workloads.pods import (
    controller_reference,
    generate_prefix,
    is_deleting,
    uid,
)
from corral.kube.types import Obj

__all__ = ["MANAGED_BY", "SlicePlan", "plan_slices"]

SERVICE_NAME: Final = "kubernetes.io/service-name"
MANAGED_BY: Final = "endpointslice.kubernetes.io/managed-by"
HEADLESS: Final = "service.kubernetes.io/headless"
CONTROLLER: Final = "endpointslice-controller.k8s.io"
TRIGGER_TIME: Final = "endpoints.kubernetes.io/last-change-trigger-time"
_OWN_LABELS: Final = frozenset({SERVICE_NAME, MANAGED_BY, HEADLESS})
_MOST: Final = 100

_Key: TypeAlias = frozenset[tuple[object, ...]]


@dataclass(slots=True)
class SlicePlan:
    """What to write."""

    create: list[Obj] = field(default_factory=list)
    update: list[Obj] = field(default_factory=list)
    delete: list[Obj] = field(default_factory=list)
    retry: bool = False
    """Pods were left out because their node is not known (yet)."""


def plan_slices(
    service: Obj,
    pods: Iterable[Obj],
    nodes: Mapping[str, Obj],
    slices: Iterable[Obj],
    *,
    trigger_time: str | None = None,
) -> SlicePlan:
    """The slices to create, replace and delete.

    Args:
        service: As read.
        pods: The pods its selector selects.
        nodes: All nodes, by name.
        slices: The slices that carry its name and this controller's.
        trigger_time: When the change began, for measurements; written on what is written.
    """
    plan = SlicePlan()
    kinds = address_types(service)
    known = list(slices)
    selected = [pod for pod in pods if has_address(pod)]
    for kind in kinds:
        present = [one for one in known if one.get("addressType") == kind]
        _plan_kind(plan, service, selected, nodes, present, kind)
    plan.delete += [one for one in known if one.get("addressType") not in kinds]
    if is_deleting(service):
        plan.create = []
    for one in [*plan.create, *plan.update]:
        annotations = dict(one["metadata"].get("annotations") or {})
        annotations.pop(TRIGGER_TIME, None)
        if trigger_time is not None:
            annotations[TRIGGER_TIME] = trigger_time
        if annotations:
            one["metadata"]["annotations"] = annotations
        else:
            one["metadata"].pop("annotations", None)
    return plan


def _key(ports: Iterable[Obj]) -> _Key:
    fields = ("name", "port", "protocol", "appProtocol")
    return frozenset(tuple(port.get(name) for name in fields) for port in ports)


def _owned(one: Obj, service: Obj) -> bool:
    return any(
        (r.get("uid"), r.get("kind"), r.get("apiVersion")) == (uid(service), "Service", "v1")
        for r in one["metadata"].get("ownerReferences") or ()
    )


def _labels(service: Obj) -> dict[str, str]:
    labels = {
        key: value
        for key, value in (service["metadata"].get("labels") or {}).items()
        if key not in _OWN_LABELS
    }
    if service["spec"].get("clusterIP") in (None, "", "None"):
        labels[HEADLESS] = ""
    return {**labels, SERVICE_NAME: service["metadata"]["name"], MANAGED_BY: CONTROLLER}


def _new_slice(service: Obj, ports: list[Obj], kind: AddressType) -> Obj:
    meta = service["metadata"]
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "generateName": generate_prefix(meta["name"]),
            "namespace": meta.get("namespace", ""),
            "labels": _labels(service),
            "ownerReferences": [controller_reference(service, "v1", "Service")],
        },
        "addressType": kind,
        "ports": ports,
        "endpoints": [],
    }


def _plan_kind(
    plan: SlicePlan,
    service: Obj,
    pods: list[Obj],
    nodes: Mapping[str, Obj],
    present: list[Obj],
    kind: AddressType,
) -> None:
    wanted: dict[_Key, tuple[list[Obj], dict[object, Obj]]] = {}
    for pod in pods:
        ports = endpoint_ports(service, pod)
        _, group = wanted.setdefault(_key(ports), (ports, {}))
        node = nodes.get((pod.get("spec") or {}).get("nodeName", ""))
        if node is None and not service["spec"].get("publishNotReadyAddresses"):
            plan.retry = True
            continue
        one = endpoint(pod, node, service, kind)
        if one["addresses"]:
            group[_identity(one)] = one
    work = SlicePlan()
    by_ports: dict[_Key, list[Obj]] = {}
    for one in present:
        if _owned(one, service):
            by_ports.setdefault(_key(one.get("ports") or ()), []).append(one)
        else:
            work.delete.append(one)
    for key, (ports, group) in wanted.items():
        _plan_ports(work, service, by_ports.pop(key, []), group, _new_slice(service, ports, kind))
    for left in by_ports.values():
        work.delete += left
    _keep_one(work, service, present, kind)
    _reuse(work, service)
    plan.create += work.create
    plan.update += work.update
    plan.delete += work.delete


def _identity(one: Obj) -> object:
    target = one.get("targetRef") or {}
    return (
        tuple(sorted(one.get("addresses") or ())),
        one.get("hostname"),
        target.get("namespace"),
        target.get("name"),
    )


def _same(one: Obj, other: Obj) -> bool:
    fields = ("nodeName", "zone", "conditions", "targetRef")
    return all(one.get(name) == other.get(name) for name in fields)


def _plan_ports(
    work: SlicePlan, service: Obj, present: list[Obj], wanted: dict[object, Obj], empty: Obj
) -> None:
    labels = _labels(service)
    changed: list[Obj] = []
    kept: list[Obj] = []
    for one in present:
        old = one.get("endpoints") or []
        new = [wanted.pop(key) for key in map(_identity, old) if key in wanted]
        same = len(old) == len(new) and all(map(_same, new, old))
        if not new and old:
            work.delete.append(one)
        elif not same or one["metadata"].get("labels") != labels:
            meta = {**one["metadata"], "labels": labels}
            changed.append({**one, "metadata": meta, "endpoints": new})
        else:
            kept.append(one)
    waiting = list(wanted.values())
    for one in sorted(changed, key=lambda s: len(s["endpoints"]), reverse=True):
        _fill(one, waiting)
    while waiting:
        room = _best_fit(kept, len(waiting))
        if room is not None:
            kept.remove(room)
            filled = {**room, "metadata": {**room["metadata"]},
                      "endpoints": list(room.get("endpoints") or ())}  # fmt: skip
            changed.append(filled)
        else:
            filled = {**empty, "metadata": {**empty["metadata"]}, "endpoints": []}
            work.create.append(filled)
        _fill(filled, waiting)
    work.update += changed


def _fill(one: Obj, waiting: list[Obj]) -> None:
    room = max(0, _MOST - len(one["endpoints"]))
    one["endpoints"] = [*one["endpoints"], *waiting[:room]]
    del waiting[:room]


def _best_fit(slices: list[Obj], count: int) -> Obj | None:
    """The fullest slice that still takes them all."""
    fitting = [s for s in slices if len(s.get("endpoints") or ()) + count <= _MOST]
    return max(fitting, key=lambda s: len(s.get("endpoints") or ()), default=None)


def _keep_one(work: SlicePlan, service: Obj, present: list[Obj], kind: AddressType) -> None:
    """A service always has a slice, be it an empty one."""
    if len(present) != len(work.delete) or work.create:
        return
    empty = _new_slice(service, [], kind)
    if len(work.delete) == 1 and _is_placeholder(work.delete[0], empty):
        work.delete = []
    else:
        work.create.append(empty)


def _is_placeholder(one: Obj, empty: Obj) -> bool:
    return (
        not one.get("endpoints")
        and not one.get("ports")
        and one["metadata"].get("labels") == empty["metadata"]["labels"]
        and one["metadata"].get("ownerReferences") == empty["metadata"]["ownerReferences"]
    )


def _reuse(work: SlicePlan, service: Obj) -> None:
    """A slice to delete becomes one to create: one write in place of two."""
    for one in list(work.delete):
        if not work.create:
            return
        if _owned(one, service):
            new = work.create.pop()
            meta = {k: v for k, v in new["metadata"].items() if k != "generateName"}
            for name in ("name", "uid", "resourceVersion"):
                if name in one["metadata"]:
                    meta[name] = one["metadata"][name]
            work.update.append({**new, "metadata": meta})
            work.delete.remove(one)
