"""What has become of a task's Job, Deployment and pods. No I/O."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from corral.families.federated.tasks import names
from corral.kube.types import Obj
from corral.runtime.conditions import find_condition, is_condition_true
from corral.runtime.pods.failures import pod_failure, stuck_reason
from corral.runtime.pods.states import PodState, moment, pod_state
from corral.runtime.sightings import SKEW_S

__all__ = ["JOB_FAILED", "PATIENCE", "Progress", "attempt_of", "observe"]

PATIENCE: Final = 5.0
"""Seconds in which a Job should have made its pod."""
JOB_FAILED: Final = "Job failed"
"""What is said of a Job that does not say why."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far it is."""

    state: Literal["waiting", "running", "succeeded", "failed"]
    reason: str = ""
    """A word, where it does not get on."""
    message: str = ""


def attempt_of(obj: Obj) -> str:
    """The attempt that a Job or pod belongs to."""
    return str((obj["metadata"].get("labels") or {}).get(names.ATTEMPT_LABEL) or "")


def observe(workload: Obj, pods: Sequence[Obj], *, now: float = 0.0) -> Progress:
    """``pods`` are those of the workload's own attempt; ``now`` is the time since the epoch."""
    if workload.get("kind") == "Deployment":
        return _of_pods(pods) if pods else _podless(workload, now)
    status = workload.get("status") or {}
    conditions = status.get("conditions")
    if is_condition_true(conditions, "Failed"):
        said = (find_condition(conditions, "Failed") or {}).get("message")
        return Progress("failed", "JobFailed", _error(str(said or JOB_FAILED), pods))
    if is_condition_true(conditions, "Complete") or (status.get("succeeded") or 0) > 0:
        return Progress("succeeded")
    return _of_pods(pods) if pods else _podless(workload, now)


def _podless(workload: Obj, now: float) -> Progress:
    """Whoever refuses its pods says so in events, and to nobody else."""
    made = moment(workload["metadata"].get("creationTimestamp"))
    if made is None or -SKEW_S < now - made < PATIENCE:
        return Progress("waiting")
    kind, name = str(workload.get("kind")), workload["metadata"]["name"]
    why = f"{kind} {name} has no pod yet: `kubectl describe {kind.lower()} {name}` says why"
    return Progress("waiting", "NoPods", why)


def _of_pods(pods: Sequence[Obj]) -> Progress:
    states = {pod_state(pod) for pod in pods}
    for pod in pods:
        reason, message = stuck_reason(pod)
        if reason:
            return Progress("waiting", reason, message or f"the pod waits: {reason}")
        trouble = _restarting(pod)
        if trouble is not None:
            return trouble
    if PodState.RUNNING in states or PodState.SUCCEEDED in states:
        return Progress("running")
    return Progress("waiting")


def _restarting(pod: Obj) -> Progress | None:
    """A task that has failed and is to be started again."""
    for found in (pod.get("status") or {}).get("containerStatuses") or ():
        waiting = (found.get("state") or {}).get("waiting") or {}
        if found.get("name") == names.CONTAINER and waiting.get("reason") == "CrashLoopBackOff":
            ended = (found.get("lastState") or {}).get("terminated") or {}
            return Progress("running", "Restarting", f"it is started again: {_ending(ended)}")
    return None


def _ending(ended: Obj) -> str:
    said = str(ended.get("message") or "").strip() or str(ended.get("reason") or "it ended")
    return f"exit code {ended.get('exitCode')}: {said}"


def _error(said: str, pods: Sequence[Obj]) -> str:
    """What the Job says, and what its last pod that failed says beyond it."""
    failed = [pod for pod in pods if pod_state(pod) in (PodState.FAILED, PodState.LOST)]
    if not failed:
        return said
    last = max(failed, key=lambda pod: str(pod["metadata"].get("creationTimestamp") or ""))
    found = pod_failure(last)
    parts = [str(found.get("reason") or "")]
    if "exitCode" in found:
        parts.append(f"exit code {found['exitCode']}")
    parts.append(str(found.get("message") or "").strip())
    return f"{said}: {': '.join(part for part in parts if part)}"
