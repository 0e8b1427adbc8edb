"""The controller of SpotInstanceJobs: fetch, decide (`jobs_state`), write, do (`jobs_actions`).

The status is written before anything is done about it, and says everything that is to be done: an
operator that is killed between any two writes finds it there. Machines are made and deleted by
their own controller, which reads the placements of the status as wishes; what it tells of them
comes back through SpotInstanceVMs.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Final

from corral.api.spot.kinds import (
    CHECKPOINTBACKUPS,
    JOB_FINALIZER,
    JOB_LABEL,
    SPOTINSTANCEJOBS,
    SPOTINSTANCEVMS,
    SpotInstanceJob,
)
from corral.families.spot.backups.restores import images_of
from corral.families.spot.jobs.actions import Actions, actions
from corral.families.spot.jobs.changes import EVENTS, News, learn
from corral.families.spot.jobs.conditions import refuse
from corral.families.spot.jobs.memories import Memories
from corral.families.spot.jobs.observation import is_over
from corral.families.spot.jobs.replicas import attempt_of, copy_job, replica_of
from corral.families.spot.jobs.reported import asks_for_checkpoint
from corral.families.spot.jobs.state import Outcome, Step
from corral.families.spot.jobs.storage import StorageProblem, StorageSettings, storage_for
from corral.families.spot.jobs.view import World
from corral.families.spot.jobs.wiring import Uptimes, job_of, mappers, node_matters
from corral.families.spot.machines.requested import machines_named
from corral.families.spot.metrics import JobMetrics
from corral.families.spot.settings import SpotSettings
from corral.kube.errors import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Invalid,
    NotFound,
)
from corral.kube.resources import JOBS, NODES, PODS
from corral.kube.types import Obj
from corral.runtime import (
    ChildWriter,
    ConsistencyStore,
    Manager,
    NotYetConsistent,
    Result,
    add_finalizer,
    format_time,
    is_being_deleted,
    join_key,
    key_of,
    mapped,
    remove_finalizer,
    split_key,
    uid_of,
)
from corral.runtime.family.statuses import StatusController
from corral.runtime.owners import is_controlled_by
from corral.runtime.sightings import Sightings
from corral.spot import Memory

__all__ = ["JobReconciler", "register"]

logger = logging.getLogger(__name__)

COMPONENT: Final = "corral-spot"


@dataclass(slots=True)
class _Known:
    """What is worth knowing of a job from one look to the next; safe to lose."""

    uid: str
    problem: tuple[int | None, str] = (None, "")
    """The generation, and what is wrong with it."""
    reviews: dict[int, float] = field(default_factory=dict)
    """By copy: when its machine is to be thought about again."""
    charged: float = 0.0
    """When costs were written last."""


class JobReconciler:
    """Looks at one job after another."""

    def __init__(
        self,
        manager: Manager,
        settings: SpotSettings,
        *,
        wall: Callable[[], float] = time.time,
    ) -> None:
        client = manager.client
        self._client = client
        self._settings = settings
        self._storage = StorageSettings(
            local_root=settings.local_root,
            report_url=settings.report_url,
            report_ca=settings.report_ca,
            courier_image=settings.courier_image,
            registries=settings.registries,
        )
        self._wall = wall
        self._sightings = Sightings()
        self.jobs = manager.informer(SPOTINSTANCEJOBS)
        self.vms = manager.informer(SPOTINSTANCEVMS)
        self.copies = manager.informer(JOBS, label_selector=JOB_LABEL)
        self.pods = manager.informer(PODS, label_selector=JOB_LABEL)
        self.nodes = manager.informer(NODES)
        self.backups = manager.informer(CHECKPOINTBACKUPS)
        for informer in (self.copies, self.pods, self.backups):
            informer.add_index("spot-job", job_of)
        self._written = ConsistencyStore({SPOTINSTANCEJOBS: self.jobs, JOBS: self.copies})
        self._recorder = manager.recorder(COMPONENT)
        self._writer = ChildWriter(
            client, field_manager=settings.field_manager, consistency=self._written
        )
        self._statuses = StatusController(
            client, SPOTINSTANCEJOBS, self._written, field_manager=settings.field_manager
        )
        self._memories = Memories(
            client, field_manager=settings.field_manager, clock=time.monotonic
        )
        self._metrics = JobMetrics(manager.metrics.registry) if manager.metrics else None
        self._uptimes = Uptimes()
        self._known: dict[str, _Known] = {}

    async def reconcile(self, key: str) -> Result | None:
        """One look at one job."""
        self._written.ensure_ready(key)
        found = self.jobs.store.get(key)
        if found is None:
            self._forget(key)
            return None
        job = SPOTINSTANCEJOBS.stamp(found)
        try:
            if is_being_deleted(job):
                return await self._delete(job)
            job = await self._hold(job)
            problem = self._problem(job)
            if problem and not is_over(job):
                return await self._refuse(job, problem)
            return await self._look(job)
        except NotFound:
            return None

    def _problem(self, job: Obj) -> str:
        """Why the job cannot be run as it is; by the rules of the webhooks, and of this cluster."""
        known, generation = self._of(job), job["metadata"].get("generation")
        if known.problem[0] is None or known.problem[0] != generation:
            known.problem = (generation, self._problem_of(job))
        return known.problem[1]

    def _of(self, job: Obj) -> _Known:
        key, uid = key_of(job), uid_of(job)
        known = self._known.get(key)
        if known is None or known.uid != uid:
            known = self._known[key] = _Known(uid)
        return known

    def _problem_of(self, job: Obj) -> str:
        found = SpotInstanceJob.validate(job)
        if found:
            return "; ".join(str(each) for each in found)
        try:
            storage_for(job, 0, 0, settings=self._storage)
        except StorageProblem as problem:
            return str(problem)
        return ""

    # --- a look ----------------------------------------------------------------------------------

    async def _look(self, job: Obj) -> Result | None:
        world, now, known = self._world(job), self._wall(), self._of(job)
        namespace = job["metadata"]["namespace"]
        memory = await self._memories.of(namespace)
        step = Step(
            world,
            memory,
            now=now,
            settings=self._settings,
            reviews=known.reviews,
            sightings=self._sightings,
        )
        self._memories.price(namespace, step.market.told, now=now)
        for placement, seconds in self._uptimes.since(job, now=now):
            memory.ran(step.offer(placement), seconds, now)
            self._memories.changed(namespace)
        outcome = step.run()
        written = await self._write(job, outcome, now=now)
        known.reviews = outcome.reviews
        if written is not None:
            self._tell(written, outcome.news, now=now)
            if learn(memory, outcome.news, step.market, now=now):
                self._memories.changed(namespace)
            job = written
        wanted = actions(outcome.status, world, now=now, settings=self._settings)
        await self._do(job, wanted)
        try:
            await self._memories.keep(namespace)
        except ApiError as error:
            logger.warning("%s: what was learnt is not kept: %s", namespace, error)
        return Result(max(outcome.review_at - self._wall(), 0.01))

    def _world(self, job: Obj) -> World:
        namespace = job["metadata"]["namespace"]
        key = join_key(namespace, job["metadata"]["name"])
        names = [join_key(namespace, name) for name in machines_named(job)]
        vms = [vm for name in names if (vm := self.vms.store.get(name)) is not None]
        jobs = [JOBS.stamp(each) for each in self.copies.store.by_index("spot-job", key)]
        jobs = [each for each in jobs if is_controlled_by(each, job)]
        owners = {uid_of(each) for each in jobs}
        pods = self.pods.store.by_index("spot-job", key)
        return World.of(
            job,
            vms=[SPOTINSTANCEVMS.stamp(vm) for vm in vms],
            jobs=jobs,
            pods=[pod for pod in pods if _owner(pod) in owners],
            nodes=self.nodes.store,
            backups=self._backups(job),
        )

    def _backups(self, job: Obj) -> list[Obj]:
        metadata = job["metadata"]
        key = join_key(metadata["namespace"], metadata["name"])
        return list(self.backups.store.by_index("spot-job", key))

    async def _write(self, job: Obj, outcome: Outcome, *, now: float) -> Obj | None:
        """The job with its new status; None where nothing but costs would have changed."""
        known = self._of(job)
        due = abs(now - known.charged) >= self._settings.cost_period
        if not due and _bare(outcome.status) == _bare(job.get("status") or {}):
            return None
        written = await self._statuses.write(job, outcome.status)
        known.charged = now
        return written

    def _tell(self, job: Obj, news: Sequence[News], *, now: float) -> None:
        for each in news:
            if each.kind in EVENTS:
                kind, reason = EVENTS[each.kind]
                tell = self._recorder.warning if kind == "Warning" else self._recorder.normal
                tell(job, reason, each.message)
        if self._metrics is not None:
            self._metrics.told(job, news, now=now)
            self._metrics.shown(job, job.get("status") or {})

    # --- what is done ----------------------------------------------------------------------------

    async def _do(self, job: Obj, wanted: Actions) -> None:
        for pod, grace in wanted.pods:
            await self._writer.delete(PODS, pod, propagation=None, grace_seconds=grace)
        for entry in wanted.starts:
            await self._start(job, entry)
        for each in wanted.jobs:
            await self._writer.delete(JOBS, each)
        for pod, request in wanted.requests:
            with suppress(NotFound):
                await self._client.patch(
                    PODS,
                    pod["metadata"]["name"],
                    namespace=pod["metadata"]["namespace"],
                    patch=asks_for_checkpoint(request),
                    field_manager=self._settings.field_manager,
                )

    async def _start(self, job: Obj, entry: Obj) -> None:
        replica, attempt = int(entry["replica"]), int(entry["attempt"])
        storage = storage_for(
            job,
            replica,
            attempt,
            settings=self._storage,
            interval=(job.get("status") or {}).get("checkpointIntervalSeconds"),
            restore_images=images_of(job, self._backups(job)),
        )
        made = copy_job(
            job,
            replica,
            attempt,
            node=str(entry.get("nodeName") or ""),
            storage=storage,
            restored_from=self._before(job, replica),
        )
        try:
            await self._writer.create(job, JOBS, made)
        except AlreadyExists:
            raise NotYetConsistent(JOBS, self.copies.version, "unknown") from None
        except (BadRequest, Invalid) as error:
            # the template is wrong: no machine would help
            world, now = self._world(job), self._wall()
            step = Step(world, Memory(), now=now, settings=self._settings)
            outcome = step.fail(f"copy {replica} cannot be made: {error}")
            job = await self._statuses.write(job, outcome.status)
            self._tell(job, outcome.news, now=now)

    def _before(self, job: Obj, replica: int) -> str:
        """The newest Job of a copy that is still there; empty where it has none."""
        key = join_key(job["metadata"]["namespace"], job["metadata"]["name"])
        known = self.copies.store.by_index("spot-job", key)
        own = [each for each in known if replica_of(each) == replica]
        newest = max(own, key=attempt_of, default=None)
        return str(newest["metadata"]["name"]) if newest is not None else ""

    # --- what is not run -------------------------------------------------------------------------

    async def _hold(self, job: Obj) -> Obj:
        """Before anything is made outside the cluster."""
        if is_over(job):
            return job
        return await add_finalizer(
            self._client,
            SPOTINSTANCEJOBS,
            job,
            finalizer=JOB_FINALIZER,
            field_manager=self._settings.field_manager,
        )

    async def _refuse(self, job: Obj, message: str) -> Result | None:
        status = deepcopy(job.get("status") or {})
        generation = job["metadata"].get("generation")
        status["observedGeneration"] = generation
        refuse(status, message, now=format_time(self._wall()), generation=generation)
        written = await self._statuses.write(job, status)
        if written is not job:
            self._recorder.warning(job, "Invalid", message)
        return Result(self._settings.resync)

    async def _delete(self, job: Obj) -> Result | None:
        """Copies are stopped and machines given back; the job goes when those are gone."""
        if JOB_FINALIZER not in (job["metadata"].get("finalizers") or ()):
            return None
        world, now = self._world(job), self._wall()
        memory = await self._memories.of(job["metadata"]["namespace"])
        outcome = Step(world, memory, now=now, settings=self._settings).delete()
        if _bare(outcome.status) != _bare(job.get("status") or {}):
            job = await self._statuses.write(job, outcome.status)
        for each in world.jobs.values():
            if not is_being_deleted(each):
                await self._writer.delete(JOBS, each)
        for pod, grace in actions(outcome.status, world, now=now, settings=self._settings).pods:
            await self._writer.delete(PODS, pod, propagation=None, grace_seconds=grace)
        self._uptimes.forget(job)
        if self._machines_left(job):
            return Result(self._settings.resync)
        await remove_finalizer(
            self._client,
            SPOTINSTANCEJOBS,
            job,
            finalizer=JOB_FINALIZER,
            field_manager=self._settings.field_manager,
        )
        return None

    def _machines_left(self, job: Obj) -> bool:
        """Whether a machine of the job may still be there; their controller says when not."""
        namespace, name = job["metadata"]["namespace"], job["metadata"]["name"]
        for vm in self.vms.store:
            if vm["metadata"]["namespace"] != namespace:
                continue
            for entry in (vm.get("status") or {}).get("provisionedInstances") or ():
                if entry.get("job") == name and entry.get("state") != "TERMINATED":
                    return True
        return False

    def _forget(self, key: str) -> None:
        self._written.clear(key)
        self._known.pop(key, None)
        if self._metrics is not None:
            self._metrics.gone(*split_key(key))


def _owner(pod: Obj) -> str:
    references = pod["metadata"].get("ownerReferences") or ()
    return next((str(each["uid"]) for each in references if each.get("controller")), "")


def _bare(status: Obj) -> Obj:
    """A status without what grows by itself."""
    placements = [
        {key: value for key, value in placement.items() if key != "cost"}
        for placement in status.get("placements") or ()
    ]
    kept = {key: value for key, value in status.items() if key not in ("cost", "placements")}
    return {**kept, "placements": placements}


def register(
    manager: Manager, settings: SpotSettings, *, wall: Callable[[], float] = time.time
) -> None:
    """Add the controller of SpotInstanceJobs to a manager."""
    reconciler = JobReconciler(manager, settings, wall=wall)
    controller = manager.controller(
        "spotinstancejob",
        reconciler.reconcile,
        workers=settings.workers,
        timeout=settings.timeout,
    )
    of_vm, of_node = mappers(reconciler.jobs)
    controller.watch(reconciler.jobs)
    controller.watch(reconciler.vms, of_vm)
    controller.watch(reconciler.copies, mapped(job_of))
    controller.watch(reconciler.pods, mapped(job_of))
    controller.watch(reconciler.nodes, of_node, when=node_matters)
    controller.watch(reconciler.backups, mapped(job_of))
