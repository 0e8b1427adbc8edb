"""What copies of spot jobs can ask the operator, and what comes of it. No HTTP.

A pod is who its token says, and a copy if its Job belongs to the very SpotInstanceJob it speaks
for. A start of a copy that a later one has replaced is told that it is fenced. What a copy tells is
noted on its pod (`corral.families.spot.jobs.reported`), so that the job's controller can read it.
"""

from __future__ import annotations

import json
import logging
import re
import time
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from corral.api.spot.kinds import PREEMPTION_TAINT, RISK_CONDITION
from corral.api.spot.rules import duration_seconds
from corral.checkpoints.errors import InvalidManifest
from corral.checkpoints.findings import Reason
from corral.checkpoints.manifest import Manifest, decode
from corral.families.spot.jobs.reported import (
    LastCheckpoint,
    Progress,
    Restored,
    last_checkpoint,
    note,
    request_of,
)
from corral.families.trainingjob.checkpoints.stores import Stores
from corral.kube.client import KubeClient, KubeConnectionError
from corral.kube.errors import ApiError, NotFound
from corral.kube.resources import PODS
from corral.kube.types import Obj
from corral.operator.reports.bodies import (
    Announcement,
    Commit,
    Report,
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
from corral.operator.reports.incidents import REJECTED
from corral.operator.reports.limits import PodLimits
from corral.operator.reports.progress import Rate
from corral.operator.reports.spot_stores import SpotStores
from corral.operator.reports.spot_views import SpotViews
from corral.operator.reports.transfers import UploadSettings
from corral.runtime.conditions import find_condition
from corral.runtime.events.recorder import EventRecorder
from corral.runtime.keys import uid_of
from corral.runtime.owners import controller_of, is_controlled_by
from corral.runtime.pods.states import moment

__all__ = ["SpotCaller", "SpotReports"]

logger = logging.getLogger(__name__)
T = TypeVar("T")

PERIOD: Final = 2.0
"""Seconds between two notes of one pod's progress."""
MAX_PODS: Final = 20_000
"""Remembered at a time."""
_COPY: Final = re.compile(r"-replica-(\d+)-(\d+)\Z")


@dataclass(frozen=True, slots=True)
class SpotCaller:
    """The pod that asks, and its job as it was known when it asked."""

    job: Obj
    pod: Obj
    replica: int
    attempt: int


class SpotReports:
    """Answers copies of spot jobs."""

    def __init__(
        self,
        client: KubeClient,
        stores: Stores,
        views: SpotViews,
        recorder: EventRecorder,
        *,
        tokens: TokenChecker,
        limits: PodLimits,
        uploads: UploadSettings | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        nonce: Callable[[], str] = lambda: uuid.uuid4().hex,
    ) -> None:
        self._client = client
        self._views = views
        self._recorder = recorder
        self._tokens = tokens
        self._limits = limits
        self._stores = SpotStores(stores, settings=uploads, nonce=nonce, clock=wall)
        self._clock = clock
        self._wall = wall
        self._owners: dict[str, str] = {}
        """UID of a Job → UID of the SpotInstanceJob that it belongs to; that never changes."""
        self._rates: dict[str, Rate] = {}
        self._noted: dict[str, float] = {}
        """UID of a pod → when its progress was noted last."""

    # --- who ------------------------------------------------------------------------------------

    async def identify(self, authorization: str, namespace: str, name: str) -> SpotCaller:
        """The pod behind a request about this job.

        Raises:
            ReportError: it is no copy of the job, or of an older start.
        """
        identity = await self._tokens.identify(authorization)
        self._limits.take(identity.uid)
        if identity.namespace != namespace:
            raise Forbidden(f"pod {identity.pod} is not in namespace {namespace}")
        job = await self._asked(self._views.job(namespace, name))
        if job is None:
            raise NotHere(f"there is no SpotInstanceJob {namespace}/{name}")
        pod = await self._asked(self._views.pod(namespace, identity.pod, identity.uid))
        if pod is None:
            raise Forbidden(f"pod {identity.pod} does not exist any more")
        owner = controller_of(pod)
        which = _COPY.search(owner["name"]) if owner is not None else None
        if owner is None or which is None or not await self._is_ours(namespace, owner, job):
            raise Forbidden(f"pod {identity.pod} is not a pod of SpotInstanceJob {name}")
        caller = SpotCaller(job, pod, int(which.group(1)), int(which.group(2)))
        _check_fence(caller, caller.attempt)
        return caller

    async def _is_ours(self, namespace: str, owner: Obj, job: Obj) -> bool:
        known = self._owners.get(owner["uid"])
        if known is None:
            found = await self._asked(self._views.owner(namespace, owner["name"]))
            if found is None or uid_of(found) != owner["uid"]:
                return False
            if not is_controlled_by(found, job):
                # A job that was made anew under its name may be newer than our copy of it.
                metadata = job["metadata"]
                again = self._views.job(metadata["namespace"], metadata["name"], fresh=True)
                fresh = await self._asked(again)
                if fresh is None or not is_controlled_by(found, fresh):
                    return False
                job = fresh
            known = _kept(self._owners, owner["uid"], uid_of(job))
        return known == uid_of(job)

    # --- what ------------------------------------------------------------------------------------

    async def report(self, caller: SpotCaller, report: Report) -> Obj:
        """Take a report; the answer has what the copy is to do."""
        _check_fence(caller, report.attempt)
        notes: dict[str, str] = {}
        if report.rejected:
            for one in report.rejected:
                about = ": ".join(text for text in (one.reason, one.message) if text)
                self._passed_over(caller.job, one.id, about or "it is damaged")
            await self._stores.mark(caller.job, report.rejected)
        if report.restored is not None:
            notes |= note(Restored(report.restored.id, report.restored.step))
        if report.step is not None and (found := self._progress(caller, report)) is not None:
            notes |= note(found)
        if notes:
            await self._note(caller, notes)
        return _commands(caller, self._views.node(caller.pod["spec"].get("nodeName") or ""))

    async def announce(self, caller: SpotCaller, announcement: Announcement) -> Obj:
        """A checkpoint is complete on the volume."""
        try:
            text = json.dumps(announcement.manifest).encode()
            manifest = decode(text, expected_id=announcement.id)
        except (InvalidManifest, ValueError) as error:
            raise Malformed(f"the manifest is not good: {error}") from error
        if manifest.job_uid not in ("", uid_of(caller.job)):
            return {"name": None, "phase": None}
        if manifest.attempt > caller.attempt:
            raise Malformed(f"attempt {manifest.attempt} has not begun")
        await self._saved(caller, manifest, announcement.duration, announcement.request)
        return {"name": manifest.id, "phase": "Ready"}

    async def upload(self, caller: SpotCaller, request: UploadRequest) -> Obj:
        """URLs to store the files of a checkpoint."""
        _check_whole(request.of)
        fresh = await self._fresh(caller, request.attempt)
        return await self._stores.begin(fresh.job, fresh.replica, fresh.attempt, request)

    async def commit(self, caller: SpotCaller, identifier: str, commit: Commit) -> Obj:
        """The files are stored."""
        _check_whole(commit.of)
        fresh = await self._fresh(caller, commit.attempt)
        manifest = await self._stores.commit(
            fresh.job, fresh.replica, fresh.attempt, identifier, commit
        )
        await self._saved(fresh, manifest, commit.duration, commit.request)
        try:
            await self._stores.retain(fresh.job, fresh.replica)
        except ReportError as error:
            logger.warning("old checkpoints of %s stay: %s", key_text(fresh.job), error)
        return {"complete": True, "name": manifest.id}

    async def restore(self, caller: SpotCaller, request: RestoreRequest) -> Obj:
        """What to start from."""
        found = await self._stores.find(caller.job, request.from_)
        for finding in found.findings:
            # What was marked earlier was told of earlier.
            if finding.reason is not Reason.QUARANTINED:
                about = f"{finding.reason}: {finding.message}"
                self._passed_over(caller.job, finding.checkpoint, about)
        return found.answer

    # --- parts ------------------------------------------------------------------------------------

    def _passed_over(self, job: Obj, identifier: str, about: str) -> None:
        message = f"checkpoint {identifier} was passed over: {about}"
        self._recorder.record(job, "Warning", reason=REJECTED, message=message)

    def _progress(self, caller: SpotCaller, report: Report) -> Progress | None:
        """What to note; None while the last note is young."""
        assert report.step is not None
        uid, now = uid_of(caller.pod), self._clock()
        rate = self._rates.get(uid) or _kept(self._rates, uid, Rate())
        rate.observe(caller.attempt, report.step, now)
        last = self._noted.get(uid)
        ended = report.total is not None and report.step + 1 >= report.total
        if last is not None and now - last < PERIOD and not ended:
            return None
        _kept(self._noted, uid, now)
        return Progress(self._wall(), report.step, report.total, rate.per_second(now))

    async def _saved(
        self,
        caller: SpotCaller,
        manifest: Manifest,
        duration: float | None,
        request: str | None,
    ) -> None:
        """Note the newest checkpoint; at a start a copy tells of all that it has."""
        known = last_checkpoint(caller.pod)
        older = known is not None and (manifest.step, manifest.time) < (known.step, known.time)
        if older and not request:
            return
        answered = request or (known.request if known is not None else "")
        told = LastCheckpoint(
            manifest.id,
            manifest.step,
            manifest.time,
            attempt=manifest.attempt,
            seconds=duration,
            bytes=manifest.total_size,
            request=answered,
        )
        await self._note(caller, note(told))

    async def _note(self, caller: SpotCaller, notes: dict[str, str]) -> None:
        metadata = caller.pod["metadata"]
        patch = {"metadata": {"uid": metadata["uid"], "annotations": notes}}
        try:
            await self._asked(
                self._client.patch(
                    PODS,
                    metadata["name"],
                    namespace=metadata["namespace"],
                    patch=patch,
                    field_manager="corral-reports",
                )
            )
        except NotHere:
            return  # it is gone: nobody reads its notes any more

    async def _fresh(self, caller: SpotCaller, said: int | None) -> SpotCaller:
        """With the job as it is now: what is published must not rest on an old copy."""
        metadata = caller.job["metadata"]
        asked = self._views.job(metadata["namespace"], metadata["name"], fresh=True)
        found = await self._asked(asked)
        if found is None or uid_of(found) != uid_of(caller.job):
            raise NotHere(f"there is no SpotInstanceJob {key_text(caller.job)} any more")
        fresh = SpotCaller(found, caller.pod, caller.replica, caller.attempt)
        _check_fence(fresh, said)
        return fresh

    async def _asked(self, question: Awaitable[T]) -> T:
        """Errors of the API server as answers to the pod."""
        try:
            return await question
        except NotFound as error:
            raise NotHere(error.message) from error
        except KubeConnectionError as error:
            raise Unavailable("the API server does not answer now") from error
        except ApiError as error:
            raise Unavailable(f"the API server refused: {error.message}") from error


def key_text(job: Obj) -> str:
    return f"{job['metadata']['namespace']}/{job['metadata']['name']}"


def _commands(caller: SpotCaller, node: Obj | None) -> Obj:
    job, status = caller.job, caller.job.get("status") or {}
    asked = status.get("checkpointRequest") or {}
    wanted = asked.get("id") if asked.get("replica") in (None, caller.replica) else None
    last = last_checkpoint(caller.pod)
    if wanted is not None and last is not None and last.request == wanted:
        wanted = None
    fixed = duration_seconds(job["spec"]["checkpointConfig"].get("checkpointInterval") or "")
    return {
        "checkpointAt": None,
        "checkpointNow": request_of(caller.pod) or wanted or _risk(node, last),
        "deadline": _deadline(node),
        "delete": [],
        "interval": fixed if fixed is not None else status.get("checkpointIntervalSeconds"),
        "stop": bool(job["metadata"].get("deletionTimestamp")),
    }


def _deadline(node: Obj | None) -> float | None:
    """When the machine will be taken, if a notice has come."""
    for taint in ((node or {}).get("spec") or {}).get("taints") or ():
        value = str(taint.get("value") or "")
        if taint.get("key") == PREEMPTION_TAINT and value.isdigit():
            return float(value)
    return None


def _risk(node: Obj | None, last: LastCheckpoint | None) -> str | None:
    """A request for one checkpoint since the machine was said to be likely to be taken."""
    found = find_condition(((node or {}).get("status") or {}).get("conditions"), RISK_CONDITION)
    if found is None or found.get("status") != "True":
        return None
    told = moment(found.get("lastTransitionTime"))
    if told is None or (last is not None and last.time >= told):
        return None
    return f"risk-{told:.0f}"


def _check_fence(caller: SpotCaller, said: int | None) -> None:
    """A later start of the same copy has begun, or the pod speaks for an earlier one."""
    newest = caller.attempt
    for copy in (caller.job.get("status") or {}).get("jobStatuses") or ():
        if copy.get("replica") == caller.replica:
            newest = max(newest, int(copy.get("attempt") or 0))
    speaks = caller.attempt if said is None else min(said, caller.attempt)
    if speaks < newest:
        raise Fenced(f"attempt {newest} of the copy has begun; attempt {speaks} must stop")


def _check_whole(of: int) -> None:
    if of != 1:
        raise Refused("a copy of a spot job writes whole checkpoints, in one process")


V = TypeVar("V")


def _kept(memory: dict[str, V], key: str, value: V) -> V:
    """Remember, and forget what was remembered longest ago where it is too much."""
    memory.pop(key, None)
    memory[key] = value
    if len(memory) > MAX_PODS:
        del memory[next(iter(memory))]
    return value
