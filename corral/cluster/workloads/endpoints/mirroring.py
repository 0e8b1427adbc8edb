"""EndpointSlices for Endpoints that people write by hand: what to write. No I/O.

One slice per subset and address family, owned by the Endpoints object, with its labels and
annotations; a thousand addresses of a subset at most.
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import Final, NamedTuple

from corral.cluster.workloads.endpoints.slices import (
    MANAGED_BY,
    SERVICE_NAME,
    TRIGGER_TIME,
    SlicePlan,
)
from corral.cluster.workloads.pods import controller_reference, generate_prefix, is_deleting
from corral.kube.types import Obj

__all__ = ["MIRROR", "MirrorPlan", "plan_mirror"]

MIRROR: Final = "endpointslicemirroring-controller.k8s.io"
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_MOST: Final = 1000


class MirrorPlan(NamedTuple):
    """What to write, and what was left out."""

    slices: SlicePlan
    invalid: int
    """Addresses that are no IP addresses."""
    skipped: int
    """Addresses beyond the thousandth of a subset."""


def plan_mirror(endpoints: Obj, slices: list[Obj]) -> MirrorPlan:
    """The slices to create, replace and delete for hand-written Endpoints.

    Args:
        endpoints: As read.
        slices: The slices that mirror them now.
    """
    wanted, invalid, skipped = _wanted(endpoints)
    present: dict[object, list[Obj]] = {}
    for one in slices:
        present.setdefault(_key(one), []).append(one)
    plan = SlicePlan()
    for key, fresh in wanted.items():
        known = present.pop(key, [])
        plan.delete += known[1:]
        if not known:
            plan.create.append(fresh)
        elif not _same(known[0], fresh):
            plan.update.append(_in_place_of(known[0], fresh))
    plan.delete += [one for left in present.values() for one in left]
    _recycle(plan)
    if is_deleting(endpoints):
        plan.create = []
    return MirrorPlan(plan, invalid, skipped)


def _wanted(endpoints: Obj) -> tuple[dict[object, Obj], int, int]:
    found: dict[object, Obj] = {}
    seen: set[tuple[object, str]] = set()
    invalid = skipped = 0
    for subset in endpoints.get("subsets") or ():
        ports = [_port(port) for port in subset.get("ports") or ()]
        entries = [(address, True) for address in subset.get("addresses") or ()]
        entries += [(address, False) for address in subset.get("notReadyAddresses") or ()]
        count = 0
        for address, ready in entries:
            if count >= _MOST:
                skipped += 1
                continue
            kind, one = _endpoint(address, ready)
            if one is None:
                invalid += 1
                continue
            count += 1
            fresh = _new_slice(endpoints, ports, kind)
            key = _key(fresh)
            if (key, one["addresses"][0]) not in seen:
                seen.add((key, one["addresses"][0]))
                found.setdefault(key, fresh)["endpoints"].append(one)
    return found, invalid, skipped


def _port(port: Obj) -> Obj:
    found: Obj = {
        "name": port.get("name", ""),
        "port": port["port"],
        "protocol": port.get("protocol") or "TCP",
    }
    return {**found, "appProtocol": port["appProtocol"]} if port.get("appProtocol") else found


def _endpoint(address: Obj, ready: bool) -> tuple[str, Obj | None]:
    try:
        ip = ip_address(address.get("ip", ""))
    except ValueError:
        return "", None
    found: Obj = {"addresses": [str(ip)], "conditions": {"ready": ready}}
    for name in ("targetRef", "nodeName", "hostname"):
        if address.get(name):
            found[name] = address[name]
    return f"IPv{ip.version}", found


def _key(one: Obj) -> object:
    fields = ("name", "port", "protocol", "appProtocol")
    ports = frozenset(tuple(port.get(f) for f in fields) for port in one.get("ports") or ())
    return one.get("addressType"), ports


def _new_slice(endpoints: Obj, ports: list[Obj], kind: str) -> Obj:
    meta = endpoints["metadata"]
    annotations = {
        key: value
        for key, value in (meta.get("annotations") or {}).items()
        if key not in (TRIGGER_TIME, _LAST_APPLIED)
    }
    fresh: Obj = {
        "generateName": generate_prefix(meta["name"]),
        "namespace": meta.get("namespace", ""),
        "labels": {**(meta.get("labels") or {}), SERVICE_NAME: meta["name"], MANAGED_BY: MIRROR},
        "ownerReferences": [controller_reference(endpoints, "v1", "Endpoints")],
    }
    if annotations:
        fresh["annotations"] = annotations
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": fresh,
        "addressType": kind,
        "ports": ports,
        "endpoints": [],
    }


def _same(known: Obj, fresh: Obj) -> bool:
    before, after = known["metadata"], fresh["metadata"]
    fields = ("labels", "annotations", "ownerReferences")
    if any((before.get(f) or None) != (after.get(f) or None) for f in fields):
        return False
    return bool((known.get("endpoints") or []) == fresh["endpoints"])


def _in_place_of(known: Obj, fresh: Obj) -> Obj:
    meta = {k: v for k, v in fresh["metadata"].items() if k != "generateName"}
    for name in ("name", "uid", "resourceVersion"):
        if name in known["metadata"]:
            meta[name] = known["metadata"][name]
    return {**fresh, "metadata": meta}


def _recycle(plan: SlicePlan) -> None:
    """A slice to delete becomes one to create: one write in place of two."""
    for one in list(plan.delete):
        same = [c for c in plan.create if c["addressType"] == one.get("addressType")]
        if same:
            plan.create.remove(same[-1])
            plan.delete.remove(one)
            plan.update.append(_in_place_of(one, same[-1]))
