"""Reconciler of FederatedJobs: looks at a job when it or its round changes."""

from __future__ import annotations

import time
from collections.abc import Callable

from corral.api.propeller.kinds import FEDERATEDJOBS, TRAININGROUNDS, WASMTASKS
from corral.families.federated.jobs.job import JobController, StillThere
from corral.families.federated.learning import LearningSettings
from corral.families.federated.reconciles import counted
from corral.families.federated.view import is_over, status_of
from corral.kube import errors
from corral.runtime import (
    Change,
    ChildWriter,
    ConsistencyStore,
    Manager,
    Result,
    ignore_creates,
    is_being_deleted,
    owner_by_uid,
    spec_changed,
)
from corral.runtime.family.statuses import StatusController

__all__ = ["COMPONENT", "Reconciler", "register"]

COMPONENT = "corral-federated"
CALM = 0.25
"""Seconds for which news of a round that is on may gather."""


class Reconciler:
    """Finds the job for a key, and lets the JobController work on it."""

    def __init__(
        self, manager: Manager, settings: LearningSettings, *, wall: Callable[[], float]
    ) -> None:
        self.jobs = manager.informer(FEDERATEDJOBS)
        self.rounds = manager.informer(TRAININGROUNDS)
        self.tasks = manager.informer(WASMTASKS)
        self._settings = settings
        caches = {FEDERATEDJOBS: self.jobs, TRAININGROUNDS: self.rounds}
        self._written = ConsistencyStore(caches)
        client, manager_name = manager.client, settings.field_manager
        self._controller = JobController(
            client,
            self.rounds,
            self.tasks,
            writer=ChildWriter(client, field_manager=manager_name, consistency=self._written),
            statuses=StatusController(
                client, FEDERATEDJOBS, self._written, field_manager=manager_name
            ),
            recorder=manager.recorder(COMPONENT),
            wall=wall,
        )

    async def reconcile(self, key: str) -> Result | None:
        """One look at one job."""
        self._written.ensure_ready(key)
        job = self.jobs.store.get(key)
        if job is None or is_being_deleted(job):
            # Its rounds go with it: they have owner references.
            self._written.clear(key)
            return None
        try:
            await self._controller.sync(job)
        except StillThere:
            return Result(1.0)
        except errors.NotFound:
            return Result(0.05)  # it is gone, or a round is: look again
        return None if is_over(job) else Result(self._settings.resync)


def register(
    manager: Manager, settings: LearningSettings, *, wall: Callable[[], float] = time.time
) -> None:
    """Add the controller of FederatedJobs to a manager."""
    reconciler = Reconciler(manager, settings, wall=wall)
    controller = manager.controller(
        "federatedjob",
        counted(manager, "federatedjob", reconciler.reconcile),
        workers=settings.workers,
    )
    controller.watch(reconciler.jobs, when=spec_changed)
    controller.watch(
        reconciler.rounds, owner_by_uid(reconciler.jobs), when=ignore_creates, after=_patience
    )
    controller.informers.append(reconciler.tasks)


def _patience(change: Change) -> float:
    """A round that is over is news at once."""
    if change.old is None or change.new is None:
        return 0.0
    old, new = status_of(change.old), status_of(change.new)
    return CALM if old.get("phase") == new.get("phase") else 0.0
