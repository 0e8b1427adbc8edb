"""Why a replica failed or does not start: ``status.failure``. No I/O but for the end of a log.

Of several pods that have failed, the first one to end is taken to be the cause: when one replica
dies, the others soon fail for want of it.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Iterable
from contextlib import aclosing
from typing import Final

from corral.controllers.trainingjob.limits import RunLimits
from corral.controllers.trainingjob.names import replica_of
from corral.controllers.trainingjob.replicas import (
    PodState,
    conditions_of,
    ended_containers,
    moment,
    pod_state,
    unschedulable_since,
)
from corral.kube.client import KubeClient
from corral.kube.errors import ApiError
from corral.kube.transport import KubeConnectionError
from corral.kube.types import Obj
from corral.runtime.conditions import find_condition

__all__ = [
    "REASON_LOST",
    "STUCK_REASONS",
    "UNSCHEDULABLE",
    "culprit",
    "diagnose",
    "failed_container",
    "log_tail",
    "lost_failure",
    "shortened",
    "stuck_reason",
]

logger = logging.getLogger(__name__)

STUCK_REASONS: Final = frozenset(
    {
        "CreateContainerConfigError", "CreateContainerError", "ErrImageNeverPull", "ErrImagePull",
        "ImageInspectError", "ImagePullBackOff", "InvalidImageName", "RegistryUnavailable",
        "RunContainerError",
    }
)  # fmt: skip
"""Why a container waits where only a change from outside can help; restarting would not."""
UNSCHEDULABLE: Final = "Unschedulable"
REASON_LOST: Final = "PodLost"
_MESSAGE: Final = 2048
_SIGNALS: Final = range(129, 193)


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


def failed_container(pod: Obj) -> tuple[str, Obj]:
    """Name and end of the container that failed first; empty if none has."""
    ends = [(name, ended) for name, ended in ended_containers(pod) if ended.get("exitCode")]
    if not ends:
        return "", {}
    return min(ends, key=lambda found: moment(found[1].get("finishedAt")) or math.inf)


def diagnose(pod: Obj) -> Obj:
    """``status.failure`` for a pod that has failed, was lost, or cannot start."""
    out: Obj = {"replica": replica_of(pod), "pod": pod["metadata"]["name"]}
    node = (pod.get("spec") or {}).get("nodeName")
    if node:
        out["node"] = node
    state = pod_state(pod)
    if state in (PodState.PENDING, PodState.RUNNING):
        reason, message = stuck_reason(pod)
        out["reason"] = reason or "Unknown"
    else:
        out["reason"], message = _end_reason(pod, state)
        out |= _exit(pod)
    if message:
        out["message"] = shortened(message)
    return out


def _end_reason(pod: Obj, state: PodState) -> tuple[str, str]:
    status = pod.get("status") or {}
    _, ended = failed_container(pod)
    message = str(ended.get("message") or "").strip()
    if state is PodState.LOST:
        target = find_condition(conditions_of(pod), "DisruptionTarget") or {}
        reason = status.get("reason") or target.get("reason") or REASON_LOST
        said = status.get("message") or target.get("message") or message
        return str(reason), str(said or "the pod was deleted or lost with its node")
    if ended.get("reason") == "OOMKilled":
        return "OOMKilled", message or "the container used more memory than its limit"
    reason = status.get("reason") or ended.get("reason") or "Error"
    return str(reason), message or str(status.get("message") or "")


def _exit(pod: Obj) -> Obj:
    _, ended = failed_container(pod)
    if not ended:
        return {}
    code = int(ended["exitCode"])
    out: Obj = {"exitCode": code}
    if ended.get("signal"):
        out["signal"] = int(ended["signal"])
    elif code in _SIGNALS:
        out["signal"] = code - 128
    return out


def lost_failure(job: Obj, replica: int) -> Obj:
    """``status.failure`` for a pod that is not there any more."""
    return {
        "replica": replica,
        "pod": f"{job['metadata']['name']}-{replica}",
        "reason": REASON_LOST,
        "message": "the pod was deleted or lost with its node",
    }


def stuck_reason(pod: Obj) -> tuple[str, str]:
    """Why a pod does not start, as reason and message; empty where it is only on its way."""
    status = pod.get("status") or {}
    for kind in ("initContainerStatuses", "containerStatuses"):
        for container in status.get(kind) or ():
            waiting = (container.get("state") or {}).get("waiting") or {}
            if waiting.get("reason") in STUCK_REASONS:
                return waiting["reason"], str(waiting.get("message") or "")
    if unschedulable_since(pod) is not None:
        condition = find_condition(conditions_of(pod), "PodScheduled") or {}
        return UNSCHEDULABLE, str(condition.get("message") or "")
    return "", ""


def shortened(text: str, limit: int = _MESSAGE) -> str:
    """At most this many characters of a message: its beginning."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


async def log_tail(client: KubeClient, pod: Obj, limits: RunLimits) -> str:
    """The last lines that the failed container wrote; empty where they cannot be had in time."""
    lines: list[str] = []
    name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
    container = failed_container(pod)[0] or _first_container(pod)
    try:
        async with (
            asyncio.timeout(limits.log_timeout),
            aclosing(
                client.log_lines(name, namespace, container=container, tail_lines=limits.log_lines)
            ) as found,
        ):
            lines += [line async for line in found]
    except (ApiError, KubeConnectionError, TimeoutError) as error:
        logger.info("the log of pod %s/%s cannot be read: %s", namespace, name, error)
    return trimmed(lines, limits)


def trimmed(lines: list[str], limits: RunLimits) -> str:
    """The last of the lines that fit."""
    text = "\n".join(lines[-limits.log_lines :]).encode()
    return text[-limits.log_bytes :].decode(errors="ignore")


def _first_container(pod: Obj) -> str:
    containers = (pod.get("spec") or {}).get("containers") or [{}]
    return str(containers[0].get("name", ""))
