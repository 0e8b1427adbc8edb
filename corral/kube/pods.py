"""The state of a pod, judged from its status for those who decide about it. No I/O."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Final

from corral.kube.times import parse_time
from corral.kube.types import Obj

__all__ = [
    "PodState",
    "conditions_of",
    "ended_containers",
    "is_deleting",
    "is_ready",
    "is_scheduled",
    "is_terminal",
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
    """What a controller needs to know of a pod: where it is in its life, and why it ended."""

    PENDING = "pending"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    """A container of the pod exited with an error, which nothing outside the pod caused."""
    LOST = "lost"
    """Deleted, evicted, or gone with its node."""


def pod_state(pod: Obj) -> PodState:
    """The state that decisions about the pod are made by."""
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
    if _is_true(pod, "DisruptionTarget"):
        return True
    reason = str((pod.get("status") or {}).get("reason") or "")
    if reason in _LOST_REASONS or reason.startswith("OutOf"):
        return True
    return _was_deleted_first(pod)


def _was_deleted_first(pod: Obj) -> bool:
    """Whether the containers ended because the pod was being deleted, not before that."""
    deadline = parse_time(pod["metadata"].get("deletionTimestamp"))
    if deadline is None:
        return False
    requested = deadline - (pod["metadata"].get("deletionGracePeriodSeconds") or 0)
    ends = [parse_time(ended.get("finishedAt")) for _, ended in ended_containers(pod)]
    return all(end is not None and end >= requested for end in ends)


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


def _condition(pod: Obj, type: str) -> Obj | None:
    return next((found for found in conditions_of(pod) if found.get("type") == type), None)


def _is_true(pod: Obj, type: str) -> bool:
    return (_condition(pod, type) or {}).get("status") == "True"


def is_deleting(pod: Obj) -> bool:
    return bool(pod["metadata"].get("deletionTimestamp"))


def is_terminal(pod: Obj) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def is_ready(pod: Obj) -> bool:
    return _is_true(pod, "Ready")


def is_scheduled(pod: Obj) -> bool:
    return bool((pod.get("spec") or {}).get("nodeName"))


def unschedulable_since(pod: Obj) -> float | None:
    """Since when the scheduler has found no node; None while it has not reported that."""
    condition = _condition(pod, "PodScheduled")
    if is_scheduled(pod) or condition is None or condition.get("status") != "False":
        return None
    if condition.get("reason") != "Unschedulable":
        return None
    since = condition.get("lastTransitionTime") or pod["metadata"].get("creationTimestamp")
    return parse_time(since)
