"""Which volume a claim gets. No I/O.

A volume that names the claim comes first. Else, among the free volumes of the claim's class that
have room and all the access modes: those with the fewest modes, of these the smallest.
"""

from __future__ import annotations

from collections.abc import Iterable

from corral.cluster.workloads.claims.names import (
    BETA_CLASS,
    BETA_DEFAULT_CLASS,
    DEFAULT_CLASS,
    SELECTED_NODE,
)
from corral.kube.quantity import Quantity
from corral.kube.selectors import Selector
from corral.kube.types import Obj

__all__ = [
    "best_match",
    "capacity",
    "class_of",
    "default_class",
    "has_class",
    "is_bound_to",
    "is_delayed",
    "mismatch",
    "modes_differ",
    "requested",
    "waits_for_node",
]


def _annotations(obj: Obj) -> dict[str, str]:
    found: dict[str, str] = obj["metadata"].get("annotations") or {}
    return found


def class_of(obj: Obj) -> str:
    """The storage class of a claim or volume; the old annotation comes first."""
    annotations = _annotations(obj)
    if BETA_CLASS in annotations:
        return annotations[BETA_CLASS]
    return str(obj["spec"].get("storageClassName") or "")


def has_class(claim: Obj) -> bool:
    """The claim says something about its class, be it that it wants none."""
    return BETA_CLASS in _annotations(claim) or claim["spec"].get("storageClassName") is not None


def default_class(classes: Iterable[Obj]) -> Obj | None:
    """The newest class that is marked as default; the first name among equals."""
    marks = (DEFAULT_CLASS, BETA_DEFAULT_CLASS)
    marked = [one for one in classes if any(_annotations(one).get(m) == "true" for m in marks)]
    marked.sort(key=lambda one: str(one["metadata"]["name"]))
    return max(marked, key=lambda one: str(one["metadata"].get("creationTimestamp")), default=None)


def is_delayed(storage_class: Obj | None) -> bool:
    """Claims of the class wait for their first pod."""
    mode = (storage_class or {}).get("volumeBindingMode")
    return mode == "WaitForFirstConsumer"


def waits_for_node(claim: Obj, storage_class: Obj | None) -> bool:
    """No scheduler has chosen a node for the claim yet, and its class wants one."""
    return is_delayed(storage_class) and SELECTED_NODE not in _annotations(claim)


def requested(claim: Obj) -> Quantity:
    amounts = (claim["spec"].get("resources") or {}).get("requests") or {}
    return Quantity.parse(str(amounts.get("storage", "0")))


def capacity(volume: Obj) -> Quantity:
    return Quantity.parse(str((volume["spec"].get("capacity") or {}).get("storage", "0")))


def is_bound_to(volume: Obj, claim: Obj) -> bool:
    """The volume names the claim: by name alone, or by UID too."""
    reference, meta = volume["spec"].get("claimRef"), claim["metadata"]
    if not reference:
        return False
    same = all(reference.get(name) == meta[name] for name in ("namespace", "name"))
    return same and reference.get("uid", "") in ("", meta["uid"])


def modes_differ(claim: Obj, volume: Obj) -> bool:
    """One is for file systems and the other for blocks."""
    modes = [one["spec"].get("volumeMode") or "Filesystem" for one in (claim, volume)]
    return bool(modes[0] != modes[1])


def _has_modes(volume: Obj, claim: Obj) -> bool:
    wanted = claim["spec"].get("accessModes") or ()
    return set(wanted) <= set(volume["spec"].get("accessModes") or ())


def _attributes(obj: Obj) -> str:
    return str(obj["spec"].get("volumeAttributesClassName") or "")


def mismatch(volume: Obj, claim: Obj) -> str:
    """Why a claim cannot have the volume that it asks for by name; empty when it can."""
    name = volume["metadata"]["name"]
    if volume["metadata"].get("deletionTimestamp"):
        return f'the volume is marked for deletion "{name}"'
    if capacity(volume) < requested(claim):
        return "requested PV is too small"
    if class_of(volume) != class_of(claim):
        return "storageClassName does not match"
    if _attributes(volume) != _attributes(claim):
        return "volumeAttributesClassName does not match"
    if modes_differ(claim, volume):
        return "incompatible volumeMode"
    return "" if _has_modes(volume, claim) else "incompatible accessMode"


def best_match(
    claim: Obj, *, named: Iterable[Obj], free: Iterable[Obj], delayed: bool
) -> Obj | None:
    """The volume to bind a claim to, or None.

    Args:
        claim: As read.
        named: Volumes whose claimRef has the claim's name.
        free: Volumes of the claim's class without claimRef.
        delayed: The class waits for pods: free volumes are the scheduler's to choose.
    """
    for volume in named:
        if is_bound_to(volume, claim) and _fits(volume, claim):
            return volume
    if delayed:
        return None
    selector = claim["spec"].get("selector")
    wanted = Selector.from_object(selector) if selector is not None else Selector()
    fitting = [
        volume
        for volume in free
        if (volume.get("status") or {}).get("phase") == "Available"
        and _fits(volume, claim)
        and wanted.matches(volume["metadata"].get("labels") or {})
    ]
    return min(
        fitting,
        key=lambda v: (len(v["spec"].get("accessModes") or ()), capacity(v), v["metadata"]["name"]),
        default=None,
    )


def _fits(volume: Obj, claim: Obj) -> bool:
    return (
        not volume["metadata"].get("deletionTimestamp")
        and capacity(volume) >= requested(claim)
        and not modes_differ(claim, volume)
        and _attributes(volume) == _attributes(claim)
        and _has_modes(volume, claim)
    )
