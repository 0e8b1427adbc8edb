"""Reconciler: watches TrainingJobs and what belongs to them, and has each looked at when it should.

A job is looked at when its spec, labels or annotations change, when one of its pods, Checkpoints or
other objects does, when a wait is over, and every ``resync`` seconds. Changes of its status alone
(progress, mostly) wake nobody. Errors: an invalid spec is shown in the status and not tried again
before it changes; conflicts are tried again with what the cache has by then; all others again with
growing waits.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from corral.api.training.kinds import CHECKPOINTS, TRAININGJOBS
from corral.families.trainingjob.caches import Caches
from corral.families.trainingjob.checkpoints.summaries import JOB_INDEX, index_by_job
from corral.families.trainingjob.lifecycle.job import JobController
from corral.families.trainingjob.lifecycle.limits import RunLimits
from corral.families.trainingjob.metrics import TrainingMetrics
from corral.families.trainingjob.objects.resources import ResourceController
from corral.families.trainingjob.settings import TrainingSettings
from corral.kube.types import Obj
from corral.runtime import (
    Change,
    ChildWriter,
    ConsistencyStore,
    Manager,
    Result,
    ignore_creates,
    is_being_deleted,
    join_key,
    key_of,
    mapped,
    owner_by_uid,
    spec_or_metadata_changed,
)
from corral.runtime.family.statuses import StatusController

__all__ = ["COMPONENT", "Reconciler", "register"]

COMPONENT = "corral-trainingjob"
_YIELD = 0.02
"""Seconds that what is only said waits for each job with something to do."""
_MOST_PATIENCE = 1.0


class Reconciler:
    """Finds the job for a key, and lets the JobController work on it."""

    def __init__(
        self,
        manager: Manager,
        settings: TrainingSettings,
        *,
        limits: RunLimits | None = None,
        wall: Callable[[], float] = time.time,
    ) -> None:
        client, recorder = manager.client, manager.recorder(COMPONENT)
        self.caches = Caches(manager)
        self.checkpoints = manager.informer(CHECKPOINTS)
        self.checkpoints.add_index(JOB_INDEX, index_by_job)
        self._settings = settings
        self._written = ConsistencyStore({TRAININGJOBS: self.caches.jobs})
        metrics = manager.metrics
        self._controller = JobController(
            client,
            self.caches,
            resources=ResourceController(manager, settings, recorder=recorder, caches=self.caches),
            statuses=StatusController(
                client, TRAININGJOBS, self._written, field_manager=settings.field_manager
            ),
            writer=ChildWriter(
                client,
                field_manager=settings.field_manager,
                consistency=self.caches.consistency,
            ),
            recorder=recorder,
            settings=settings,
            limits=limits or RunLimits(),
            metrics=TrainingMetrics(metrics.registry, self.caches.jobs) if metrics else None,
            wall=wall,
        )

    async def reconcile(self, key: str) -> Result | None:
        """One look at one job."""
        self._written.ensure_ready(key)
        self.caches.consistency.ensure_ready(key)
        job = self.caches.jobs.store.get(key)
        if job is None or is_being_deleted(job):
            # Its objects go with it: they have owner references.
            self._written.clear(key)
            self.caches.consistency.clear(key)
            self._controller.forget(key)
            return None
        result = await self._controller.sync(job, self._checkpoints_of(job))
        if result is None:
            return None
        after = min(result.requeue_after or self._settings.resync, self._settings.resync)
        return Result(after)

    def _checkpoints_of(self, job: Obj) -> list[Obj]:
        """Those of the job, and the one that it is to start from."""
        found = self.checkpoints.store.by_index(JOB_INDEX, key_of(job))
        restore = (job["spec"].get("checkpoint") or {}).get("restore") or {}
        named = self.checkpoints.store.get(
            join_key(job["metadata"]["namespace"], restore.get("from") or "")
        )
        return found if named is None or named in found else [*found, named]


def register(
    manager: Manager,
    settings: TrainingSettings,
    *,
    limits: RunLimits | None = None,
    wall: Callable[[], float] = time.time,
) -> None:
    """Add the controller of TrainingJobs to a manager."""
    reconciler = Reconciler(manager, settings, limits=limits, wall=wall)
    caches = reconciler.caches
    controller = manager.controller(
        "trainingjob", reconciler.reconcile, workers=settings.workers, timeout=settings.timeout
    )
    controller.watch(caches.jobs, when=spec_or_metadata_changed)
    controller.watch(
        caches.pods,
        owner_by_uid(caches.jobs),
        after=lambda change: _patience(change, len(controller.queue)),
    )
    for informer in caches.children.values():
        controller.watch(informer, owner_by_uid(caches.jobs), when=ignore_creates)
    controller.watch(reconciler.checkpoints, mapped(index_by_job))


def _patience(change: Change, waiting: int) -> float:
    """Seconds that a pod's coming and starting may wait for more of it: none with nothing to do.

    Where many jobs wait for their pods, they come before what is said about those that have them.
    """
    pod = change.object
    if change.type == "deleted" or is_being_deleted(pod):
        return 0.0
    if (pod.get("status") or {}).get("phase") not in (None, "Pending", "Running"):
        return 0.0
    return min(waiting * _YIELD, _MOST_PATIENCE)
