"""CheckpointBackup: saves a pod as an image, at once or on a schedule.

A run is written down before it is begun, works beside the queue, and has a limit, so that one which
is stuck holds up nothing, also not itself: it ends as Failed. A process that finds a run which
nobody works on goes on with it. A spot job's backup takes its image with it when it goes.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Final

from corral.api.spot.backup import CheckpointBackupSpec
from corral.api.spot.kinds import (
    BACKUP_FINALIZER,
    CHECKPOINTBACKUPS,
    JOB_LABEL,
    CheckpointBackup,
)
from corral.families.spot.backups.engines import BackupError, Engine, Outcome, Run, Tell
from corral.families.spot.backups.images import Images
from corral.families.spot.backups.state import (
    CHECKPOINTING,
    Expired,
    Go,
    Wait,
    next_step,
    started_at,
)
from corral.kube.client import KubeClient, KubeConnectionError
from corral.kube.errors import ApiError, Conflict, NotFound
from corral.kube.resources import PODS
from corral.kube.types import Obj
from corral.runtime import Manager, Result
from corral.runtime.finalizers import has_finalizer, is_being_deleted, remove_finalizer
from corral.runtime.keys import format_time, key_of, uid_of
from corral.runtime.pods.states import is_terminal
from corral.runtime.sightings import Sightings

__all__ = ["BackupController", "BackupSettings"]

logger = logging.getLogger(__name__)

COMPONENT: Final = "corral-backups"


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupSettings:
    """Of one operator process; durations in seconds."""

    at_once: int = 8
    """Runs at the same time; those that are immediate do not count."""
    resync: float = 300.0
    removal: float = 30.0
    """How long a registry may take to remove an image; then the image stays."""
    field_manager: str = "corral-backups"
    kept_images: int = 10
    """Images that the status of a backup on a schedule names."""


@dataclass(slots=True)
class _Work:
    """A run that this process works on."""

    task: asyncio.Task[None]
    key: str


@dataclass(slots=True)
class _Board:
    """All runs of this process; UID of the backup → run."""

    runs: dict[str, _Work] = field(default_factory=dict)

    def of(self, key: str) -> list[str]:
        """The UIDs of backups of this name."""
        return [uid for uid, work in self.runs.items() if work.key == key]

    async def end(self, uid: str) -> None:
        """Stop a run, if there is one, and wait until it has stopped."""
        work = self.runs.pop(uid, None)
        if work is not None:
            work.task.cancel()
            await asyncio.wait([work.task])


class BackupController:
    """Looks after CheckpointBackups."""

    def __init__(
        self,
        manager: Manager,
        engines: Mapping[str, Engine],
        images: Images,
        *,
        settings: BackupSettings | None = None,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.backups = manager.informer(CHECKPOINTBACKUPS)
        self._client: KubeClient = manager.client
        self._recorder = manager.recorder(COMPONENT)
        self._engines = engines
        self._images = images
        self._settings = settings or BackupSettings()
        self._wall = wall
        self._sightings = Sightings()
        self._board = _Board()
        self._slots = asyncio.Semaphore(self._settings.at_once)
        self.again: Callable[[str], None] = lambda key: None
        """Puts a backup into the queue."""

    async def run(self) -> None:
        """Wait for the end, then stop what is going on; for a manager's tasks."""
        try:
            await asyncio.Event().wait()
        finally:
            for uid in list(self._board.runs):
                await self._board.end(uid)

    async def reconcile(self, key: str) -> Result | None:
        """One look at one backup."""
        backup = self.backups.store.get(key)
        if backup is None:
            for uid in self._board.of(key):
                await self._board.end(uid)
            return None
        if is_being_deleted(backup):
            await self._gone(backup)
            return None
        spec = CheckpointBackup.read(backup).spec
        working = uid_of(backup) in self._board.runs
        step = next_step(backup, spec, self._wall(), sightings=self._sightings)
        if isinstance(step, Wait):
            return Result(max(0.05, step.seconds))
        if isinstance(step, Expired):
            await self._board.end(uid_of(backup))
            await self._expired(backup, spec)
            return Result(0.05)
        if isinstance(step, Go) and not working:
            await self._go(backup, spec)
        return None

    # --- runs ------------------------------------------------------------------------------------

    async def _go(self, seen: Obj, spec: CheckpointBackupSpec) -> None:
        """Begin a run, or go on with one; by the backup as it is now, or one is run twice."""
        metadata = seen["metadata"]
        try:
            found = await self._client.get(
                CHECKPOINTBACKUPS, metadata["name"], namespace=metadata["namespace"]
            )
        except NotFound:
            return
        backup, now = CHECKPOINTBACKUPS.stamp(found), self._wall()
        step = next_step(backup, spec, now, sightings=self._sightings)
        if not isinstance(step, Go) or uid_of(backup) != uid_of(seen) or is_being_deleted(backup):
            return  # the watch will tell
        if step.started is None:
            backup = CHECKPOINTBACKUPS.stamp(await self._begun(backup, now))
        self._start(backup, spec)

    async def _begun(self, backup: Obj, now: float) -> Obj:
        """Write a start down; nobody else begins the same run, as the version is the one read."""
        status = {
            "phase": CHECKPOINTING,
            "message": "",
            "startTime": format_time(now),
            "observedGeneration": backup["metadata"].get("generation"),
            "checkpointFiles": None,
        }
        version = backup["metadata"]["resourceVersion"]
        return await self._write(backup, status, version=version)

    def _start(self, backup: Obj, spec: CheckpointBackupSpec) -> None:
        uid, started = uid_of(backup), started_at(backup)
        assert started is not None
        left = self._sightings.left(started, spec.timeout_seconds, now=self._wall())
        name = f"backup {key_of(backup)}"
        task = asyncio.create_task(self._worked(backup, spec, started, max(left, 0.0)), name=name)
        self._board.runs[uid] = _Work(task, key_of(backup))
        task.add_done_callback(lambda _: self._ended(uid, task, key_of(backup)))

    def _ended(self, uid: str, task: asyncio.Task[None], key: str) -> None:
        work = self._board.runs.get(uid)
        if work is not None and work.task is task:
            del self._board.runs[uid]
        if task.cancelled():
            return
        if (error := task.exception()) is not None:
            # the status could not be written: the run is still there, and is gone on with
            logger.warning("backup %s: %s", key, error)
        self.again(key)

    async def _worked(
        self, backup: Obj, spec: CheckpointBackupSpec, started: float, left: float
    ) -> None:
        """One run, to its end or to its limit, and what came of it in the status."""
        try:
            async with asyncio.timeout(left), AsyncExitStack() as stack:
                if not spec.immediate:
                    await stack.enter_async_context(self._slots)
                pod = await self._pod(backup, spec)
                run = Run(backup, spec, pod, started)
                outcome = await self._engine(spec).save(run, self._teller(backup))
                end = await self._finished(run, outcome)
        except TimeoutError:
            await self._expired(backup, spec)
        except BackupError as error:
            await self._failed(backup, str(error))
        except (ApiError, KubeConnectionError) as error:
            await self._failed(backup, f"the API server: {error}")
        else:
            await self._done(backup, outcome, end)

    def _engine(self, spec: CheckpointBackupSpec) -> Engine:
        name = spec.engine or "Kubelet"
        if name not in self._engines:
            raise BackupError(f"spec.engine: {name} is not to be had here")
        return self._engines[name]

    async def _pod(self, backup: Obj, spec: CheckpointBackupSpec) -> Obj:
        namespace = backup["metadata"]["namespace"]
        if spec.pod_ref is not None and spec.pod_ref.namespace not in (None, "", namespace):
            raise BackupError("spec.podRef.namespace: only pods of the backup's own namespace")
        try:
            pod = await self._client.get(PODS, spec.pod, namespace=namespace)
        except NotFound as error:
            raise BackupError(f"there is no pod {spec.pod}") from error
        if is_terminal(pod) or (pod.get("status") or {}).get("phase") != "Running":
            raise BackupError(f"pod {spec.pod} does not run")
        node = pod["spec"].get("nodeName")
        if spec.node_name and spec.node_name != node:
            raise BackupError(f"pod {spec.pod} is on node {node}, not on {spec.node_name}")
        return PODS.stamp(pod)

    async def _finished(self, run: Run, outcome: Outcome) -> tuple[str, str]:
        """Phase and message at the end; the pod goes if that was asked for."""
        if not run.spec.stop_pod:
            return "Completed", outcome.message
        metadata = run.pod["metadata"]
        try:
            await self._client.delete(
                PODS, metadata["name"], namespace=metadata["namespace"], uid=metadata["uid"]
            )
        except (NotFound, Conflict):
            return "CompletedPodDeleted", outcome.message  # it is another one by now, or none
        except ApiError as error:
            return "CompletedWithError", f"the pod is saved, but could not be deleted: {error}"
        return "CompletedPodDeleted", outcome.message

    # --- status ----------------------------------------------------------------------------------

    def _teller(self, backup: Obj) -> Tell:
        async def tell(status: Obj) -> None:
            await self._write(backup, status)

        return tell

    async def _done(self, backup: Obj, outcome: Outcome, end: tuple[str, str]) -> None:
        now = format_time(self._wall())
        before = (backup.get("status") or {}).get("builtImages") or []
        status: Obj = {
            "phase": end[0],
            "message": end[1],
            "completionTime": now,
            "lastCheckpointTime": (backup.get("status") or {}).get("startTime") or now,
            "checkpointFiles": outcome.files or None,
        }
        if outcome.images:
            status["checkpointImage"] = outcome.images[0]["imageName"]
            status["builtImages"] = [*outcome.images, *before][: self._settings.kept_images]
        await self._write(backup, status)
        what = status.get("checkpointImage") or end[1] or "done"
        self._recorder.normal(backup, "CheckpointCompleted", f"pod is saved: {what}")

    async def _expired(self, backup: Obj, spec: CheckpointBackupSpec) -> None:
        seconds = spec.timeout_seconds
        await self._failed(backup, f"it took longer than {seconds} s (spec.timeoutSeconds)")

    async def _failed(self, backup: Obj, message: str) -> None:
        status = {"phase": "Failed", "message": message[:1024]}
        status["completionTime"] = format_time(self._wall())
        await self._write(backup, status)
        self._recorder.warning(backup, "CheckpointFailed", message[:1000])

    async def _write(self, backup: Obj, status: Obj, *, version: str = "") -> Obj:
        metadata: Obj = {"uid": backup["metadata"]["uid"]}
        if version:
            metadata["resourceVersion"] = version
        return await self._client.patch(
            CHECKPOINTBACKUPS,
            backup["metadata"]["name"],
            namespace=backup["metadata"]["namespace"],
            patch={"metadata": metadata, "status": status},
            subresource="status",
            field_manager=self._settings.field_manager,
        )

    # --- the end ---------------------------------------------------------------------------------

    async def _gone(self, backup: Obj) -> None:
        """It is being deleted: so is a spot job's image; that of anybody else is left to him."""
        await self._board.end(uid_of(backup))
        if not has_finalizer(backup, BACKUP_FINALIZER):
            return
        if (backup["metadata"].get("labels") or {}).get(JOB_LABEL):
            await self._remove_images(backup)
        await remove_finalizer(self._client, CHECKPOINTBACKUPS, backup, finalizer=BACKUP_FINALIZER)

    async def _remove_images(self, backup: Obj) -> None:
        spec = CheckpointBackup.read(backup).spec
        namespace = backup["metadata"]["namespace"]
        for built in (backup.get("status") or {}).get("builtImages") or ():
            image = str(built.get("imageName") or "")
            try:
                async with asyncio.timeout(self._settings.removal):
                    await self._images.delete(image, spec=spec, namespace=namespace)
            except (BackupError, TimeoutError) as error:
                about = str(error) or "the registry does not answer"
                logger.warning("%s: image %s stays: %s", key_of(backup), image, about)
