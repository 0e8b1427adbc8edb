"""One pass over a cron job, as a sans-I/O state machine.

The pass yields steps; the driver does each one and sends an Answer. The job's name is made of
the scheduled minute, so that a run is created once however often a pass is repeated.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeAlias

from corral.cluster.workloads.cronjob.timing import due_run, seconds_to_next
from corral.cluster.workloads.job.state import finished_condition
from corral.cluster.workloads.pods import (
    controller_of,
    controller_reference,
    is_deleting,
    uid,
)
from corral.cluster.workloads.steps import Answer, Emit, Event, Failed, Verdict
from corral.kube.cron import Schedule, ScheduleError, parse, zone
from corral.kube.times import format_datetime, parse_datetime
from corral.kube.types import Obj

__all__ = [
    "CreateJob",
    "DeleteJob",
    "LookUpJob",
    "Pass",
    "Step",
    "WriteStatus",
    "job_body",
    "job_name",
    "sync_cron_job",
]

SCHEDULED_TIMESTAMP: Final = "batch.kubernetes.io/cronjob-scheduled-timestamp"


@dataclass(frozen=True, slots=True)
class LookUpJob:
    """Read this job from the server, not from a cache; answer with it or with nothing."""

    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class CreateJob:
    """Create this job. If the name is taken, answer with the job that has it and ``existed``."""

    body: Obj


@dataclass(frozen=True, slots=True)
class DeleteJob:
    """Delete this job and, in the background, its pods; answer whether it ``existed``."""

    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class WriteStatus:
    """Replace the status."""

    status: Obj


Step: TypeAlias = LookUpJob | CreateJob | DeleteJob | WriteStatus | Emit
Pass: TypeAlias = Generator[Step, Answer, Verdict]


@dataclass(slots=True)
class _State:
    cron_job: Obj
    jobs: list[Obj]
    now: datetime
    status: Obj
    events: list[Event] = field(default_factory=list)
    changed: bool = False

    @property
    def active(self) -> list[Obj]:
        found: list[Obj] = self.status.setdefault("active", [])
        return found

    def say(self, kind: str, reason: str, message: str) -> None:
        self.events.append(Event(kind, reason, message))

    def drop(self, job_uid: str) -> None:
        self.status["active"] = [ref for ref in self.active if ref.get("uid") != job_uid]
        self.changed = True


def sync_cron_job(cron_job: Obj, jobs: Iterable[Obj], *, now: datetime) -> Pass:
    """The steps that start what is due, forget what is gone and keep the history short.

    Args:
        cron_job: As read; not changed.
        jobs: Jobs of the namespace; those it does not control are ignored.
        now: The time of the pass, aware.
    """
    own = [job for job in jobs if (controller_of(job) or {}).get("uid") == uid(cron_job)]
    status = dict(cron_job.get("status") or {})
    status["active"] = [dict(ref) for ref in status.get("active") or ()]
    state = _State(cron_job, own, now, status)
    retry, again = False, None
    try:
        yield from _trim_history(state)
        again = yield from _reconcile(state)
    except Failed:
        retry = True
    if state.changed:
        written = {k: v for k, v in state.status.items() if v not in (None, [])}
        answer = yield WriteStatus(written)
        retry |= answer.error is not None
    if state.events:
        yield Emit(tuple(state.events))
    return Verdict(again, retry=retry)


def _reconcile(state: _State) -> Generator[Step, Answer, float | None]:
    """Seconds until the next run; None when there will be none. Raises Failed."""
    _note_finished(state)
    yield from _drop_missing(state)
    spec = state.cron_job["spec"]
    if is_deleting(state.cron_job):
        return None
    schedule = _readable_schedule(state)
    if schedule is None or spec.get("suspend"):
        return None
    try:
        due = due_run(state.cron_job, state.now, schedule)
    except ScheduleError as err:
        state.say("Warning", "InvalidSchedule", f"invalid schedule: {spec['schedule']} : {err}")
        return None
    later = seconds_to_next(state.cron_job, state.now, schedule)
    if due.run is None:
        return later
    if due.too_many:
        message = (
            "too many missed start times. Set or decrease .spec.startingDeadlineSeconds "
            "or check clock skew"
        )
        state.say("Warning", "TooManyMissedTimes", message)
    if not _may_start(state, due.run):
        return later
    return (yield from _start(state, due.run, schedule))


def _note_finished(state: _State) -> None:
    """Takes finished jobs off the active list and keeps the time of the last success."""
    listed = {ref.get("uid") for ref in state.active}
    for job in state.jobs:
        name, finished = job["metadata"]["name"], finished_condition(job)
        if finished is None:
            if uid(job) not in listed:
                message = f"Saw a job that the controller did not create or forgot: {name}"
                state.say("Warning", "UnexpectedJob", message)
            continue
        if uid(job) in listed:
            state.drop(uid(job))
            message = f"Saw completed job: {name}, condition: {finished['type']}"
            state.say("Normal", "SawCompletedJob", message)
        if finished["type"] == "Complete":
            _note_success(state, (job.get("status") or {}).get("completionTime"))


def _note_success(state: _State, completed: str | None) -> None:
    last, when = parse_datetime(state.status.get("lastSuccessfulTime")), parse_datetime(completed)
    if when is not None and (last is None or when > last):
        state.status["lastSuccessfulTime"] = completed
        state.changed = True


def _drop_missing(state: _State) -> Generator[Step, Answer, None]:
    """Takes jobs that do not exist any more off the active list."""
    known = {uid(job) for job in state.jobs}
    for reference in list(state.active):
        if reference.get("uid") in known:
            continue
        answer = yield LookUpJob(reference.get("namespace", ""), reference.get("name", ""))
        if answer.error is not None:
            raise Failed(answer.error)
        if answer.found is None:
            state.say("Normal", "MissingJob", f"Active job went missing: {reference.get('name')}")
            state.drop(reference.get("uid", ""))


def _readable_schedule(state: _State) -> Schedule | None:
    spec = state.cron_job["spec"]
    text, zone_name = spec["schedule"], spec.get("timeZone")
    try:
        if zone_name is not None:
            zone(zone_name)
    except ScheduleError as err:
        state.say("Warning", "UnknownTimeZone", f'invalid timeZone: "{zone_name}": {err}')
        return None
    if not spec.get("suspend") and "TZ" in text:
        message = (
            f'CRON_TZ or TZ used in schedule "{text}" is not officially supported, see '
            "https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ "
            "for more details"
        )
        state.say("Warning", "UnsupportedSchedule", message)
    try:
        return parse(text, zone_name)
    except ScheduleError as err:
        if not spec.get("suspend"):
            message = f'unparseable schedule: "{text}" : {err}'
            state.say("Warning", "UnparseableSchedule", message)
        return None


def _may_start(state: _State, run: datetime) -> bool:
    spec = state.cron_job["spec"]
    deadline = spec.get("startingDeadlineSeconds")
    if deadline is not None and run + timedelta(seconds=deadline) < state.now:
        shown = run.astimezone(UTC).strftime("%a, %d %b %Y %H:%M:%S +0000")
        state.say("Warning", "MissSchedule", f"Missed scheduled time to start a job: {shown}")
        return False
    name = job_name(state.cron_job, run)
    if any(ref.get("name") == name for ref in state.active):
        return False
    if parse_datetime(state.status.get("lastScheduleTime")) == run:
        return False
    if spec.get("concurrencyPolicy") == "Forbid" and state.active:
        message = (
            "Not starting job because prior execution is running and concurrency policy is Forbid"
        )
        state.say("Normal", "JobAlreadyActive", message)
        return False
    return True


def _start(
    state: _State, run: datetime, schedule: Schedule
) -> Generator[Step, Answer, float | None]:
    if state.cron_job["spec"].get("concurrencyPolicy") == "Replace":
        for reference in list(state.active):
            if not (yield from _delete(state, reference)):
                raise Failed(f"could not replace job {reference.get('name')}")
    body = job_body(state.cron_job, run)
    answer = yield CreateJob(body)
    if answer.error is not None or answer.found is None:
        state.say("Warning", "FailedCreate", f"Error creating job: {answer.error}")
        raise Failed(answer.error)
    job = answer.found
    if answer.existed:
        # Ours from a pass that could not write its status: go on from there. Else not our affair.
        owner = (controller_of(job) or {}).get("uid")
        if owner != uid(state.cron_job) or any(r.get("uid") == uid(job) for r in state.active):
            return None
    else:
        state.say("Normal", "SuccessfulCreate", f"Created job {job['metadata']['name']}")
    state.active.append(_reference(job))
    state.status["lastScheduleTime"] = format_datetime(run)
    state.changed = True
    scheduled = {**state.cron_job, "status": state.status}
    return seconds_to_next(scheduled, state.now, schedule)


def _delete(state: _State, reference: Obj) -> Generator[Step, Answer, bool]:
    name = reference.get("name", "")
    answer = yield DeleteJob(reference.get("namespace", ""), name)
    if answer.error is not None:
        state.say("Warning", "FailedDelete", f"Deleted job: {answer.error}")
        return False
    state.drop(reference.get("uid", ""))
    if answer.existed:  # else an earlier pass deleted it, and said so
        state.say("Normal", "SuccessfulDelete", f"Deleted job {name}")
    return True


def _trim_history(state: _State) -> Generator[Step, Answer, None]:
    spec = state.cron_job["spec"]
    for kind, limit in (
        ("Complete", spec.get("successfulJobsHistoryLimit")),
        ("Failed", spec.get("failedJobsHistoryLimit")),
    ):
        if limit is None:
            continue
        ended = [j for j in state.jobs if (finished_condition(j) or {}).get("type") == kind]
        ended.sort(key=_by_start)
        for job in ended[: max(0, len(ended) - limit)]:
            if not is_deleting(job):
                yield from _delete(state, _reference(job))


def _by_start(job: Obj) -> tuple[Any, ...]:
    """The earliest start first, jobs that never started last, names in a tie."""
    start = (job.get("status") or {}).get("startTime")
    return (start is None, start or "", job["metadata"]["name"])


def _reference(job: Obj) -> Obj:
    meta = job["metadata"]
    found = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": meta["name"],
        "namespace": meta.get("namespace", ""),
        "resourceVersion": meta.get("resourceVersion"),
        "uid": uid(job),
    }
    return {key: value for key, value in found.items() if value}


def job_name(cron_job: Obj, run: datetime) -> str:
    """The cron job's name and the scheduled time in minutes since 1970."""
    return f"{cron_job['metadata']['name']}-{int(run.timestamp()) // 60}"


def job_body(cron_job: Obj, run: datetime) -> Obj:
    """The job of one run."""
    spec = cron_job["spec"]
    template = spec.get("jobTemplate") or {}
    given = template.get("metadata") or {}
    local = run.astimezone(zone(spec.get("timeZone") or ""))
    shown = local.isoformat(timespec="seconds").replace("+00:00", "Z")
    meta: Obj = {
        "name": job_name(cron_job, run),
        "namespace": cron_job["metadata"].get("namespace", ""),
        "annotations": {**(given.get("annotations") or {}), SCHEDULED_TIMESTAMP: shown},
        "ownerReferences": [controller_reference(cron_job, "batch/v1", "CronJob")],
    }
    if given.get("labels"):
        meta["labels"] = dict(given["labels"])
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": meta,
        "spec": template.get("spec") or {},
    }
