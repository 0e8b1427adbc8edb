"""What a pod asks for in total: its containers side by side, its init containers in turn."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, TypeAlias

from corral.kube.quantity import Quantity
from corral.kube.types import Obj

__all__ = ["ZERO", "Amounts", "amounts", "pod_total", "quantity"]

Amounts: TypeAlias = dict[str, Quantity]
ZERO = Quantity(0)
_POD_LEVEL = frozenset({"cpu", "memory"})


@lru_cache(maxsize=4096)
def quantity(text: str) -> Quantity:
    """Parse; validation has seen the text before."""
    return Quantity.parse(text)


def amounts(listed: Mapping[str, Any] | None) -> Amounts:
    """A ResourceList."""
    return {name: quantity(str(value)) for name, value in (listed or {}).items()}


def pod_total(spec: Obj, field: str, *, overhead: bool = False) -> Amounts:
    """The sum of ``requests`` or ``limits`` of a pod.

    Sidecars count beside the containers and beside every init container that starts after them.
    What the pod itself sets for cpu and memory replaces the sum. ``overhead`` is added to
    requests, and to limits that are not zero.
    """
    total = _sum(_of(c, field) for c in spec.get("containers") or ())
    sidecars: Amounts = {}
    highest: Amounts = {}
    for container in spec.get("initContainers") or ():
        own = _of(container, field)
        if container.get("restartPolicy") == "Always":
            _add_to(total, own)
            _add_to(sidecars, own)
            own = {name: sidecars[name] for name in own}  # the others are as they were
        else:
            _add_to(own, {name: sidecars[name] for name in own if name in sidecars})
        _raise_to(highest, own)
    _raise_to(total, highest)
    own_level = (spec.get("resources") or {}).get(field) or {}
    for name, value in own_level.items():
        if name in _POD_LEVEL or name.startswith("hugepages-"):
            total[name] = quantity(str(value))
    if overhead and spec.get("overhead"):
        _add_overhead(total, amounts(spec["overhead"]), limits=field == "limits")
    return total


def _of(container: Obj, field: str) -> Amounts:
    resources = container.get("resources")
    return amounts(resources.get(field)) if resources else {}


def _sum(lists: Iterable[Amounts]) -> Amounts:
    total: Amounts = {}
    for one in lists:
        _add_to(total, one)
    return total


def _add_to(total: Amounts, more: Amounts) -> None:
    for name, value in more.items():
        total[name] = total[name] + value if name in total else value


def _raise_to(total: Amounts, floor: Amounts) -> None:
    for name, value in floor.items():
        if name not in total or value > total[name]:
            total[name] = value


def _add_overhead(total: Amounts, extra: Amounts, *, limits: bool) -> None:
    for name, value in extra.items():
        if not limits:
            total[name] = total.get(name, ZERO) + value
        elif total.get(name):
            total[name] = total[name] + value
