"""Reconciler: watches MPIJobs and what belongs to them, and has each looked at when it should.

A job is looked at when its spec, labels or annotations change, when one of its pods or its launcher
gets on, when one of its other objects was changed, when a wait is over, and every ``resync``
seconds until it is over. What goes wrong with one job stays with it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from corral.api.mpi.kinds import MPIJOBS
from corral.families.mpijob.caches import Caches, index_by_job
from corral.families.mpijob.lifecycle.cleanup import Teardown
from corral.families.mpijob.lifecycle.events import COMPONENT
from corral.families.mpijob.lifecycle.job import JobController
from corral.families.mpijob.lifecycle.limits import MPISettings
from corral.families.mpijob.lifecycle.reporting import Teller
from corral.families.mpijob.lifecycle.run import Tools
from corral.families.mpijob.lifecycle.status import is_over
from corral.families.mpijob.metrics import MPIMetrics
from corral.families.mpijob.objects.resources import ResourceController
from corral.families.mpijob.view import is_managed_elsewhere
from corral.kube.types import Obj
from corral.runtime import (
    Change,
    ConsistencyStore,
    Manager,
    Result,
    ignore_creates,
    is_being_deleted,
    mapped,
    owner_by_uid,
    spec_or_metadata_changed,
)
from corral.runtime.family.statuses import StatusController
from corral.runtime.pods.states import is_ready, unschedulable_since

__all__ = ["Reconciler", "register"]


class Reconciler:
    """Finds the job for a key, and lets the JobController work on it."""

    def __init__(
        self,
        manager: Manager,
        settings: MPISettings,
        *,
        wall: Callable[[], float] = time.time,
    ) -> None:
        client = manager.client
        self.caches = Caches(manager, settings)
        self.metrics = MPIMetrics(manager.metrics.registry) if manager.metrics else None
        self._settings = settings
        self._written = ConsistencyStore({MPIJOBS: self.caches.jobs})
        self._teardown = Teardown(client, self.caches, settings, wall=wall)
        statuses = StatusController(
            client, MPIJOBS, self._written, field_manager=settings.field_manager
        )
        tools = Tools(
            client,
            self.caches,
            resources=ResourceController(client, self.caches, settings),
            teller=Teller(statuses, manager.recorder(COMPONENT), self.metrics),
            written=self._written,
            settings=settings,
            wall=wall,
        )
        self._controller = JobController(tools)

    async def reconcile(self, key: str) -> Result | None:
        """One look at one job."""
        self._written.ensure_ready(key)
        self.caches.consistency.ensure_ready(key)
        found = self.caches.jobs.store.get(key)
        if found is None:
            self._written.clear(key)
            self.caches.consistency.clear(key)
            self._controller.forget(key)
            return None
        job = MPIJOBS.stamp(found)
        if is_being_deleted(job):
            self._controller.say_deleted(job)
            return await self._teardown.step(job)
        if is_managed_elsewhere(job):
            return None
        result = await self._controller.sync(job)
        if result is None or (not result.requeue_after and is_over(job.get("status") or {})):
            if is_over(job.get("status") or {}):
                self._controller.rest(key)
            return None
        return Result(min(result.requeue_after or self._settings.resync, self._settings.resync))


def register(
    manager: Manager, settings: MPISettings, *, wall: Callable[[], float] = time.time
) -> None:
    """Add the controller of MPIJobs to a manager."""
    reconciler = Reconciler(manager, settings, wall=wall)
    caches = reconciler.caches
    controller = manager.controller(
        "mpijob", reconciler.reconcile, workers=settings.workers, timeout=settings.timeout
    )
    controller.watch(caches.jobs, when=spec_or_metadata_changed)
    controller.watch(
        caches.pods,
        mapped(index_by_job),
        when=_gets_on,
        after=lambda change: settings.batch_interval if _is_progress(change) else 0.0,
    )
    owner = owner_by_uid(caches.jobs)
    for informer in caches.children.values():
        controller.watch(informer, owner, when=ignore_creates)
    if reconciler.metrics is not None:
        manager.add_task("mpijob leadership", reconciler.metrics.lead)


def _gets_on(change: Change) -> bool:
    """Whether a change of a pod is one that a job takes notice of."""
    if change.is_initial or change.type == "deleted":
        return True
    before = (
        _condition_of(change.old)
        if change.old is not None
        else ("Pending", "", "", False, False, 0)
    )
    return change.new is not None and _condition_of(change.new) != before


def _is_progress(change: Change) -> bool:
    """Whether a pod begins, runs or ends as it should: others of its job are about to as well."""
    pod = change.new
    if change.is_initial or change.old is None or pod is None or is_being_deleted(pod):
        return False
    return (pod.get("status") or {}).get("phase") != "Failed" and not _has_restarted(change)


def _has_restarted(change: Change) -> bool:
    states = [_condition_of(pod)[-1] for pod in (change.old, change.new) if pod is not None]
    return len(set(states)) > 1


def _condition_of(pod: Obj) -> tuple[Any, ...]:
    status = pod.get("status") or {}
    restarts = sum(
        int(found.get("restartCount") or 0) for found in status.get("containerStatuses") or ()
    )
    return (
        status.get("phase") or "Pending",
        status.get("reason") or "",
        pod["metadata"].get("deletionTimestamp") or "",
        is_ready(pod),
        unschedulable_since(pod) is not None,
        restarts,
    )
