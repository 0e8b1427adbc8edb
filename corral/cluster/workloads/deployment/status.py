"""The status of a deployment: counts, availability, progress and its deadline."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, Final

from corral.cluster.workloads.deployment.sets import available, limits, replicas, total
from corral.cluster.workloads.times import seconds_between
from corral.kube.times import format_datetime, parse_datetime
from corral.kube.types import Obj

__all__ = [
    "calculate",
    "find_condition",
    "has_deadline",
    "is_complete",
    "new_condition",
    "rollout_status",
    "set_condition",
    "stuck_after",
]

PROGRESSING: Final = "Progressing"
NO_LIMIT: Final = 2**31 - 1
SET_AVAILABLE: Final = "NewReplicaSetAvailable"
TIMED_OUT: Final = "ProgressDeadlineExceeded"
_COUNTS: Final = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")


def new_condition(kind: str, status: str, reason: str, message: str, *, now: datetime) -> Obj:
    when = format_datetime(now)
    return {
        "type": kind,
        "status": status,
        "lastUpdateTime": when,
        "lastTransitionTime": when,
        "reason": reason,
        "message": message,
    }


def find_condition(status: Obj, kind: str) -> Obj | None:
    return next((c for c in status.get("conditions") or () if c.get("type") == kind), None)


def remove_condition(status: Obj, kind: str) -> None:
    status["conditions"] = [c for c in status.get("conditions") or () if c.get("type") != kind]


def set_condition(status: Obj, new: Obj) -> None:
    """Replaces a condition in place, unless status and reason stay the same."""
    old = find_condition(status, new["type"])
    if old is not None and old.get("status") == new["status"]:
        if old.get("reason") == new["reason"]:
            return
        new = {**new, "lastTransitionTime": old.get("lastTransitionTime")}
    remove_condition(status, new["type"])
    status["conditions"].append(new)


def has_deadline(deployment: Obj) -> bool:
    return bool(deployment["spec"].get("progressDeadlineSeconds", NO_LIMIT) != NO_LIMIT)


def _sum(sets: Iterable[Obj], field: str) -> int:
    return sum((one.get("status") or {}).get(field, 0) for one in sets)


def _terminating(sets: Iterable[Obj]) -> int | None:
    """None while a set that has been looked at does not say."""
    count = 0
    for one in sets:
        status = one.get("status") or {}
        if status.get("terminatingReplicas") is not None:
            count += status["terminatingReplicas"]
        elif status.get("observedGeneration"):
            return None
    return count


def calculate(deployment: Obj, sets: list[Obj], new: Obj | None, now: datetime) -> Obj:
    """Counts and availability; the other conditions stay as they are."""
    old = deployment.get("status") or {}
    ready_for_use = sum(map(available, sets))
    counts: Obj = {
        "observedGeneration": deployment["metadata"].get("generation", 0),
        "replicas": _sum(sets, "replicas"),
        "updatedReplicas": _sum([new] if new else [], "replicas"),
        "readyReplicas": _sum(sets, "readyReplicas"),
        "availableReplicas": ready_for_use,
        "unavailableReplicas": max(0, total(sets) - ready_for_use),
    }
    status: Obj = {key: value for key, value in counts.items() if value}
    terminating = _terminating(sets)
    if terminating is not None:
        status["terminatingReplicas"] = terminating
    if old.get("collisionCount") is not None:
        status["collisionCount"] = old["collisionCount"]
    status["conditions"] = [dict(c) for c in old.get("conditions") or ()]
    if ready_for_use >= replicas(deployment) - limits(deployment)[1]:
        said = ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
    else:
        said = (
            "False",
            "MinimumReplicasUnavailable",
            "Deployment does not have minimum availability.",
        )
    set_condition(status, new_condition("Available", *said, now=now))
    return status


def is_complete(deployment: Obj, status: Obj) -> bool:
    """Every pod is of the new template and available, and none is left of an old one."""
    wanted = replicas(deployment)
    return bool(
        all(
            status.get(field, 0) == wanted
            for field in ("updatedReplicas", "replicas", "availableReplicas")
        )
        and status.get("observedGeneration", 0) >= deployment["metadata"].get("generation", 0)
    )


def _progresses(old: Obj, new: Obj) -> bool:
    def numbers(status: Obj) -> list[int]:
        return [status.get(field, 0) for field in _COUNTS]

    was, now = numbers(old), numbers(new)
    return (
        now[1] > was[1] or now[0] - now[1] < was[0] - was[1] or now[2] > was[2] or now[3] > was[3]
    )


def _is_late(deployment: Obj, status: Obj, now: datetime) -> bool:
    condition = find_condition(status, PROGRESSING)
    if condition is None or condition.get("reason") == SET_AVAILABLE:
        return False
    if condition.get("reason") == TIMED_OUT:
        return True
    since = parse_datetime(condition.get("lastUpdateTime"))
    seconds = deployment["spec"]["progressDeadlineSeconds"]
    return since is not None and since + timedelta(seconds=seconds) < now


def rollout_status(deployment: Obj, sets: list[Obj], new: Obj | None, now: datetime) -> Obj:
    """The status of a rollout: counts, availability, progress and failures of its sets."""
    status = calculate(deployment, sets, new, now)
    old = deployment.get("status") or {}
    current = find_condition(old, PROGRESSING)
    if not has_deadline(deployment):
        remove_condition(status, PROGRESSING)
    elif not _stays_complete(status, current):
        _note_progress(deployment, status, new, current=current, now=now)
    failures = [*_failures([new] if new else []), *_failures(sets)]
    if failures:
        set_condition(status, failures[0])
    else:
        remove_condition(status, "ReplicaFailure")
    return status


def _stays_complete(status: Obj, current: Obj | None) -> bool:
    """A finished rollout stays so while pods merely come and go."""
    same = status.get("replicas", 0) == status.get("updatedReplicas", 0)
    return same and current is not None and current.get("reason") == SET_AVAILABLE


def _note_progress(
    deployment: Obj, status: Obj, new: Obj | None, *, current: Obj | None, now: datetime
) -> None:
    kind, name = ("ReplicaSet", new["metadata"]["name"]) if new else _named(deployment)
    if is_complete(deployment, status):
        said = ("True", SET_AVAILABLE, f'{kind} "{name}" has successfully progressed.')
    elif _progresses(deployment.get("status") or {}, status):
        said = ("True", "ReplicaSetUpdated", f'{kind} "{name}" is progressing.')
        condition = new_condition(PROGRESSING, *said, now=now)
        if current is not None:
            # The update time moves although nothing else does: the deadline counts from it.
            if current.get("status") == "True":
                condition["lastTransitionTime"] = current.get("lastTransitionTime")
            remove_condition(status, PROGRESSING)
        set_condition(status, condition)
        return
    elif _is_late(deployment, status, now):
        said = ("False", TIMED_OUT, f'{kind} "{name}" has timed out progressing.')
    else:
        return
    set_condition(status, new_condition(PROGRESSING, *said, now=now))


def _named(deployment: Obj) -> tuple[str, str]:
    return "Deployment", deployment["metadata"]["name"]


def _failures(sets: Iterable[Obj]) -> list[Obj]:
    return [
        {**condition, "lastUpdateTime": condition.get("lastTransitionTime")}
        for one in sets
        for condition in (one.get("status") or {}).get("conditions") or ()
        if condition.get("type") == "ReplicaFailure"
    ]


def stuck_after(deployment: Obj, status: Obj, now: datetime) -> float | None:
    """Seconds until the deadline has to be looked at; None when it does not matter now."""
    current = find_condition(deployment.get("status") or {}, PROGRESSING)
    if current is None or not has_deadline(deployment):
        return None
    if is_complete(deployment, status) or current.get("reason") == TIMED_OUT:
        return None
    since: Any = parse_datetime(current.get("lastUpdateTime")) or now
    seconds = deployment["spec"]["progressDeadlineSeconds"]
    after = seconds_between(now, since + timedelta(seconds=seconds))
    return after + 1.0 if after >= 1.0 else 1.0
