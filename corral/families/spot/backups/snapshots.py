"""Backups of spot jobs whose engine is Directory or Kubelet: by interval, on request, and how many.

One live copy is saved at a time. The names of backups are numbers in a row, so a second process, or
the same one with an old view, never makes one twice.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from corral.api.spot.kinds import CHECKPOINTBACKUPS, JOB_LABEL, SPOTINSTANCEJOBS
from corral.families.spot.backups.restores import backup_for, due, expendable, next_number
from corral.kube.errors import AlreadyExists, NotFound
from corral.kube.resources import PODS
from corral.kube.types import Obj
from corral.runtime import Manager, Result
from corral.runtime.finalizers import is_being_deleted
from corral.runtime.keys import join_key
from corral.runtime.owners import set_controller
from corral.runtime.sightings import Sightings

__all__ = ["JOB_INDEX", "SnapshotController", "index_by_job"]

JOB_INDEX: Final = "spot-job-saved"
_ENDS: Final = ("Succeeded", "Failed")


def index_by_job(obj: Obj) -> list[str]:
    """The key of the SpotInstanceJob that an object is of, by its label."""
    name = (obj["metadata"].get("labels") or {}).get(JOB_LABEL)
    return [join_key(obj["metadata"].get("namespace"), name)] if name else []


class SnapshotController:
    """Asks for backups of spot jobs."""

    def __init__(self, manager: Manager, *, wall: Callable[[], float] = time.time) -> None:
        self.jobs = manager.informer(SPOTINSTANCEJOBS)
        self.backups = manager.informer(CHECKPOINTBACKUPS)
        self.backups.add_index(JOB_INDEX, index_by_job)
        self.pods = manager.informer(PODS, label_selector=JOB_LABEL)
        self.pods.add_index(JOB_INDEX, index_by_job)
        self._client = manager.client
        self._wall = wall
        self._sightings = Sightings()

    async def reconcile(self, key: str) -> Result | None:
        """One look at one job."""
        job = self.jobs.store.get(key)
        if job is None or is_being_deleted(job):
            return None
        backups = self.backups.store.by_index(JOB_INDEX, key)
        for old in expendable(job, backups):
            if not is_being_deleted(old):
                await self._delete(old)
        if (job.get("status") or {}).get("phase") in _ENDS:
            return None
        pods = self.pods.store.by_index(JOB_INDEX, key)
        wanted = due(job, pods, backups, self._wall(), sightings=self._sightings)
        if wanted.pod is not None:
            await self._create(job, backups, wanted.pod, wanted.request)
            return None
        return Result(max(0.05, wanted.wait)) if wanted.wait is not None else None

    async def _create(self, job: Obj, backups: list[Obj], pod: Obj, request: str) -> None:
        made = backup_for(job, pod, next_number(job, backups), request=request)
        set_controller(made, SPOTINSTANCEJOBS.stamp(job))
        try:
            await self._client.create(CHECKPOINTBACKUPS, made, field_manager="corral-backups")
        except AlreadyExists:
            return  # our view is old; what was made comes with the watch

    async def _delete(self, backup: Obj) -> None:
        metadata = backup["metadata"]
        try:
            await self._client.delete(
                CHECKPOINTBACKUPS,
                metadata["name"],
                namespace=metadata["namespace"],
                uid=metadata["uid"],
            )
        except NotFound:
            return
