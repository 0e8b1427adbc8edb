"""One pass over a job: what is, what should be, and the steps between.

``sync_job`` does no I/O and reads no clock: the same job, pods, time and reports give the same
steps. The expected behaviour is that of kube-controller-manager 1.37.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from datetime import datetime

from corral.cluster.workloads.job import names
from corral.cluster.workloads.job.backoff import NO_FAILURES, Backoff
from corral.cluster.workloads.job.counting import count, decide_end
from corral.cluster.workloads.job.manage import desired_step
from corral.cluster.workloads.job.state import (
    JobState,
    condition,
    finished_condition,
    managed_by_other,
    set_condition,
)
from corral.cluster.workloads.job.steps import (
    CreatePods,
    DeletePods,
    Emit,
    Event,
    Pass,
    Report,
    Step,
    Verdict,
)
from corral.cluster.workloads.job.tracking import track
from corral.cluster.workloads.pods import is_deleting, is_ready
from corral.kube.times import format_datetime
from corral.kube.types import Obj

__all__ = ["sync_job"]

_SUSPENDED_EVENT = Event("Normal", "Suspended", "Job suspended")
_RESUMED_EVENT = Event("Normal", "Resumed", "Job resumed")


def sync_job(
    job: Obj,
    pods: Iterable[Obj],
    *,
    now: datetime,
    backoff: Backoff = NO_FAILURES,
    satisfied: bool = True,
    removed: frozenset[str] = frozenset(),
) -> Pass:
    """The steps that bring ``job`` and the ``pods`` it controls to where they should be.

    Args:
        job: The job, as read; not changed.
        pods: The pods it controls, adopted ones included.
        now: The time of the pass, aware.
        backoff: What the last successful WriteStatus of this job asked to keep.
        satisfied: The pods at hand show every creation and deletion of earlier passes. While
            they do not, nothing is created or deleted, and the job does not end.
        removed: Pods known to have lost the tracking finalizer although ``pods`` shows it.
    """
    if managed_by_other(job):
        return Verdict()
    if finished_condition(job) is not None:
        return Verdict(finished=True)
    if job["spec"].get("completionMode") not in (None, "NonIndexed", "Indexed"):
        message = "Skipped Job sync because completion mode is unknown"
        yield Emit((Event("Warning", "UnknownCompletionMode", message),))
        return Verdict()
    state = count(job, pods, now=now, backoff=backoff, removed=removed)
    decide_end(state)
    events: tuple[Event, ...] = ()
    if state.verdict is not None:
        retry = yield from _stop(state, satisfied=satisfied)
    else:
        managed = satisfied and not is_deleting(job)
        retry = (yield from _manage(state)) if managed else False
        if _is_complete(state):
            state.verdict = condition(
                names.SUCCESS_CRITERIA_MET, names.COMPLETIONS_REACHED, state.now
            )
        elif managed:
            events = _note_suspension(state)
    changed = _write_counts(state) or bool(events)
    return (yield from track(state, changed=changed, events=events, retry=retry))


def _stop(state: JobState, *, satisfied: bool) -> Generator[Step, Report, bool]:
    """The job has ended: its active pods go, keeping their finalizer until they are counted."""
    before = state.active
    deleted = 0
    if state.active_pods:
        step = DeletePods(tuple(state.active_pods), free_first=False)
        deleted = _note_deleted(state, step, (yield step))
    if deleted != before or not satisfied:
        # A pod may be left, or not be seen yet: the end has to wait for it.
        state.verdict = None
    return deleted != before


def _manage(state: JobState) -> Generator[Step, Report, bool]:
    step = desired_step(state)
    if isinstance(step, DeletePods):
        return _note_deleted(state, step, (yield step)) != len(step.pods)
    if isinstance(step, CreatePods):
        report = yield step
        state.active += len(step.bodies) - len(report.failed)
        return bool(report.failed)
    return False


def _note_deleted(state: JobState, step: DeletePods, report: Report) -> int:
    gone = [pod for at, pod in enumerate(step.pods) if at not in report.failed]
    state.active -= len(gone)
    state.terminating += len(gone)
    state.ready -= sum(map(is_ready, gone))
    return len(gone)


def _is_complete(state: JobState) -> bool:
    if state.active > 0:
        return False
    if state.completions is None:
        return state.succeeded > 0
    return state.succeeded >= state.completions


def _note_suspension(state: JobState) -> tuple[Event, ...]:
    """Keeps the Suspended condition; the deadline runs from the latest resumption."""
    if state.suspended:
        new = condition(names.SUSPENDED, names.JOB_SUSPENDED, state.now)
        if set_condition(state.conditions, new):
            state.status.pop("startTime", None)
            return (_SUSPENDED_EVENT,)
    else:
        new = condition(names.SUSPENDED, names.JOB_RESUMED, state.now, status="False")
        if set_condition(state.conditions, new):
            state.status["startTime"] = format_datetime(state.now)
            return (_RESUMED_EVENT,)
    return ()


def _write_counts(state: JobState) -> bool:
    counts = {
        "active": state.active,
        "ready": state.ready,
        "terminating": state.terminating,
    }
    old = {
        "active": state.status.get("active", 0),
        "ready": state.status.get("ready"),
        "terminating": state.status.get("terminating"),
    }
    state.status.update(counts)
    return counts != old
