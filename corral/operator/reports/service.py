"""What pods of TrainingJobs can ask the operator, and what comes of it. No HTTP.

Every replica of the operator may serve it. What must be known by all is in the API: Checkpoint
objects, the plan of the next sharded checkpoint (an annotation of the job), and the job's status.
What is kept here (rates, limits, reviewed tokens) is safe to lose.

A pod is who its token says; it must be a pod of the very job it speaks for, and of the attempt that
the job is at. A pod of an older attempt is told that it is fenced.
"""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeVar

from corral.api.training.kinds import JOB_LABEL, TRAININGJOBS
from corral.checkpoints.errors import InvalidManifest
from corral.checkpoints.manifest import Manifest, decode
from corral.checkpoints.places import PlaceRefused
from corral.families.trainingjob.checkpoints.objects import CheckpointObjects, Facts
from corral.families.trainingjob.checkpoints.places import job_place
from corral.families.trainingjob.checkpoints.stores import Stores
from corral.families.trainingjob.checkpoints.summaries import (
    VOLUMES,
    belongs_to,
    id_of,
    phase_of,
    storage_kind,
    unanswered_request,
)
from corral.families.trainingjob.lifecycle.attempts import is_fenced, wanted_attempt
from corral.families.trainingjob.names import attempt_of, replica_of, world_of
from corral.kube.client import KubeClient, KubeConnectionError
from corral.kube.errors import ApiError, NotFound
from corral.kube.types import Obj
from corral.operator.reports.bodies import (
    Announcement,
    Commit,
    Report,
    RestoredNote,
    RestoreRequest,
    UploadRequest,
)
from corral.operator.reports.errors import (
    Fenced,
    Forbidden,
    Malformed,
    NotHere,
    Refused,
    ReportError,
    Unavailable,
)
from corral.operator.reports.identity import TokenChecker
from corral.operator.reports.incidents import Incidents
from corral.operator.reports.limits import PodLimits
from corral.operator.reports.plans import PLAN, interval_of, next_plan, plan_of
from corral.operator.reports.progress import ProgressBook
from corral.operator.reports.restores import Restores
from corral.operator.reports.spot import SpotReports
from corral.operator.reports.spot_views import CachedSpotViews
from corral.operator.reports.uploads import Uploads, UploadSettings
from corral.operator.reports.views import CachedViews, Views
from corral.runtime.events.recorder import EventRecorder
from corral.runtime.keys import key_of, uid_of
from corral.runtime.manager import Manager
from corral.runtime.owners import is_controlled_by
from corral.runtime.pods.reports import REPORT_AUDIENCE

__all__ = ["Caller", "ReportService", "ReportSettings"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ReportSettings:
    """How pods are known and served."""

    audience: str = REPORT_AUDIENCE
    requests_per_second: float = 20.0
    """Of one pod."""
    progress_period: float = 2.0
    """Seconds between two writes of one job's progress."""
    uploads: UploadSettings = field(default_factory=UploadSettings)


@dataclass(frozen=True, slots=True)
class Caller:
    """The pod that asks, and its job as it was known when it asked."""

    job: Obj
    pod: Obj
    replica: int
    attempt: int
    """Of the pod."""
    world: int

    @property
    def set_attempt(self) -> int:
        """Of the set that it works in: the others may have been started before it."""
        status = self.job.get("status") or {}
        alone = (status.get("replicaAttempts") or {}).get(str(self.replica))
        return int(status["attempt"]) if alone == self.attempt else self.attempt


class ReportService:
    """Answers pods; `run` must run beside it."""

    def __init__(
        self,
        client: KubeClient,
        stores: Stores,
        views: Views,
        recorder: EventRecorder,
        *,
        settings: ReportSettings | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        nonce: Callable[[], str] = lambda: uuid.uuid4().hex,
    ) -> None:
        settings = settings or ReportSettings()
        self._client = client
        self._stores = stores
        self._views = views
        self._wall = wall
        self._tokens = TokenChecker(client, settings.audience, clock=clock)
        self._limits = PodLimits(settings.requests_per_second, clock=clock)
        self._objects = CheckpointObjects(client, clock=wall)
        self._incidents = Incidents(self._objects, recorder)
        self._progress = ProgressBook(
            client, period=settings.progress_period, clock=clock, wall=wall
        )
        self._uploads = Uploads(
            stores, self._objects, settings=settings.uploads, nonce=nonce, clock=wall
        )
        self._restores = Restores(stores, views, url_ttl=settings.uploads.url_ttl)
        self.spot: SpotReports | None = None
        """For copies of spot jobs, where those are looked after."""
        self._began: dict[tuple[str, int], float] = {}
        """(job UID, attempt) → when it was first heard of here."""

    @classmethod
    def of_manager(
        cls,
        manager: Manager,
        stores: Stores,
        *,
        settings: ReportSettings | None = None,
        spot: bool = False,
    ) -> ReportService:
        """A service that reads out of a manager's informers and records events with it.

        ``spot``: for copies of spot jobs too, whose kinds must be there then.
        """
        recorder = manager.recorder("corral-reports")
        made = cls(manager.client, stores, CachedViews(manager), recorder, settings=settings)
        if spot:
            made.spot = SpotReports(
                manager.client,
                stores,
                CachedSpotViews(manager),
                recorder,
                tokens=made._tokens,
                limits=made._limits,
                uploads=(settings or ReportSettings()).uploads,
            )
        return made

    async def run(self) -> None:
        """Write progress that had to wait; until cancelled, which writes what is left."""
        try:
            await self._progress.run()
        finally:
            async with asyncio.timeout(5):
                await self._progress.flush(everything=True)

    # --- who ------------------------------------------------------------------------------------

    async def identify(self, authorization: str, namespace: str, name: str) -> Caller:
        """The pod behind a request about this job.

        Raises:
            ReportError: it is not one of the job, or of an older attempt.
        """
        identity = await self._tokens.identify(authorization)
        self._limits.take(identity.uid)
        if identity.namespace != namespace:
            raise Forbidden(f"pod {identity.pod} is not in namespace {namespace}")
        job = await self._asked(self._views.job(namespace, name))
        if job is None:
            raise NotHere(f"there is no TrainingJob {namespace}/{name}")
        pod = await self._asked(self._views.pod(namespace, identity.pod, identity.uid))
        if pod is None:
            raise Forbidden(f"pod {identity.pod} does not exist any more")
        labels = pod["metadata"].get("labels") or {}
        if labels.get(JOB_LABEL) != name or not is_controlled_by(pod, job):
            # A job that was made anew under its name may be newer than our copy of it.
            job = await self._asked(self._views.job(namespace, name, fresh=True))
            if labels.get(JOB_LABEL) != name or job is None or not is_controlled_by(pod, job):
                raise Forbidden(f"pod {identity.pod} is not a pod of TrainingJob {name}")
        caller = Caller(
            job,
            pod,
            replica_of(pod) or 0,
            attempt_of(pod) or 0,
            world_of(pod) or int(job["spec"].get("replicas") or 1),
        )
        _check_fence(caller)
        return caller

    # --- what ------------------------------------------------------------------------------------

    async def report(self, caller: Caller, report: Report) -> Obj:
        """Take a report; the answer has what the pod is to do."""
        _check_attempt(caller, report.attempt)
        job = caller.job
        checkpoints = await self._checkpoints(job)
        if report.rejected:
            await self._asked(self._incidents.rejected(job, checkpoints, report.rejected))
            await self._asked(self._restores.mark(job, report.rejected))
        if caller.replica == 0:
            if report.restored is not None:
                await self._asked(self._note_restored(job, checkpoints, report.restored))
            if report.deleted:
                await self._asked(self._note_deleted(job, checkpoints, report.deleted))
            if report.step is not None or report.metrics or report.epoch is not None:
                await self._asked(self._progress.take(job, caller.attempt, report))
        return await self._commands(caller, checkpoints, report)

    async def announce(self, caller: Caller, announcement: Announcement) -> Obj:
        """A checkpoint is complete on the job's volume."""
        job = caller.job
        if storage_kind(job) not in VOLUMES:
            raise Refused("this job keeps its checkpoints in an object store: ask for URLs")
        try:
            text = json.dumps(announcement.manifest).encode()
            manifest = decode(text, expected_id=announcement.id)
        except (InvalidManifest, ValueError) as error:
            raise Malformed(f"the manifest is not good: {error}") from error
        if manifest.job_uid not in ("", uid_of(job)):
            return {"name": None, "phase": None}  # what lies there since another job is not ours
        if manifest.attempt > caller.attempt:
            raise Malformed(f"attempt {manifest.attempt} has not begun")
        return await self._asked(self._announced(job, manifest, announcement))

    async def upload(self, caller: Caller, request: UploadRequest) -> Obj:
        """URLs to store the files of a checkpoint."""
        _check_attempt(caller, request.attempt)
        _check_part(caller, request.replica, request.of)
        fresh = await self._fresh(caller)
        return await self._asked(self._uploads.begin(fresh, caller.set_attempt, request))

    async def commit(self, caller: Caller, identifier: str, commit: Commit) -> Obj:
        """The files are stored."""
        _check_attempt(caller, commit.attempt)
        _check_part(caller, commit.replica, commit.of)
        fresh = await self._fresh(caller)
        return await self._asked(
            self._uploads.commit(fresh, caller.set_attempt, identifier, commit)
        )

    async def restore(self, caller: Caller, request: RestoreRequest) -> Obj:
        """What to start from."""
        found = await self._asked(self._restores.find(caller.job, request.from_))
        if found.findings:
            checkpoints = await self._checkpoints(caller.job)
            await self._asked(self._incidents.found(caller.job, checkpoints, found.findings))
        return found.answer

    # --- parts ------------------------------------------------------------------------------------

    async def _announced(self, job: Obj, manifest: Manifest, announcement: Announcement) -> Obj:
        try:
            place = job_place(job, self._stores.rules)
        except PlaceRefused as error:
            raise Refused(str(error)) from error
        request = announcement.request or ""
        facts = Facts(
            manifest.id,
            manifest.step,
            attempt=manifest.attempt,
            time=manifest.time,
            metrics=manifest.metrics,
            request=request,
            parent=manifest.parent or "",
        )
        checkpoint = await self._objects.begin(job, place, facts)
        checkpoint = await self._objects.ready(
            checkpoint, manifest, duration=announcement.duration, request=request
        )
        return {"name": checkpoint["metadata"]["name"], "phase": phase_of(checkpoint)}

    async def _commands(self, caller: Caller, checkpoints: list[Obj], report: Report) -> Obj:
        job = caller.job
        request = unanswered_request(job, checkpoints)
        at: int | None = None
        if caller.world > 1 and report.sharded is not False and job["spec"].get("checkpoint"):
            at = await self._planned(caller, checkpoints, report, request or "")
        return {
            "checkpointAt": at,
            "checkpointNow": request,
            "delete": _to_delete(job, checkpoints) if caller.replica == 0 else [],
            "interval": interval_of(job),
            "stop": bool(job["metadata"].get("deletionTimestamp")),
        }

    async def _planned(
        self, caller: Caller, checkpoints: list[Obj], report: Report, request: str
    ) -> int | None:
        """The step of the next sharded checkpoint; replica 0 sets the pace."""
        job, now = caller.job, self._wall()
        began = self._began.setdefault((uid_of(job), caller.set_attempt), now)
        if len(self._began) > 20_000:
            del self._began[next(iter(self._began))]
        plan = plan_of(job)
        if caller.replica == 0 and report.step is not None and report.sharded:
            made = next_plan(
                job,
                checkpoints,
                attempt=caller.set_attempt,
                step=report.step,
                rate=self._progress.rate(job),
                began=began,
                now=now,
                request=request,
            )
            if made is not None:
                notes = {"metadata": {"uid": uid_of(job), "annotations": {PLAN: made.text()}}}
                await self._asked(self._patch_job(job, notes))
                plan = made
        if plan is None or plan.attempt != caller.set_attempt:
            return None
        return plan.step if report.step is None or plan.step > report.step else None

    async def _note_restored(self, job: Obj, checkpoints: list[Obj], note: RestoredNote) -> None:
        names = [c["metadata"]["name"] for c in checkpoints if id_of(c) == note.id]
        name = names[0] if names else note.id
        known = ((job.get("status") or {}).get("checkpoint") or {}).get("restoredFrom")
        if known != name:
            patch: Obj = {"metadata": {"uid": uid_of(job)}}
            patch["status"] = {"checkpoint": {"restoredFrom": name}}
            await self._patch_job(job, patch, subresource="status")

    async def _note_deleted(self, job: Obj, checkpoints: list[Obj], gone: list[str]) -> None:
        for checkpoint in checkpoints:
            going = checkpoint["metadata"].get("deletionTimestamp")
            mine = belongs_to(checkpoint, job) and storage_kind(job) == "pvc"
            if mine and going and id_of(checkpoint) in gone and phase_of(checkpoint) != "Deleted":
                try:
                    await self._objects.data_gone(checkpoint)
                except NotFound:
                    continue

    async def _patch_job(self, job: Obj, patch: Obj, *, subresource: str = "") -> None:
        metadata = job["metadata"]
        await self._client.patch(
            TRAININGJOBS,
            metadata["name"],
            namespace=metadata["namespace"],
            patch=patch,
            subresource=subresource,
            field_manager="corral-reports",
        )

    async def _checkpoints(self, job: Obj) -> list[Obj]:
        metadata = job["metadata"]
        return await self._asked(self._views.checkpoints(metadata["namespace"], metadata["name"]))

    async def _fresh(self, caller: Caller) -> Obj:
        """The job as it is now: what is published must not rest on an old copy."""
        metadata = caller.job["metadata"]
        found = await self._asked(
            self._views.job(metadata["namespace"], metadata["name"], fresh=True)
        )
        if found is None or uid_of(found) != uid_of(caller.job):
            raise NotHere(f"there is no TrainingJob {key_of(caller.job)} any more")
        _check_fence(Caller(found, caller.pod, caller.replica, caller.attempt, caller.world))
        return found

    async def _asked(self, question: Awaitable[T]) -> T:
        """Errors of the API server as answers to the pod."""
        try:
            return await question
        except ReportError:
            raise
        except KubeConnectionError as error:
            raise Unavailable("the API server does not answer now") from error
        except ApiError as error:
            raise Unavailable(f"the API server refused: {error.message}") from error


def _check_fence(caller: Caller) -> None:
    status = caller.job.get("status") or {}
    if status.get("attempt") is not None and is_fenced(status, caller.replica, caller.attempt):
        wanted = wanted_attempt(status, caller.replica)
        raise Fenced(f"attempt {wanted} of the job has begun; attempt {caller.attempt} must stop")


def _check_attempt(caller: Caller, said: int | None) -> None:
    present = min(caller.attempt, caller.set_attempt)
    if said is not None and said < present:
        raise Fenced(f"the pod is of attempt {present}; attempt {said} must stop")


def _check_part(caller: Caller, part: int, of: int) -> None:
    """A pod writes its own part only; with several processes in a pod, each has one."""
    each = max(1, of // caller.world)
    if of > 1 and (of % caller.world or part // each != caller.replica):
        raise Forbidden(f"part {part} of {of} is not that of replica {caller.replica}")
    if of == 1 and part != caller.replica:
        raise Forbidden(f"the pod is replica {caller.replica}, not {part}")


def _to_delete(job: Obj, checkpoints: list[Obj]) -> list[str]:
    """Checkpoints on the job's claim whose objects are going: the pod deletes their data."""
    if storage_kind(job) != "pvc":
        return []
    return [
        identifier
        for found in checkpoints
        if found["metadata"].get("deletionTimestamp")
        and belongs_to(found, job)
        and phase_of(found) != "Deleted"
        and (identifier := id_of(found))
    ]
