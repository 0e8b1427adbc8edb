"""What happens when an MPIJob is deleted: launcher, workers, the rest; then it is let go.

The launcher goes first, so that it does not start processes on workers that are about to go, nor
take their end for a failure. Whatever is gone already is not waited for, and nothing is waited for
longer than a fixed time: owner references let the garbage collector see to what is left. So
the finalizer never keeps a namespace from being deleted.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from corral.api.mpi.kinds import MPIJOBS
from corral.families.mpijob import names
from corral.families.mpijob.caches import Caches
from corral.families.mpijob.lifecycle.limits import MPISettings
from corral.kube import errors
from corral.kube.client import KubeClient
from corral.kube.resources import JOBS, PODS, Resource
from corral.kube.types import Obj
from corral.runtime import (
    ChildWriter,
    Result,
    has_finalizer,
    is_being_deleted,
    is_controlled_by,
    remove_finalizer,
)
from corral.runtime.family.batches import at_once, in_batches
from corral.runtime.pods.states import moment
from corral.runtime.sightings import Sightings

__all__ = ["Teardown"]

logger = logging.getLogger(__name__)

_LOOK_AGAIN: Final = 2.0
"""Seconds until the next look; the end of a pod wakes us as well."""
_ORPHAN: Final = "orphan"
"""The finalizer of a deletion that is to leave everything behind."""


class Teardown:
    """Of all jobs of one operator."""

    def __init__(
        self,
        client: KubeClient,
        caches: Caches,
        settings: MPISettings,
        *,
        wall: Callable[[], float],
    ) -> None:
        self._client = client
        self._caches = caches
        self._settings = settings
        self._writer = ChildWriter(client, field_manager=settings.field_manager)
        self._wall = wall
        self._sightings = Sightings()

    async def step(self, job: Obj) -> Result | None:
        """Go on with a job that is being deleted; None when there is nothing left to do.

        Raises:
            Conflict: the job has changed since it was read.
            ApiError, KubeConnectionError: something that may pass.
        """
        if not has_finalizer(job, names.FINALIZER):
            return None
        if _ORPHAN not in job["metadata"]["finalizers"]:
            asked = moment(job["metadata"]["deletionTimestamp"]) or 0.0
            patience = self._settings.teardown_patience
            left = self._sightings.left(asked, patience, now=self._wall())
            if await self._remove_launcher(job) and left > 0:
                return Result(min(left, _LOOK_AGAIN))
            if await self._remove_workers(job):
                if left > 0:
                    return Result(min(left, _LOOK_AGAIN))
                await self._strike_off(job)
            await self._remove_rest(job)
        await self._release(job)
        return None

    async def _remove_launcher(self, job: Obj) -> bool:
        """Whether there is still something of it."""
        metadata = job["metadata"]
        name = names.launcher_name(metadata["name"])
        launcher = self._caches.child(JOBS, metadata["namespace"], name)
        ours = launcher is not None and is_controlled_by(launcher, job)
        if launcher is not None and ours and not is_being_deleted(launcher):
            await self._delete(JOBS, launcher)
        pods = self._caches.launcher_pods(job) if ours or launcher is None else []
        await self._delete_pods(pods)
        return ours or bool(pods)

    async def _remove_workers(self, job: Obj) -> bool:
        """Whether there still are any."""
        workers = self._caches.controlled(job)
        await self._delete_pods(workers)
        return bool(workers)

    async def _strike_off(self, job: Obj) -> None:
        """Workers whose node is dead would keep their names from the next job for ever."""
        workers = self._caches.controlled(job)
        dead, _ = self._caches.dead_nodes(workers)
        lost = [
            pod
            for pod in workers
            if pod["spec"].get("nodeName") in dead
            and pod["metadata"].get("deletionGracePeriodSeconds")
        ]
        await in_batches(
            lambda pod: self._delete(PODS, pod, grace_seconds=0),
            lost,
            limit=self._settings.pod_concurrency,
        )

    async def _delete_pods(self, pods: list[Obj]) -> None:
        doomed = [pod for pod in pods if not is_being_deleted(pod)]
        await in_batches(
            lambda pod: self._delete(PODS, pod), doomed, limit=self._settings.pod_concurrency
        )

    async def _remove_rest(self, job: Obj) -> None:
        """All that the names of a job may stand for; what is not in the cache is collected."""
        namespace, name = job["metadata"]["namespace"], job["metadata"]["name"]
        known = (name, names.config_map_name(name), names.secret_name(name))
        rest: list[tuple[Resource, Obj]] = []
        for resource in self._caches.children:
            for one in (*known, names.launcher_name(name)):
                found = self._caches.child(resource, namespace, one)
                if found and is_controlled_by(found, job) and not is_being_deleted(found):
                    rest.append((resource, found))
        await at_once(lambda found: self._delete(*found), rest)

    async def _delete(
        self, resource: Resource, obj: Obj, *, grace_seconds: int | None = None
    ) -> None:
        try:
            await self._writer.delete(resource, obj, grace_seconds=grace_seconds)
        except errors.Conflict:
            logger.debug("%s has another %s by now", obj["metadata"]["name"], resource.kind)

    async def _release(self, job: Obj) -> None:
        await remove_finalizer(
            self._client,
            MPIJOBS,
            job,
            finalizer=names.FINALIZER,
            field_manager=self._settings.field_manager,
        )
