"""Who saves a pod: its own program, a snapshot of a directory, or the kubelet.

All have one interface. What an engine has done before this process died it finds again, by names
that follow from the backup and from when its run was begun.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeVar

from corral.api.spot.backup import CheckpointBackupSpec
from corral.families.spot.jobs.reported import LastCheckpoint, asks_for_checkpoint, last_checkpoint
from corral.kube.client import KubeClient
from corral.kube.errors import NotFound
from corral.kube.resources import PODS
from corral.kube.types import Obj
from corral.runtime.informers.informer import Informer
from corral.runtime.keys import format_time, key_of, uid_of
from corral.runtime.pods.states import is_terminal

__all__ = [
    "ApplicationEngine",
    "BackupError",
    "Engine",
    "Outcome",
    "Run",
    "Target",
    "Tell",
    "targets",
    "while_alive",
]

T = TypeVar("T")
_LOOK: Final = 1.0
"""Seconds between two looks at whether a pod is still there."""
_GLANCE: Final = 0.1
"""Seconds between two looks at whether a copy has answered."""


class BackupError(Exception):
    """A pod cannot be saved as it was asked for; the message is for who asked."""


@dataclass(frozen=True, slots=True)
class Target:
    """A container to save, and the image that it becomes."""

    container: str
    image: str
    """With a tag; empty: there is no registry."""
    rootfs: str
    """The image that the container runs."""


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a backup."""

    backup: Obj
    spec: CheckpointBackupSpec
    pod: Obj
    started: float
    """Seconds since the epoch."""

    @property
    def id(self) -> str:
        """The same for every process that works on this run."""
        return f"{uid_of(self.backup)}-{int(self.started)}"

    @property
    def namespace(self) -> str:
        return str(self.backup["metadata"]["namespace"])


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was saved: ``builtImages`` and ``checkpointFiles`` of the status."""

    images: list[Obj] = field(default_factory=list)
    files: list[Obj] = field(default_factory=list)
    message: str = ""


Tell = Callable[[Obj], Awaitable[None]]
"""Writes a part of the status while the run goes on."""


class Engine(Protocol):
    """Saves pods."""

    async def save(self, run: Run, tell: Tell) -> Outcome:
        """Save a pod; cancelled when it takes too long.

        Raises:
            BackupError: it cannot be saved.
        """
        ...


def targets(run: Run) -> list[Target]:
    """The containers to save: those that are named, else the first.

    Raises:
        BackupError: the pod has no such container.
    """
    spec = run.spec
    containers = {c["name"]: c for c in run.pod["spec"].get("containers") or ()}
    if not spec.containers:
        name = next(iter(containers))
        image = f"{spec.repository}:{_tag(run, name)}" if spec.repository else ""
        return [Target(name, image, str(containers[name].get("image") or ""))]
    found = []
    for wanted in spec.containers:
        if wanted.name not in containers:
            pod = run.pod["metadata"]["name"]
            raise BackupError(f"spec.containers: pod {pod} has no container {wanted.name}")
        rootfs = str(containers[wanted.name].get("image") or "")
        found.append(Target(wanted.name, wanted.image, rootfs))
    return found


def _tag(run: Run, container: str) -> str:
    """At most 128 characters, and another for every run."""
    return f"{container[:63]}-{int(run.started)}-{uid_of(run.backup)[:8]}"


async def while_alive(client: KubeClient, pod: Obj, work: Coroutine[Any, Any, T]) -> T:
    """What comes of work that needs a pod; given up when the pod is gone, as its node may be.

    Raises:
        BackupError: the pod has ended.
    """
    task = asyncio.create_task(work)
    try:
        while True:
            done, _ = await asyncio.wait({task}, timeout=_LOOK)
            if done:
                return task.result()
            await _check_alive(client, pod)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _check_alive(client: KubeClient, pod: Obj) -> None:
    metadata = pod["metadata"]
    try:
        found = await client.get(PODS, metadata["name"], namespace=metadata["namespace"])
    except NotFound:
        found = None
    if found is None or uid_of(found) != uid_of(pod) or is_terminal(found):
        raise BackupError(f"pod {metadata['name']} has ended before it was saved")


class ApplicationEngine:
    """Asks the program itself, by the report endpoint; what it saves stays where it saves."""

    def __init__(
        self,
        client: KubeClient,
        pods: Informer,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._client = client
        self._pods = pods
        self._sleep = sleep

    async def save(self, run: Run, tell: Tell) -> Outcome:
        """Ask, and wait for a checkpoint that names the request."""
        if not _reports(run.pod):
            raise BackupError(
                f"pod {run.pod['metadata']['name']} reports to nobody: the Application engine is "
                "for pods of spot jobs whose program uses corral.inpod; use Directory or Kubelet"
            )
        metadata = run.pod["metadata"]
        patch = asks_for_checkpoint(run.id)
        patch["metadata"]["uid"] = metadata["uid"]
        await self._client.patch(
            PODS, metadata["name"], namespace=metadata["namespace"], patch=patch
        )
        found = await self._answered(run)
        file = {
            "containerName": run.pod["spec"]["containers"][0]["name"],
            "filePath": found.id,
            "checkpointTime": format_time(found.time),
        }
        return Outcome(files=[file], message=f"checkpoint {found.id} of step {found.step}")

    async def _answered(self, run: Run) -> LastCheckpoint:
        while True:
            pod = self._pods.store.get(key_of(run.pod))
            if pod is None or uid_of(pod) != uid_of(run.pod):
                raise BackupError("the pod has ended before it had saved")
            last = last_checkpoint(pod)
            if last is not None and last.request == run.id:
                return last
            if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
                raise BackupError("the pod has ended before it had saved")
            await self._sleep(_GLANCE)


def _reports(pod: Obj) -> bool:
    return any(
        variable.get("name") == "CORRAL_REPORT_URL"
        for container in pod["spec"].get("containers") or ()
        for variable in container.get("env") or ()
    )
