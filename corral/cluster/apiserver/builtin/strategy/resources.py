"""Arithmetic on a pod's resources: its quality of service and its pod-level requirements."""

from __future__ import annotations

from corral.kube.quantity import Quantity
from corral.kube.types import Obj

__all__ = ["complete_pod_level_resources", "qos_class"]

_QOS_RESOURCES = ("cpu", "memory")
_HUGE_PAGES = "hugepages-"


def qos_class(spec: Obj) -> str:
    """BestEffort, Burstable or Guaranteed."""
    own = spec.get("resources")
    if own and (own.get("requests") or own.get("limits")):
        return _requirements_class(own)
    found = ""
    for kind in ("initContainers", "containers"):
        for container in spec.get(kind) or ():
            one = _requirements_class(container.get("resources") or {})
            if one == "Burstable" or (found and found != one):
                return "Burstable"
            found = one
    return found or "BestEffort"


def _requirements_class(resources: Obj) -> str:
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    if not requests and not limits:
        return "BestEffort"
    classes = {_resource_class(requests.get(name), limits.get(name)) for name in _QOS_RESOURCES}
    return classes.pop() if len(classes) == 1 else "Burstable"


def _resource_class(request: object, limit: object) -> str:
    if request == limit:  # the usual spelling of equal ones; saves parsing
        return "BestEffort" if request is None or not _nano(request) else "Guaranteed"
    requested, limited = _nano(request), _nano(limit)
    if requested != limited:
        return "Burstable"
    return "Guaranteed" if requested else "BestEffort"


def _nano(value: object) -> int:
    if value is None:
        return 0
    try:
        return Quantity.parse(str(value)).nano
    except ValueError:
        return 0  # validation names it


def complete_pod_level_resources(spec: Obj) -> None:
    """Derive the missing half of a pod's own requirements from those of its containers."""
    own = spec.get("resources")
    if not own or not (own.get("requests") or own.get("limits")):
        return
    try:
        _complete(spec, own)
    except ValueError:
        return  # a quantity that is none; validation names it


def _complete(spec: Obj, own: Obj) -> None:
    limits, requests = dict(own.get("limits") or {}), dict(own.get("requests") or {})
    container_limits = _aggregate(spec, "limits")
    for name, quantity in container_limits.items():
        if name.startswith(_HUGE_PAGES) and name not in requests:
            limits.setdefault(name, str(quantity))
    for name, quantity in _aggregate(spec, "requests").items():
        if name in _QOS_RESOURCES:
            requests.setdefault(name, str(quantity))
    for name, value in limits.items():
        if _pod_level(name):
            requests.setdefault(name, value)
    for name, value in requests.items():
        if _pod_level(name) and name not in limits and _limited_everywhere(spec, name):
            limit, request = container_limits.get(name), Quantity.parse(value)
            if limit is not None:
                limits[name] = str(max(limit, request, key=lambda q: q.nano))
    if limits:
        own["limits"] = limits
    if requests:
        own["requests"] = requests


def _pod_level(name: str) -> bool:
    return name in _QOS_RESOURCES or name.startswith(_HUGE_PAGES)


def _limited_everywhere(spec: Obj, name: str) -> bool:
    return all(
        name in ((container.get("resources") or {}).get("limits") or {})
        for kind in ("initContainers", "containers", "ephemeralContainers")
        for container in spec.get(kind) or ()
    )


def _aggregate(spec: Obj, kind: str) -> dict[str, Quantity]:
    """What all containers need at once: the sum, or the most any stage of starting up takes."""
    total: dict[str, Quantity] = {}
    for container in spec.get("containers") or ():
        _add_all(total, _quantities(container, kind))
    sidecars: dict[str, Quantity] = {}
    most: dict[str, Quantity] = {}
    for container in spec.get("initContainers") or ():
        needed = _quantities(container, kind)
        if container.get("restartPolicy") == "Always":
            _add_all(total, needed)
            _add_all(sidecars, needed)
            stage = {name: sidecars[name] for name in needed}  # the others are as they were
        else:
            stage = dict(needed)
            _add_all(stage, {name: sidecars[name] for name in needed if name in sidecars})
        _raise_all(most, stage)
    _raise_all(total, most)
    return total


def _quantities(container: Obj, kind: str) -> dict[str, Quantity]:
    resources = (container.get("resources") or {}).get(kind) or {}
    return {name: Quantity.parse(value) for name, value in resources.items()}


def _add_all(total: dict[str, Quantity], more: dict[str, Quantity]) -> None:
    for name, quantity in more.items():
        total[name] = total[name] + quantity if name in total else quantity


def _raise_all(floor: dict[str, Quantity], other: dict[str, Quantity]) -> None:
    for name, quantity in other.items():
        if name not in floor or quantity.nano > floor[name].nano:
            floor[name] = quantity
