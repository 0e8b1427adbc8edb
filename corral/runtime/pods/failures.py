"""Why a pod failed or does not start, and the end of its log. No I/O but for logs."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Sequence
from contextlib import aclosing
from typing import Final, Protocol

from corral.kube.client import KubeClient
from corral.kube.connection.transport import KubeConnectionError
from corral.kube.errors import ApiError
from corral.kube.types import Obj
from corral.runtime.conditions import find_condition
from corral.runtime.pods.states import (
    PodState,
    conditions_of,
    ended_containers,
    moment,
    pod_state,
    unschedulable_since,
)

__all__ = [
    "REASON_LOST",
    "STUCK_REASONS",
    "UNSCHEDULABLE",
    "LogLimits",
    "exit_of",
    "failed_container",
    "first_container",
    "log_lines",
    "pod_failure",
    "shortened",
    "stuck_reason",
    "trimmed",
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


def failed_container(pod: Obj) -> tuple[str, Obj]:
    """Name and end of the container that failed first; empty if none has."""
    ends = [(name, ended) for name, ended in ended_containers(pod) if ended.get("exitCode")]
    if not ends:
        return "", {}
    return min(ends, key=lambda found: moment(found[1].get("finishedAt")) or math.inf)


def first_container(pod: Obj) -> str:
    """The name of the container that a pod is about."""
    containers = (pod.get("spec") or {}).get("containers") or [{}]
    return str(containers[0].get("name", ""))


def pod_failure(pod: Obj) -> Obj:
    """For ``status.failure``: a pod that has failed, was lost, or cannot start."""
    out: Obj = {"pod": pod["metadata"]["name"]}
    node = (pod.get("spec") or {}).get("nodeName")
    if node:
        out["node"] = node
    state = pod_state(pod)
    if state in (PodState.PENDING, PodState.RUNNING):
        reason, message = stuck_reason(pod)
        out["reason"] = reason or "Unknown"
    else:
        out["reason"], message = _end_reason(pod, state)
        _, ended = failed_container(pod)
        out |= exit_of(ended) if ended else {}
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


def exit_of(ended: Obj) -> Obj:
    """Exit code and signal of a container's end."""
    code = int(ended["exitCode"])
    out: Obj = {"exitCode": code}
    if ended.get("signal"):
        out["signal"] = int(ended["signal"])
    elif code in _SIGNALS:
        out["signal"] = code - 128
    return out


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


# --- logs ----------------------------------------------------------------------------------------


_MAX_LOG: Final = 4 << 20
"""Bytes of a log that are read; the longest result in one has a quarter of it."""


class LogLimits(Protocol):
    """How much of a log is kept."""

    @property
    def log_timeout(self) -> float: ...
    @property
    def log_lines(self) -> int: ...
    @property
    def log_bytes(self) -> int: ...


async def log_lines(
    client: KubeClient, pod: Obj, container: str, limits: LogLimits, *, previous: bool = False
) -> list[str]:
    """The last lines that a container wrote; none where they cannot be had in time.

    ``previous``: in its life before the present one.
    """
    lines: list[str] = []
    name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
    options = {
        "container": container,
        "tail_lines": limits.log_lines,
        "previous": previous,
        "limit_bytes": _MAX_LOG,  # a line can be as long as a pod likes
    }
    try:
        async with (
            asyncio.timeout(limits.log_timeout),
            aclosing(client.log_lines(name, namespace, **options)) as found,
        ):
            lines += [line async for line in found]
    except (ApiError, KubeConnectionError, TimeoutError) as error:
        logger.info("the log of pod %s/%s cannot be read: %s", namespace, name, error)
    return lines


def trimmed(lines: Sequence[str], limits: LogLimits) -> str:
    """The last of the lines that fit."""
    text = "\n".join(lines[-limits.log_lines :]).encode()
    return text[-limits.log_bytes :].decode(errors="ignore")
