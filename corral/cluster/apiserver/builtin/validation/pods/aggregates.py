"""Resources of a pod as a whole, and how those of its containers fit in."""

from __future__ import annotations

from typing import Any

from corral.cluster.apiserver.builtin.validation.fields.errors import Errors
from corral.cluster.apiserver.builtin.validation.fields.quantities import (
    canonical,
    cmp_quantity,
    nano,
)
from corral.cluster.apiserver.builtin.validation.pods.resources import (
    NO_CLAIMS,
    check_pod_resource_name,
    check_requirements,
)
from corral.kube.types import Obj

__all__ = ["check_pod_resources"]


def _amounts(container: Obj, kind: str) -> dict[str, Any]:
    return (container.get("resources") or {}).get(kind) or {}


def _total_requests(spec: Obj) -> dict[str, int]:
    """What the containers ask for at most at one time, in billionths."""
    total: dict[str, int] = {}
    for container in spec.get("containers") or ():
        for name, amount in _amounts(container, "requests").items():
            total[name] = total.get(name, 0) + nano(amount)
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in spec.get("initContainers") or ():
        asked = {n: nano(a) for n, a in _amounts(container, "requests").items()}
        if container.get("restartPolicy") == "Always":
            for name, amount in asked.items():
                total[name] = total.get(name, 0) + amount
                sidecars[name] = sidecars.get(name, 0) + amount
            asked = {n: sidecars[n] for n in asked}  # the others ask for no more than before
        else:
            asked = {n: a + sidecars.get(n, 0) for n, a in asked.items()}
        for name, amount in asked.items():
            peak[name] = max(peak.get(name, 0), amount)
    return {n: max(total.get(n, 0), peak.get(n, 0)) for n in total.keys() | peak.keys()}


def check_pod_resources(errs: Errors, spec: Obj, path: str) -> None:
    where = f"{path}.resources"
    resources = spec["resources"]
    if (spec.get("os") or {}).get("name") == "windows":
        errs.forbidden(where, "may not be set for a windows pod")
        return
    if resources.get("claims") is not None:
        errs.forbidden(f"{where}.claims", "claims may not be set for Resources at pod-level")
    check_requirements(errs, resources, NO_CLAIMS, where, name_check=check_pod_resource_name)
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    for name, amount in _total_requests(spec).items():
        if name in requests and amount > nano(requests[name]):
            shown = canonical(f"{amount}n")
            why = f"must be greater than or equal to aggregate container requests of {shown}"
            errs.invalid(f"{where}.requests[{name}]", canonical(requests[name]), why)
    for i, container in enumerate(spec.get("containers") or ()):
        for name, amount in _amounts(container, "limits").items():
            if name in limits and cmp_quantity(amount, limits[name]) > 0:
                why = f"must be less than or equal to pod limits of {canonical(limits[name])}"
                place = f"{where}.containers[{i}][{name}].limits"
                errs.invalid(place, canonical(amount), why)
