"""CheckpointController: retention, and the deletion of data before that of its object.

Two queues. *Retention* looks at a job: what its policy does not keep is deleted, as an object; what
writers left in its store is swept now and then. *Data* looks at a Checkpoint that is going and has
its data deleted first (`checkpoint_data`).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from corral.api.training.kinds import CHECKPOINTS
from corral.checkpoints.collect import collect
from corral.checkpoints.errors import CheckpointError
from corral.checkpoints.errors import NotFound as NoSuchData
from corral.checkpoints.findings import Damaged
from corral.checkpoints.manifest import Manifest
from corral.checkpoints.places import Place, PlaceRefused, StoreRules
from corral.families.trainingjob.caches import Caches
from corral.families.trainingjob.checkpoints.credentials import CredentialsMissing
from corral.families.trainingjob.checkpoints.data import DataRemover
from corral.families.trainingjob.checkpoints.objects import CheckpointObjects
from corral.families.trainingjob.checkpoints.places import checkpoint_place, job_place
from corral.families.trainingjob.checkpoints.retention import (
    Graces,
    expired,
    is_finished,
    named_as_start,
)
from corral.families.trainingjob.checkpoints.stores import Stores
from corral.families.trainingjob.checkpoints.summaries import (
    FINALIZER,
    JOB_INDEX,
    index_by_job,
    phase_of,
)
from corral.families.trainingjob.settings import TrainingSettings
from corral.kube.types import Obj
from corral.runtime import (
    Change,
    Manager,
    Result,
    generation_changed,
    has_finalizer,
    is_being_deleted,
    key_of,
    mapped,
    metadata_changed,
    split_key,
    uid_of,
)
from corral.runtime.sightings import Sightings

__all__ = ["CheckpointController", "CheckpointSettings", "register"]

logger = logging.getLogger(__name__)

COMPONENT: Final = "corral-checkpoints"


@dataclass(frozen=True, slots=True)
class CheckpointSettings:
    """Seconds."""

    graces: Graces = field(default_factory=Graces)
    sweep_every: float = 3600.0
    """How often the store of a job is swept."""
    wait_for_pod: float = 30.0
    """How often to look whether the job's own pod has deleted what it was told to."""
    retry_after: float = 60.0
    """Until a store that did not answer is asked again about what is half written."""
    workers: int = 4


class CheckpointController:
    """Looks after the Checkpoints of all jobs."""

    def __init__(
        self,
        manager: Manager,
        stores: Stores,
        *,
        training: TrainingSettings | None = None,
        settings: CheckpointSettings | None = None,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.caches = Caches(manager)
        self.checkpoints = manager.informer(CHECKPOINTS)
        self.checkpoints.add_index(JOB_INDEX, index_by_job)
        self._recorder = manager.recorder(COMPONENT)
        self._stores = stores
        self._objects = CheckpointObjects(manager.client, clock=wall)
        self._settings = settings or CheckpointSettings()
        self._wall = wall
        self.data = DataRemover(
            manager,
            stores,
            objects=self._objects,
            recorder=self._recorder,
            restricted_user=(training or TrainingSettings()).restricted_user,
            wait_for_pod=self._settings.wait_for_pod,
        )
        self._sightings = Sightings()
        self._swept: dict[str, float] = {}
        """Job UID → when its store was last swept by this process."""

    # --- retention -------------------------------------------------------------------------------

    async def retain(self, key: str) -> Result | None:
        """One look at the Checkpoints of one job."""
        job = self.caches.jobs.store.get(key)
        if job is None or is_being_deleted(job):
            await self._abandon(key, job)
            return None
        namespace = split_key(key)[0]
        own = self.checkpoints.store.by_index(JOB_INDEX, key)
        # Most jobs have none; then it need not be asked which ones others start from.
        others = self.caches.jobs.store.objects(namespace) if own else ()
        verdict = expired(
            job,
            own,
            now=self._wall(),
            pinned=named_as_start(others),
            graces=self._settings.graces,
            sightings=self._sightings,
        )
        waits = [verdict.wake]
        for checkpoint, why in verdict.delete:
            if not await self._retire(checkpoint):
                waits.append(self._settings.retry_after)
                continue
            name = checkpoint["metadata"]["name"]
            self._recorder.normal(job, "CheckpointExpired", f"checkpoint {name} goes: {why}")
        waits.append(await self._sweep(job))
        known = [wait for wait in waits if wait is not None]
        return Result(max(0.001, min(known))) if known else None

    async def _abandon(self, key: str, job: Obj | None) -> None:
        """Nobody will complete what a job that is gone was writing."""
        for checkpoint in self.checkpoints.store.by_index(JOB_INDEX, key):
            going = is_being_deleted(checkpoint) or not has_finalizer(checkpoint, FINALIZER)
            if phase_of(checkpoint) == "Writing" and not going:
                await self._retire(checkpoint)
        if job is not None:
            self._swept.pop(uid_of(job), None)

    async def _retire(self, checkpoint: Obj) -> bool:
        """Delete one, unless it turns out to be complete; whether it goes.

        An operator may die after the manifest was written and before the object said so.
        """
        if phase_of(checkpoint) == "Writing":
            try:
                manifest = await self._published(checkpoint)
            except (CheckpointError, CredentialsMissing) as error:
                logger.warning("%s stays for now: %s", key_of(checkpoint), error)
                return False
            if manifest is not None:
                await self._objects.ready(checkpoint, manifest)
                return False
        await self._objects.delete(checkpoint)
        return True

    async def _published(self, checkpoint: Obj) -> Manifest | None:
        """The manifest in the store, if there is one."""
        try:
            place, identifier = checkpoint_place(checkpoint, self._stores.rules)
            if place is None:
                return None
            opened = await self._stores.open(checkpoint["metadata"]["namespace"], place)
            return await self._stores.call(opened.repository.get, identifier)
        except (PlaceRefused, Damaged, NoSuchData):
            return None

    async def _sweep(self, job: Obj) -> float | None:
        """Remove what writers left in the job's store; seconds until the next time."""
        settings, now, uid = self._settings, self._wall(), uid_of(job)
        last = self._swept.get(uid)
        if job["spec"].get("checkpoint") is None or (last is not None and is_finished(job)):
            return None
        if last is not None and 0 <= now - last < settings.sweep_every:
            return settings.sweep_every - (now - last)
        self._swept[uid] = now
        if last is None and not is_finished(job):
            return settings.sweep_every  # a job that has just begun has left nothing
        try:
            place = job_place(job, self._stores.rules)
            if place is not None:
                await self._collect(job, place)
        except (PlaceRefused, CredentialsMissing, CheckpointError) as error:
            logger.warning("the store of %s was not swept: %s", key_of(job), error)
        return None if is_finished(job) else settings.sweep_every

    async def _collect(self, job: Obj, place: Place) -> None:
        opened = await self._stores.open(job["metadata"]["namespace"], place)
        graces = self._settings.graces
        removed = await self._stores.call(
            collect,
            opened.repository,
            orphan_grace=graces.orphan,
            quarantine_grace=graces.quarantine,
        )
        if removed:
            logger.info("%s: removed what was left of %s", key_of(job), ", ".join(removed))


def register(
    manager: Manager,
    settings: TrainingSettings,
    *,
    rules: StoreRules | None = None,
    stores: Stores | None = None,
    checkpoints: CheckpointSettings | None = None,
    wall: Callable[[], float] = time.time,
) -> CheckpointController:
    """Add the controllers of Checkpoints to a manager.

    ``rules`` must be those of the report endpoint; ``stores`` may be given instead of them, and
    are then closed by whoever made them.
    """
    if stores is None:
        rules = rules or StoreRules(local_root=settings.local_root)
        stores = Stores(manager.client, rules=rules)
        manager.add_task("stores of checkpoints", stores.closing)
    own = checkpoints or CheckpointSettings()
    controller = CheckpointController(manager, stores, training=settings, settings=own, wall=wall)
    retention = manager.controller(
        "checkpoint-retention", controller.retain, workers=own.workers, timeout=settings.timeout
    )
    retention.watch(controller.caches.jobs, when=_concerns_retention)
    retention.watch(controller.checkpoints, mapped(index_by_job))
    data = manager.controller(
        "checkpoint-data", controller.data.finalize, workers=own.workers, timeout=settings.timeout
    )
    data.watch(controller.checkpoints)
    data.watch(controller.data.janitors, mapped(controller.data.pending_of_janitor))
    # a pod that ends cannot delete what it was told to
    data.watch(
        controller.caches.jobs, mapped(controller.data.pending_of_job), when=_concerns_retention
    )
    return controller


def _concerns_retention(change: Change) -> bool:
    if change.is_initial or generation_changed(change) or metadata_changed(change):
        return True
    old, new = change.old or {}, change.new or {}
    watched = ("attempt", "phase")
    return any(
        (old.get("status") or {}).get(name) != (new.get("status") or {}).get(name)
        for name in watched
    )
