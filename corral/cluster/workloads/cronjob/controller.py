"""The cron job controller: `sync_cron_job` run over every cron job when it or a job of it changes.

Guarantees: a run is created once however often a pass is cut short and repeated, for its name is
made of the scheduled minute; nothing is decided on caches that lack an earlier write of ours.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from corral.cluster.workloads.cronjob.sync import (
    CreateJob,
    DeleteJob,
    LookUpJob,
    Pass,
    Step,
    WriteStatus,
    sync_cron_job,
)
from corral.cluster.workloads.cronjob.timing import seconds_to_next
from corral.cluster.workloads.steps import Answer, Emit, Failed, Verdict, emit
from corral.kube.cron import ScheduleError, known_zone, parse
from corral.kube.errors import AlreadyExists, ApiError, NotFound
from corral.kube.resources import CRONJOBS, JOBS
from corral.kube.types import Obj
from corral.runtime import (
    CONTROLLER_UID_INDEX,
    LOW_PRIORITY,
    Change,
    ConsistencyStore,
    Manager,
    Result,
    index_by_controller_uid,
    key_of,
    owner_by_uid,
    uid_of,
    version_of,
)

__all__ = ["CronJobController", "register"]

COMPONENT: Final = "cronjob-controller"
FIELD_MANAGER: Final = "corral-cronjob-controller"
_WORKERS: Final = 5


class CronJobController:
    """Runs passes over cron jobs."""

    def __init__(self, manager: Manager, *, now: Callable[[], datetime]) -> None:
        self._client = manager.client
        self._now = now
        self._cron_jobs, self._jobs = manager.informer(CRONJOBS), manager.informer(JOBS)
        self._jobs.add_index(CONTROLLER_UID_INDEX, index_by_controller_uid)
        self._consistency = ConsistencyStore({CRONJOBS: self._cron_jobs, JOBS: self._jobs})
        self._recorder = manager.recorder(COMPONENT)
        self._controller = manager.controller(
            "cronjob", self.reconcile, workers=_WORKERS, timeout=120
        )
        self._controller.informers.append(self._cron_jobs)
        self._cron_jobs.add_handler(self._changed)
        self._controller.watch(self._jobs, owner_by_uid(self._cron_jobs))

    def _changed(self, change: Change) -> None:
        """A new schedule begins with its next run: nothing is made up for under it."""
        old, new = change.old, change.new
        if old is None or new is None or _timing(old) == _timing(new):
            self._controller.queue.add(change.key, LOW_PRIORITY if change.is_initial else 0)
            return
        text, zone = _timing(new)
        try:
            schedule = parse(str(text), zone if known_zone(zone or "") else None)
        except ScheduleError:
            message = f"unparseable schedule for cronjob: {text}"
            self._recorder.warning(new, "UnParseableCronJobSchedule", message)
            return
        delay = seconds_to_next(new, self._now(), schedule)
        if delay is not None:
            self._controller.queue.add_after(change.key, delay)

    async def reconcile(self, key: str) -> Result | None:
        """One pass over a cron job."""
        self._consistency.ensure_ready(key)
        cron_job = self._cron_jobs.store.get(key)
        if cron_job is None:
            self._consistency.clear(key)
            return None
        jobs = self._jobs.store.by_index(CONTROLLER_UID_INDEX, uid_of(cron_job))
        verdict = await self._drive(cron_job, sync_cron_job(cron_job, jobs, now=self._now()))
        return Result(requeue_after=verdict.requeue_after) if verdict.requeue_after else None

    async def _drive(self, cron_job: Obj, passing: Pass) -> Verdict:
        """Do the steps of a pass. Raises Failed when it is to be tried again."""
        answer: Answer | None = None
        problem = ""
        while True:
            try:
                step = next(passing) if answer is None else passing.send(answer)
            except StopIteration as stop:
                verdict: Verdict = stop.value
                break
            try:
                answer = await self._do(cron_job, step)
            except ApiError as err:
                answer = Answer(error=err.message)
                problem = problem or err.message
        if verdict.retry:
            raise Failed(problem)
        return verdict

    async def _do(self, cron_job: Obj, step: Step) -> Answer:
        match step:
            case LookUpJob(namespace, name):
                return Answer(await self._find(namespace, name))
            case CreateJob(body):
                return await self._create(cron_job, body)
            case DeleteJob(namespace, name):
                return await self._delete(namespace, name)
            case WriteStatus(status):
                written = await self._client.replace(
                    CRONJOBS,
                    {**cron_job, "status": status},
                    subresource="status",
                    field_manager=FIELD_MANAGER,
                )
                self._note(cron_job, written)
            case Emit(events):
                emit(self._recorder, cron_job, events)
        return Answer()

    async def _create(self, cron_job: Obj, body: Obj) -> Answer:
        try:
            made = await self._client.create(JOBS, body, field_manager=FIELD_MANAGER)
        except AlreadyExists:
            meta = body["metadata"]
            return Answer(await self._find(meta["namespace"], meta["name"]), existed=True)
        self._consistency.wrote_at(key_of(cron_job), uid_of(cron_job), JOBS, version_of(made))
        return Answer(made)

    async def _delete(self, namespace: str, name: str) -> Answer:
        try:
            await self._client.delete(JOBS, name, namespace=namespace, propagation="Background")
        except NotFound:
            return Answer()
        return Answer(existed=True)

    async def _find(self, namespace: str, name: str) -> Obj | None:
        try:
            return await self._client.get(JOBS, name, namespace=namespace)
        except NotFound:
            return None

    def _note(self, cron_job: Obj, written: Obj) -> None:
        self._consistency.wrote_at(
            key_of(cron_job), uid_of(cron_job), CRONJOBS, version_of(written)
        )


def _timing(cron_job: Obj) -> tuple[str, str | None]:
    return cron_job["spec"]["schedule"], cron_job["spec"].get("timeZone")


def register(manager: Manager, *, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
    """Run the controller in a manager."""
    CronJobController(manager, now=now)
