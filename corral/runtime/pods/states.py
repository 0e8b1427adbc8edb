"""What a pod says about itself, in the words that controllers decide by. No I/O."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from enum import Enum
from typing import Final

from corral.kube.types import Obj
from corral.runtime.conditions import find_condition, is_condition_true

__all__ = [
    "PodState",
    "conditions_of",
    "ended_containers",
    "is_deleting",
    "is_ready",
    "is_scheduled",
    "is_terminal",
    "moment",
    "pod_state",
    "unschedulable_since",
]

_LOST_REASONS: Final = frozenset(
    {
        "Evicted", "NodeLost", "NodeShutdown", "Shutdown", "Terminated", "Preempting",
        "NodeAffinity", "UnexpectedAdmissionError", "OutOfcpu", "OutOfmemory", "OutOfpods",
        "OutOfephemeral-storage",
    }
)  # fmt: skip
"""``status.reason`` of pods that their node ended or did not take: not the fault of training."""


class PodState(Enum):
    """What has become of a pod."""

    PENDING = "pending"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    """By itself."""
    LOST = "lost"
    """Deleted, evicted, or gone with its node."""


def pod_state(pod: Obj) -> PodState:
    """The one state that decisions go by."""
    status = pod.get("status") or {}
    phase = status.get("phase")
    if phase == "Succeeded":
        return PodState.SUCCEEDED
    if phase == "Failed" or _has_failed_container(pod):
        return PodState.LOST if _was_disrupted(pod) else PodState.FAILED
    if is_deleting(pod) or phase == "Unknown" or status.get("reason") == "NodeLost":
        return PodState.LOST
    return PodState.RUNNING if phase == "Running" else PodState.PENDING


def _has_failed_container(pod: Obj) -> bool:
    """Containers are not restarted, so one that failed decides, though others may still run."""
    if (pod.get("spec") or {}).get("restartPolicy") != "Never":
        return False
    # Init containers are judged by the phase: those that run beside training are restarted.
    containers = (pod.get("status") or {}).get("containerStatuses") or ()
    ends = ((found.get("state") or {}).get("terminated") or {} for found in containers)
    return any(end.get("exitCode") for end in ends)


def _was_disrupted(pod: Obj) -> bool:
    if is_condition_true(conditions_of(pod), "DisruptionTarget"):
        return True
    reason = str((pod.get("status") or {}).get("reason") or "")
    if reason in _LOST_REASONS or reason.startswith("OutOf"):
        return True
    return _was_deleted_first(pod)


def _was_deleted_first(pod: Obj) -> bool:
    """Whether the containers ended because the pod was being deleted, not before that."""
    deadline = moment(pod["metadata"].get("deletionTimestamp"))
    if deadline is None:
        return False
    asked = deadline - (pod["metadata"].get("deletionGracePeriodSeconds") or 0)
    ends = [moment(ended.get("finishedAt")) for _, ended in ended_containers(pod)]
    return all(end is not None and end >= asked for end in ends)


def ended_containers(pod: Obj) -> Iterator[tuple[str, Obj]]:
    """Name and end of every container of training that has ended; init containers first."""
    status = pod.get("status") or {}
    for kind in ("initContainerStatuses", "containerStatuses"):
        for container in status.get(kind) or ():
            ended = (container.get("state") or {}).get("terminated")
            if ended:
                yield str(container.get("name", "")), dict(ended)


def conditions_of(pod: Obj) -> list[Obj]:
    return list((pod.get("status") or {}).get("conditions") or ())


def is_deleting(pod: Obj) -> bool:
    return bool(pod["metadata"].get("deletionTimestamp"))


def is_terminal(pod: Obj) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def is_ready(pod: Obj) -> bool:
    return is_condition_true(conditions_of(pod), "Ready")


def is_scheduled(pod: Obj) -> bool:
    return bool((pod.get("spec") or {}).get("nodeName"))


def unschedulable_since(pod: Obj) -> float | None:
    """Since when the scheduler has found no node for the pod; None while it has not said so."""
    condition = find_condition(conditions_of(pod), "PodScheduled")
    if is_scheduled(pod) or condition is None or condition.get("status") != "False":
        return None
    if condition.get("reason") != "Unschedulable":
        return None
    since = condition.get("lastTransitionTime") or pod["metadata"].get("creationTimestamp")
    return moment(since)


def moment(text: str | None) -> float | None:
    """A time of the API in seconds since the epoch."""
    return datetime.fromisoformat(text).timestamp() if text else None
