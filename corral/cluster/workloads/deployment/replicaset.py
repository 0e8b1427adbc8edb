"""ReplicaSets: how many pods to create, which to delete, and the status.

A ReplicationController whose selector is given as ``matchLabels`` is treated the same.

``active`` below are the pods the set controls that have neither ended nor are being deleted.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cmp_to_key
from typing import Final

from corral.cluster.workloads.pods import (
    Claims,
    claim,
    controller_reference,
    is_active,
    is_deleting,
    is_ready,
    is_terminal,
    most_restarts,
    phase,
    pod_body,
    ready_since,
    uid,
)
from corral.cluster.workloads.times import seconds_between
from corral.kube.times import format_datetime, parse_datetime
from corral.kube.types import Obj

__all__ = [
    "ReplicaPlan",
    "claim_pods",
    "is_available",
    "next_availability",
    "plan_replicas",
    "replica_status",
    "terminating_count",
]

BURST: Final = 500
"""How many pods one pass creates or deletes."""
DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
_PHASE_ORDER: Final = {"Pending": 0, "Unknown": 1, "Running": 2}


@dataclass(frozen=True, slots=True)
class ReplicaPlan:
    """What one pass does; at most one of the two is not empty."""

    create: tuple[Obj, ...] = ()
    """Bodies; create them in slow-start batches."""
    delete: tuple[Obj, ...] = ()


def _reference(replica_set: Obj) -> Obj:
    """A replica set unless it says that it is something else."""
    api_version, kind = replica_set.get("apiVersion"), replica_set.get("kind")
    return controller_reference(replica_set, api_version or "apps/v1", kind or "ReplicaSet")


def claim_pods(replica_set: Obj, pods: Iterable[Obj]) -> Claims:
    """Owned, to adopt, to release; only active pods take part."""
    reference = _reference(replica_set)
    selector = replica_set["spec"].get("selector")
    return claim(replica_set, filter(is_active, pods), reference, selector=selector)


def plan_replicas(
    replica_set: Obj, active: Sequence[Obj], related: Iterable[Obj], *, now: datetime
) -> ReplicaPlan:
    """The pods to create or delete. ``related`` are the pods of all sets of the same owner."""
    if is_deleting(replica_set):
        return ReplicaPlan()
    missing = replica_set["spec"].get("replicas", 1) - len(active)
    if missing > 0:
        reference = _reference(replica_set)
        body = pod_body(replica_set["spec"]["template"], replica_set, reference)
        return ReplicaPlan(create=(body,) * min(missing, BURST))
    surplus = min(-missing, BURST)
    if surplus < len(active):
        active = _ranked(active, related, now)
    return ReplicaPlan(delete=tuple(active[:surplus]))


def _ranked(pods: Sequence[Obj], related: Iterable[Obj], now: datetime) -> list[Obj]:
    """Least missed first.

    Ages are compared by order of magnitude, then by uid: which of many about equally old pods
    goes is then a matter of chance, and not always the same node's.
    """
    on_node = Counter(_node(pod) for pod in related if is_active(pod))

    def compare(one: Obj, other: Obj) -> int:
        left, right = _rank(one, on_node), _rank(other, on_node)
        if left != right:
            return -1 if left < right else 1
        if is_ready(one):
            by_ready = _compare_ages(one, other, ready_since(one), ready_since(other), now)
            if by_ready:
                return by_ready
        more, fewer = most_restarts(one), most_restarts(other)
        if more != fewer:
            return -1 if more > fewer else 1
        made = [pod["metadata"].get("creationTimestamp") for pod in (one, other)]
        return _compare_ages(one, other, made[0], made[1], now)

    return sorted(pods, key=cmp_to_key(compare))


def _node(pod: Obj) -> str:
    return str((pod.get("spec") or {}).get("nodeName") or "")


def _rank(pod: Obj, on_node: Counter[str]) -> tuple[bool, int, bool, int, int]:
    return (
        bool(_node(pod)),
        _PHASE_ORDER.get(phase(pod), 0),
        is_ready(pod),
        _deletion_cost(pod),
        -on_node[_node(pod)],
    )


def _deletion_cost(pod: Obj) -> int:
    text = (pod["metadata"].get("annotations") or {}).get(DELETION_COST, "")
    digits = text.removeprefix("-")
    return int(text) if digits.isascii() and digits.isdecimal() else 0


def _compare_ages(one: Obj, other: Obj, a: str | None, b: str | None, now: datetime) -> int:
    first, second = parse_datetime(a), parse_datetime(b)
    if first == second:
        return 0
    if first is None or second is None:
        return -1 if first is None else 1
    difference = _magnitude(first, now) - _magnitude(second, now)
    if difference == 0:
        return -1 if uid(one) < uid(other) else 1
    return difference


def _magnitude(when: datetime, now: datetime) -> int:
    nanoseconds = seconds_between(when, now) * 1e9
    return int(math.log2(nanoseconds)) if nanoseconds > 0 else -1


def is_available(pod: Obj, min_ready_seconds: int, now: datetime) -> bool:
    """Ready, and for long enough."""
    if not is_ready(pod):
        return False
    since = parse_datetime(ready_since(pod))
    if min_ready_seconds == 0:
        return True
    return since is not None and since + timedelta(seconds=min_ready_seconds) <= now


def next_availability(pods: Iterable[Obj], min_ready_seconds: int, now: datetime) -> float | None:
    """Seconds until the next ready pod becomes available; None when none is on its way."""
    if min_ready_seconds <= 0:
        return None
    waits = (
        seconds_between(now, since + timedelta(seconds=min_ready_seconds))
        for since in (parse_datetime(ready_since(pod)) for pod in pods)
        if since is not None
    )
    return min((wait for wait in waits if wait > 0), default=None)


def replica_status(
    replica_set: Obj,
    active: Sequence[Obj],
    terminating: int | None,
    *,
    now: datetime,
    failure: str | None = None,
) -> Obj | None:
    """The status to write, or None when it would not change.

    Args:
        replica_set: As read.
        active: The pods as they were before this pass created or deleted any.
        terminating: How many pods of the set are being deleted and have not ended; None for a
            ReplicationController, which does not say.
        now: The time of the pass.
        failure: Why pods could not be created or deleted.
    """
    spec, old = replica_set["spec"], replica_set.get("status") or {}
    labels = ((spec["template"].get("metadata") or {}).get("labels") or {}).items()
    wait = spec.get("minReadySeconds", 0)
    counts = {
        "fullyLabeledReplicas": sum(
            labels <= (pod["metadata"].get("labels") or {}).items() for pod in active
        ),
        "readyReplicas": sum(map(is_ready, active)),
        "availableReplicas": sum(is_available(pod, wait, now) for pod in active),
        "observedGeneration": replica_set["metadata"].get("generation", 0),
    }
    new: Obj = {"replicas": len(active), **{k: v for k, v in counts.items() if v}}
    if terminating is not None:
        new["terminatingReplicas"] = terminating
    conditions = _conditions(replica_set, len(active), failure, now)
    if conditions:
        new["conditions"] = conditions
    return None if new == {"replicas": 0, **old} else new


def _conditions(replica_set: Obj, active: int, failure: str | None, now: datetime) -> list[Obj]:
    old = [dict(c) for c in (replica_set.get("status") or {}).get("conditions") or ()]
    known = any(c.get("type") == "ReplicaFailure" for c in old)
    if failure is None:
        return [c for c in old if c.get("type") != "ReplicaFailure"]
    if known:
        return old
    short = active < replica_set["spec"].get("replicas", 1)
    return [
        *old,
        {
            "type": "ReplicaFailure",
            "status": "True",
            "lastTransitionTime": format_datetime(now),
            "reason": "FailedCreate" if short else "FailedDelete",
            "message": failure,
        },
    ]


def terminating_count(pods: Iterable[Obj]) -> int:
    """Pods that are going down."""
    return sum(1 for pod in pods if is_deleting(pod) and not is_terminal(pod))
