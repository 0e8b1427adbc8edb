"""Which taints and labels a node ought to have. No I/O.

Of the taints, those of conditions and of cordoning are ours; all others are left alone. A taint is
known by key and effect. NoSchedule taints follow the conditions at once. The NoExecute taints for
nodes that are not ready make pods leave, so they are added only when it is the node's turn (see
``zones``), are swapped for one another at once, and go at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from corral.cluster.workloads.nodehealth.conditions import ready_status
from corral.kube.types import Obj

__all__ = [
    "NOT_READY",
    "NO_EXECUTE",
    "OUT_OF_SERVICE",
    "UNREACHABLE",
    "changed_taints",
    "has_taint",
    "labels_patch",
    "no_execute_taints",
    "settled_taints",
    "with_eviction",
    "without_eviction",
]

NOT_READY: Final = "node.kubernetes.io/not-ready"
UNREACHABLE: Final = "node.kubernetes.io/unreachable"
OUT_OF_SERVICE: Final = "node.kubernetes.io/out-of-service"
UNSCHEDULABLE: Final = "node.kubernetes.io/unschedulable"
NO_SCHEDULE: Final = "NoSchedule"
NO_EXECUTE: Final = "NoExecute"

_BY_CONDITION: Final[Mapping[tuple[str, str], str]] = {
    ("Ready", "False"): NOT_READY,
    ("Ready", "Unknown"): UNREACHABLE,
    ("MemoryPressure", "True"): "node.kubernetes.io/memory-pressure",
    ("DiskPressure", "True"): "node.kubernetes.io/disk-pressure",
    ("NetworkUnavailable", "True"): "node.kubernetes.io/network-unavailable",
    ("PIDPressure", "True"): "node.kubernetes.io/pid-pressure",
}
_OURS: Final = frozenset({*_BY_CONDITION.values(), UNSCHEDULABLE})
_EVICTING: Final[Mapping[str, str]] = {"False": NOT_READY, "Unknown": UNREACHABLE}
_LABELS: Final[Mapping[str, str]] = {
    "kubernetes.io/os": "beta.kubernetes.io/os",
    "kubernetes.io/arch": "beta.kubernetes.io/arch",
}

Mark = tuple[str, str]
"""Key and effect."""


def taints_of(node: Obj) -> list[Obj]:
    return list((node.get("spec") or {}).get("taints") or ())


def has_taint(node: Obj, key: str, effect: str = "") -> bool:
    """Whether the node has a taint of this key (and effect, where one is given)."""
    return any(
        taint.get("key") == key and effect in ("", taint.get("effect")) for taint in taints_of(node)
    )


def no_execute_taints(node: Obj) -> list[Obj]:
    return [taint for taint in taints_of(node) if taint.get("effect") == NO_EXECUTE]


def condition_marks(node: Obj) -> set[Mark]:
    """The NoSchedule taints that conditions and cordoning call for."""
    conditions = (node.get("status") or {}).get("conditions") or ()
    found = (_BY_CONDITION.get((c.get("type", ""), c.get("status", ""))) for c in conditions)
    marks = {(key, NO_SCHEDULE) for key in found if key}
    if (node.get("spec") or {}).get("unschedulable"):
        marks.add((UNSCHEDULABLE, NO_SCHEDULE))
    return marks


def changed_taints(
    node: Obj, *, add: Iterable[Mark] = (), remove: Iterable[Mark] = (), now: str
) -> list[Obj] | None:
    """The node's taints with some more and some fewer; None when that changes nothing."""
    gone, taints = set(remove), taints_of(node)
    kept = [taint for taint in taints if _mark(taint) not in gone]
    there = {_mark(taint) for taint in kept}
    new = [
        {"key": key, "effect": effect, "timeAdded": now}
        for key, effect in sorted(set(add) - there - gone)
    ]
    return None if not new and len(kept) == len(taints) else [*kept, *new]


def settled_taints(node: Obj, now: str) -> list[Obj] | None:
    """The taints after everything that needs no waiting for a turn; None when they are so.

    That is: NoSchedule as conditions say, no eviction from a node that is ready, and the right one
    of the two evicting taints where there is one already.
    """
    wanted = condition_marks(node)
    there = {_mark(taint) for taint in taints_of(node)}
    stale = {m for m in there if m[0] in _OURS and m[1] == NO_SCHEDULE and m not in wanted}
    evicting = {(key, NO_EXECUTE) for key in _EVICTING.values()}
    status = ready_status(node)
    if status == "True":
        stale |= evicting
    elif status in _EVICTING and there & evicting:
        wanted.add((_EVICTING[status], NO_EXECUTE))
        stale |= evicting - wanted
    return changed_taints(node, add=wanted, remove=stale, now=now)


def with_eviction(node: Obj, now: str) -> list[Obj] | None:
    """The taints of a node that is given up; None when it is ready, or has them."""
    key = _EVICTING.get(ready_status(node))
    if key is None:
        return None
    other = UNREACHABLE if key == NOT_READY else NOT_READY
    return changed_taints(node, add=[(key, NO_EXECUTE)], remove=[(other, NO_EXECUTE)], now=now)


def without_eviction(node: Obj, now: str) -> list[Obj] | None:
    """The taints of a node that is not given up after all; None when they are so."""
    marks = [(NOT_READY, NO_EXECUTE), (UNREACHABLE, NO_EXECUTE)]
    return changed_taints(node, remove=marks, now=now)


def labels_patch(node: Obj) -> dict[str, str]:
    """The old spellings of labels that are missing or differ from the new ones."""
    labels = node["metadata"].get("labels") or {}
    return {
        old: labels[new]
        for new, old in _LABELS.items()
        if new in labels and labels.get(old) != labels[new]
    }


def _mark(taint: Obj) -> Mark:
    return taint.get("key", ""), taint.get("effect", "")
