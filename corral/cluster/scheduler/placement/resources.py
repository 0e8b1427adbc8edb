"""What a pod asks of a node and what a node has to give, as whole numbers.

CPU counts in thousandths of a core, everything else in units, each rounded up once after exact
addition: the numbers that kube-scheduler compares. Sidecars (init containers that restart always)
run beside the main containers; other init containers run one at a time before them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from corral.kube.quantity import Quantity
from corral.kube.types import Obj

__all__ = ["Amounts", "HostPort", "amounts", "host_ports", "pod_requests"]

DEFAULT_CPU: Final = 100
"""Thousandths of a core that a container without a CPU request counts for in scores."""
DEFAULT_MEMORY: Final = 200 * 1024 * 1024
"""Bytes that a container without a memory request counts for in scores."""

_NANO: Final = 10**9
_DEFAULTS: Final = {"cpu": DEFAULT_CPU * 10**6, "memory": DEFAULT_MEMORY * _NANO}
_PLAIN: Final = frozenset({"cpu", "memory", "ephemeral-storage", "pods"})

_Nano = dict[str, int]
_Container = Mapping[str, Any]
HostPort = tuple[str, str, int]
"""Address, protocol and port; no address means every one."""


@dataclass(slots=True)
class Amounts:
    """Resource amounts. ``scalars`` holds extended resources, huge pages and the like."""

    cpu: int = 0
    memory: int = 0
    ephemeral: int = 0
    pods: int = 0
    scalars: dict[str, int] = field(default_factory=dict)

    def add(self, other: Amounts, sign: int = 1) -> None:
        """Add (or with -1 take away) the other's amounts, but not its pod count."""
        self.cpu += sign * other.cpu
        self.memory += sign * other.memory
        self.ephemeral += sign * other.ephemeral
        for name, amount in other.scalars.items():
            self.scalars[name] = self.scalars.get(name, 0) + sign * amount

    def copy(self) -> Amounts:
        return Amounts(self.cpu, self.memory, self.ephemeral, self.pods, dict(self.scalars))

    def empty(self) -> bool:
        return not (self.cpu or self.memory or self.ephemeral or self.scalars)


def amounts(quantities: Mapping[str, Any] | None) -> Amounts:
    """Read a resource list such as ``status.allocatable``."""
    return _rounded(_nano(quantities))


def pod_requests(pod: Obj) -> tuple[Amounts, Amounts]:
    """What the pod requests, and the same with defaults for what containers leave out.

    The second is for scores only: without it pods that request nothing would all go to one node.
    A resize in progress counts with the larger of what is wanted, granted and in use.
    """
    spec = pod.get("spec") or {}
    statuses = _resized(pod)
    real = _total(spec, statuses, {})
    scored = real
    defaults = _scored_defaults(spec)
    if _leaves_out(spec, defaults):
        scored = _total(spec, statuses, defaults)
    return _rounded(real), _rounded(scored)


def host_ports(pod: Obj) -> tuple[HostPort, ...]:
    """The ports that the pod takes on its node: of its containers and its sidecars."""
    spec = pod.get("spec") or {}
    found: list[HostPort] = []
    sidecars = [c for c in spec.get("initContainers") or () if _is_sidecar(c)]
    for container in (*sidecars, *(spec.get("containers") or ())):
        for port in container.get("ports") or ():
            number = port.get("hostPort") or 0
            if number > 0:
                address = port.get("hostIP") or "0.0.0.0"
                found.append((address, port.get("protocol") or "TCP", number))
    return tuple(found)


def _scored_defaults(spec: Mapping[str, Any]) -> _Nano:
    whole = (spec.get("resources") or {}).get("requests") or {}
    return {name: amount for name, amount in _DEFAULTS.items() if name not in whole}


def _leaves_out(spec: Mapping[str, Any], defaults: _Nano) -> bool:
    for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        requests = (container.get("resources") or {}).get("requests") or {}
        if any(name not in requests for name in defaults):
            return True
    return False


def _total(spec: Mapping[str, Any], statuses: Mapping[str, Obj], defaults: _Nano) -> _Nano:
    total = _aggregate(spec, _wanted, defaults)
    if statuses:
        _raise_to(total, _aggregate(spec, _from_status(statuses, _granted), defaults))
        _raise_to(total, _aggregate(spec, _from_status(statuses, _in_use), defaults))
    whole = (spec.get("resources") or {}).get("requests") or {}
    for name, amount in _nano(whole).items():
        if name in ("cpu", "memory") or name.startswith("hugepages-"):
            total[name] = amount
    _add(total, _nano(spec.get("overhead")))
    return total


_Requests = Callable[[_Container], Mapping[str, Any] | None]


def _aggregate(spec: Mapping[str, Any], requests: _Requests, defaults: _Nano) -> _Nano:
    total: _Nano = {}
    for container in spec.get("containers") or ():
        _add(total, _with_defaults(requests(container), defaults))
    inits = spec.get("initContainers")
    if not inits:
        return total
    sidecars: _Nano = {}
    peak: _Nano = {}
    for container in inits:
        own = _with_defaults(requests(container), defaults)
        if _is_sidecar(container):
            _add(total, own)
            _add(sidecars, own)
            _raise_to(peak, sidecars)
        else:
            _add(own, sidecars)
            _raise_to(peak, own)
    _raise_to(total, peak)
    return total


def _wanted(container: _Container) -> Mapping[str, Any] | None:
    requests: Mapping[str, Any] | None = (container.get("resources") or {}).get("requests")
    return requests


def _granted(status: Mapping[str, Any]) -> Mapping[str, Any] | None:
    granted: Mapping[str, Any] | None = status.get("allocatedResources")
    return granted


def _in_use(status: Mapping[str, Any]) -> Mapping[str, Any] | None:
    used: Mapping[str, Any] | None = (status.get("resources") or {}).get("requests")
    return _granted(status) if used is None else used


def _from_status(statuses: Mapping[str, Obj], read: _Requests) -> _Requests:
    def requests(container: _Container) -> Mapping[str, Any] | None:
        status = statuses.get(container.get("name", ""))
        found = read(status) if status is not None else None
        return _wanted(container) if found is None else found

    return requests


def _resized(pod: Obj) -> dict[str, Obj]:
    """Container statuses by name, where any says what it was granted; usually nothing."""
    status = pod.get("status") or {}
    lists = (status.get("initContainerStatuses") or (), status.get("containerStatuses") or ())
    found = {one.get("name", ""): one for listed in lists for one in listed}
    if any("allocatedResources" in one or "resources" in one for one in found.values()):
        return found
    return {}


def _is_sidecar(container: _Container) -> bool:
    return container.get("restartPolicy") == "Always"


def _nano(quantities: Mapping[str, Any] | None) -> _Nano:
    if not quantities:
        return {}
    return {name: Quantity.parse(str(text)).nano for name, text in quantities.items()}


def _with_defaults(quantities: Mapping[str, Any] | None, defaults: _Nano) -> _Nano:
    found = _nano(quantities)
    for name, amount in defaults.items():
        found.setdefault(name, amount)
    return found


def _add(total: _Nano, more: _Nano) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _raise_to(total: _Nano, least: _Nano) -> None:
    for name, amount in least.items():
        if amount > total.get(name, 0) or name not in total:
            total[name] = amount


def _rounded(nano: _Nano) -> Amounts:
    def units(name: str, size: int = _NANO) -> int:
        return -(-nano.get(name, 0) // size)

    scalars = {name: units(name) for name in _scalar_names(nano)}
    return Amounts(
        units("cpu", 10**6), units("memory"), units("ephemeral-storage"), units("pods"), scalars
    )


def _scalar_names(names: Iterable[str]) -> list[str]:
    """Names that nodes count: extended (with a slash), huge pages, attachable volumes."""
    return [
        name
        for name in names
        if name not in _PLAIN
        and ("/" in name or name.startswith(("hugepages-", "attachable-volumes-")))
    ]
