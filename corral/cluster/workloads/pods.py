"""What every workload controller asks of a pod, and how it makes, ranks, claims and frees one.

Nothing here changes its input. Bodies and patches are what goes on the wire; several bodies
may share parts of the template, so treat them as read only.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from corral.kube.selectors import Selector
from corral.kube.times import parse_datetime
from corral.kube.types import Obj

__all__ = [
    "Claims",
    "claim",
    "controller_of",
    "controller_reference",
    "deletion_rank",
    "finalizer_removal",
    "generate_prefix",
    "is_active",
    "is_deleting",
    "is_ready",
    "is_terminal",
    "is_terminating",
    "phase",
    "pod_body",
    "pod_condition",
    "ready_since",
    "slow_start",
    "uid",
]

_PHASE_ORDER = {"Pending": 0, "Unknown": 1, "Running": 2}
_TERMINAL = frozenset({"Succeeded", "Failed"})
_LONGEST_NAME = 253


def uid(obj: Obj) -> str:
    return str(obj["metadata"].get("uid", ""))


def phase(pod: Obj) -> str:
    return str((pod.get("status") or {}).get("phase", ""))


def is_deleting(obj: Obj) -> bool:
    return bool(obj["metadata"].get("deletionTimestamp"))


def is_terminal(pod: Obj) -> bool:
    """Every container has stopped for good."""
    return phase(pod) in _TERMINAL


def is_active(pod: Obj) -> bool:
    """Neither finished nor being deleted."""
    return not is_terminal(pod) and not is_deleting(pod)


def is_terminating(pod: Obj) -> bool:
    """Being deleted and not finished yet."""
    return not is_terminal(pod) and is_deleting(pod)


def pod_condition(pod: Obj, kind: str) -> Obj | None:
    for condition in (pod.get("status") or {}).get("conditions") or ():
        if condition.get("type") == kind:
            return dict(condition)
    return None


def is_ready(pod: Obj) -> bool:
    condition = pod_condition(pod, "Ready")
    return condition is not None and condition.get("status") == "True"


def ready_since(pod: Obj) -> str | None:
    """When the pod became ready; None when it is not, or nobody said when."""
    condition = pod_condition(pod, "Ready")
    if condition is None or condition.get("status") != "True":
        return None
    return condition.get("lastTransitionTime") or None


def _newest_first(text: str | None) -> float:
    """Sorts later times before earlier ones, and no time before all of them."""
    when = parse_datetime(text)
    return -math.inf if when is None else -when.timestamp()


def most_restarts(pod: Obj) -> tuple[int, int]:
    """The highest restart count among regular containers, and among sidecars."""
    status, spec = pod.get("status") or {}, pod.get("spec") or {}
    sidecars = {
        c.get("name")
        for c in spec.get("initContainers") or ()
        if c.get("restartPolicy") == "Always"
    }
    regular = max(
        (c.get("restartCount", 0) for c in status.get("containerStatuses") or ()), default=0
    )
    sidecar = max(
        (
            c.get("restartCount", 0)
            for c in status.get("initContainerStatuses") or ()
            if c.get("name") in sidecars
        ),
        default=0,
    )
    return regular, sidecar


def deletion_rank(pod: Obj) -> tuple[Any, ...]:
    """Sort key: the pods that are missed least come first.

    Unassigned before assigned, pending before unknown before running, not ready before ready,
    ready for a short time before a long one, many restarts before few, young before old.
    """
    assigned = bool((pod.get("spec") or {}).get("nodeName"))
    regular, sidecar = most_restarts(pod)
    ready = is_ready(pod)
    return (
        assigned,
        _PHASE_ORDER.get(phase(pod), 0),
        ready,
        _newest_first(ready_since(pod)) if ready else 0.0,
        -regular,
        -sidecar,
        _newest_first(pod["metadata"].get("creationTimestamp")),
    )


def controller_reference(owner: Obj, api_version: str, kind: str) -> Obj:
    """The owner reference that makes ``owner`` the controller of an object."""
    meta = owner["metadata"]
    return {
        "apiVersion": api_version,
        "kind": kind,
        "name": meta["name"],
        "uid": meta.get("uid", ""),
        "controller": True,
        "blockOwnerDeletion": True,
    }


def controller_of(obj: Obj) -> Obj | None:
    for reference in obj["metadata"].get("ownerReferences") or ():
        if reference.get("controller"):
            return dict(reference)
    return None


def generate_prefix(name: str) -> str:
    """The generateName of a controller's pods: its name and a dash, where that is a valid name."""
    return f"{name}-" if len(name) < _LONGEST_NAME else name


def pod_body(template: Obj, owner: Obj, reference: Obj, *, prefix: str | None = None) -> Obj:
    """A new pod from a pod template, controlled through ``reference``."""
    given = template.get("metadata") or {}
    meta: Obj = {
        "generateName": prefix or generate_prefix(owner["metadata"]["name"]),
        "namespace": owner["metadata"].get("namespace", ""),
    }
    for field in ("labels", "annotations"):
        if given.get(field):
            meta[field] = dict(given[field])
    if given.get("finalizers"):
        meta["finalizers"] = list(given["finalizers"])
    meta["ownerReferences"] = [reference]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": template.get("spec") or {}}


def slow_start(count: int, initial: int = 1) -> Iterator[int]:
    """Sizes of the batches to create ``count`` objects in: 1, 2, 4, ... and the rest.

    Stop after the first batch with a failure: a refusal (a quota, say) is then met once and
    not ``count`` times.
    """
    size = min(count, initial)
    while count > 0:
        yield size
        count -= size
        size = min(2 * size, count)


def finalizer_removal(finalizer: str) -> Obj:
    """The strategic merge patch that takes one finalizer off an object."""
    return {"metadata": {"$deleteFromPrimitiveList/finalizers": [finalizer]}}


@dataclass(frozen=True, slots=True)
class Claims:
    """Who owns which pods, and what to write so that it is so."""

    owned: tuple[Obj, ...]
    """Already controlled and selected."""
    adopt: tuple[tuple[Obj, Obj], ...]
    """(object, patch): orphans to take. First read the owner anew: not deleted, same uid."""
    release: tuple[tuple[Obj, Obj], ...]
    """(object, patch): no longer selected. "not found" and "invalid" count as done."""


def claim(
    owner: Obj,
    objects: Iterable[Obj],
    reference: Obj,
    *,
    selector: Mapping[str, Any] | None,
    finalizers: Sequence[str] = (),
) -> Claims:
    """Sorts ``objects`` into owned ones, orphans to adopt and strangers to release.

    Nothing is adopted or released while the owner is being deleted, and nothing that is being
    deleted itself or lives in another namespace is adopted.
    """
    matcher = Selector.from_object(selector)
    owner_uid, deleting = uid(owner), is_deleting(owner)
    owned: list[Obj] = []
    adopt: list[tuple[Obj, Obj]] = []
    release: list[tuple[Obj, Obj]] = []
    for obj in objects:
        controller = controller_of(obj)
        matches = matcher.matches(obj["metadata"].get("labels") or {})
        if controller is not None:
            if controller.get("uid") != owner_uid:
                continue
            if matches:
                owned.append(obj)
            elif not deleting:
                release.append((obj, _release_patch(obj, owner_uid, finalizers)))
        elif matches and not deleting and not is_deleting(obj) and _same_namespace(owner, obj):
            adopt.append((obj, _adopt_patch(obj, reference, finalizers)))
    return Claims(tuple(owned), tuple(adopt), tuple(release))


def _same_namespace(owner: Obj, obj: Obj) -> bool:
    return bool(
        owner["metadata"].get("namespace", "") in ("", obj["metadata"].get("namespace", ""))
    )


def _adopt_patch(obj: Obj, reference: Obj, finalizers: Sequence[str]) -> Obj:
    meta: Obj = {"ownerReferences": [reference], "uid": uid(obj)}
    if finalizers:
        meta["finalizers"] = list(finalizers)
    return {"metadata": meta}


def _release_patch(obj: Obj, owner_uid: str, finalizers: Sequence[str]) -> Obj:
    meta: Obj = {"uid": uid(obj), "ownerReferences": [{"$patch": "delete", "uid": owner_uid}]}
    if finalizers:
        meta["$deleteFromPrimitiveList/finalizers"] = list(finalizers)
    return {"metadata": meta}
