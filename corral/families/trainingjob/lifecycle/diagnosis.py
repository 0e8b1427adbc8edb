"""Why a replica failed or does not start: ``status.failure``. No I/O but for the end of a log.

Of several pods that have failed, the first one to end is taken to be the cause: when one replica
dies, the others soon fail for want of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from corral.families.trainingjob.lifecycle.limits import RunLimits
from corral.families.trainingjob.names import replica_of
from corral.kube.client import KubeClient
from corral.kube.types import Obj
from corral.runtime.pods.failures import (
    REASON_LOST,
    failed_container,
    first_container,
    log_lines,
    pod_failure,
    trimmed,
)
from corral.runtime.pods.states import PodState, moment, pod_state

__all__ = ["culprit", "diagnose", "log_tail", "lost_failure"]


def culprit(pods: Iterable[Obj]) -> Obj | None:
    """The pod whose end explains the others', among those that have failed or were lost."""
    ended = [pod for pod in pods if pod_state(pod) in (PodState.FAILED, PodState.LOST)]
    return min(ended, key=_cause_rank, default=None)


def _cause_rank(pod: Obj) -> tuple[bool, float, bool, int]:
    """A loss explains failures; then the first to end; then what the kernel ended."""
    _, ended = failed_container(pod)
    when = moment(ended.get("finishedAt"))
    lost = pod_state(pod) is PodState.LOST
    killed = ended.get("reason") == "OOMKilled"
    return not lost, math.inf if when is None else when, not killed, replica_of(pod) or 0


def diagnose(pod: Obj) -> Obj:
    """``status.failure`` for a pod that has failed, was lost, or cannot start."""
    return {"replica": replica_of(pod), **pod_failure(pod)}


def lost_failure(job: Obj, replica: int) -> Obj:
    """``status.failure`` for a pod that is not there any more."""
    return {
        "replica": replica,
        "pod": f"{job['metadata']['name']}-{replica}",
        "reason": REASON_LOST,
        "message": "the pod was deleted or lost with its node",
    }


async def log_tail(client: KubeClient, pod: Obj, limits: RunLimits) -> str:
    """The last lines that the failed container wrote; empty where they cannot be had in time."""
    container = failed_container(pod)[0] or first_container(pod)
    return trimmed(await log_lines(client, pod, container, limits), limits)
