"""How the node's HTTPS server reaches pods: what the agent offers, and what it may answer.

The server (``server/``) knows nothing of how pods are run; the agent implements ``PodAccess``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from corral.cluster.node.container.streams import Streams
from corral.cluster.node.resources import Usage
from corral.kube.types import Obj

__all__ = ["AccessError", "ContainerUsage", "PodAccess", "PodUsage", "log_container"]


class AccessError(Exception):
    """What was asked for cannot be given; ``code`` is the HTTP status to answer with."""

    def __init__(self, message: str, *, code: int) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class ContainerUsage:
    """What a running container uses."""

    name: str
    started_at: float
    usage: Usage


@dataclass(frozen=True, slots=True)
class PodUsage:
    """What the running containers of a pod use."""

    namespace: str
    name: str
    uid: str
    containers: Sequence[ContainerUsage]


class PodAccess(Protocol):
    """What the agent offers. Everything raises AccessError (404: no such pod or container)."""

    def pods(self) -> list[Obj]:
        """All pods bound to this node, with the status that the agent would report now."""

    def usage(self) -> list[PodUsage]:
        """Of all running containers."""

    def log_file(self, namespace: str, pod: str, container: str, *, previous: bool) -> Path:
        """The log of the container's present attempt, or of the one before.

        Raises AccessError 400 in the words of a kubelet (waiting to start, previous terminated
        container not found).
        """

    def is_running(self, namespace: str, pod: str, container: str) -> bool:
        """Whether a followed log may still grow: this attempt has not ended."""

    async def exec(
        self,
        namespace: str,
        pod: str,
        container: str,
        *,
        command: Sequence[str],
        stdin: bool,
        tty: bool,
    ) -> Streams:
        """Run a command beside the container's process."""

    async def attach(self, namespace: str, pod: str, container: str, *, stdin: bool) -> Streams:
        """Join the container's own streams."""

    def has_tty(self, namespace: str, pod: str, container: str) -> bool:
        """Whether the container's process has a terminal (attach then has one output)."""

    async def dial(
        self, namespace: str, pod: str, port: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect to a port as seen inside the pod.

        Raises OSError when nobody listens.
        """


def log_container(pod: Obj, container: str, *, previous: bool) -> str:
    """The id of the container whose log is meant, by the statuses of a pod.

    Raises AccessError 404 or 400 in the words of a kubelet.
    """
    name, spec, status = pod["metadata"]["name"], pod["spec"], pod.get("status") or {}
    kinds = ("containers", "initContainers", "ephemeralContainers")
    if not any(c["name"] == container for kind in kinds for c in spec.get(kind) or ()):
        raise AccessError(f'container "{container}" not found in pod "{name}"', code=404)
    kinds = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
    every = (one for kind in kinds for one in status.get(kind) or ())
    found = next((one for one in every if one["name"] == container), None)
    if found is None:
        raise AccessError(f'container "{container}" in pod "{name}" is not available', code=400)
    state = found.get("state") or {}
    last = str(((found.get("lastState") or {}).get("terminated") or {}).get("containerID", ""))
    if previous:
        chosen, why = last, f'previous terminated container "{container}" in pod "{name}" not found'
    elif "running" in state:
        chosen, why = str(found.get("containerID", "")), ""
    elif "terminated" in state or "terminated" in (found.get("lastState") or {}):
        chosen = str((state.get("terminated") or {}).get("containerID", "")) or last
        why = f'container "{container}" in pod "{name}" is terminated'
    else:
        chosen, why = "", f'container "{container}" in pod "{name}" is waiting to start'
        reason = (state.get("waiting") or {}).get("reason", "")
        why += f": {_WAITING.get(reason, reason)}" if "waiting" in state else " - no logs yet"
    if not chosen:
        raise AccessError(why, code=400)
    return chosen


_WAITING = {
    "ErrImagePull": "image can't be pulled",
    "ImagePullBackOff": "trying and failing to pull image",
}
