"""Counting pods exactly once: uncounted list, finalizer, counter, in this order.

A finished pod's uid is first written to ``status.uncountedTerminatedPods``, then its finalizer
is taken off, then the uid moves from the list into the counter. Whenever a pass is cut short,
the next one finds the pod either with its finalizer or in the list, never in neither and both
counted. (Succeeded pods of indexed jobs need no list: their index says whether they counted.)
"""

from __future__ import annotations

from corral.cluster.workloads.job import names
from corral.cluster.workloads.job.counting import is_true
from corral.cluster.workloads.job.indexes import IndexSet, completion_index
from corral.cluster.workloads.job.policies import match_failure
from corral.cluster.workloads.job.state import (
    JobState,
    condition,
    find_condition,
    set_condition,
)
from corral.cluster.workloads.job.steps import (
    Event,
    Pass,
    RemoveFinalizers,
    Verdict,
    WriteStatus,
)
from corral.cluster.workloads.pods import is_deleting, phase, uid
from corral.kube.times import format_datetime
from corral.kube.types import Obj

__all__ = ["track"]


def track(state: JobState, *, changed: bool, events: tuple[Event, ...], retry: bool) -> Pass:
    """The last part of a pass: writes the status, frees the pods, and ends the job if it is due."""
    if state.indexed:
        state.pods.sort(key=_by_index)
    tracked = {uid(pod) for pod in state.pods if state.is_tracked(pod)}
    changed |= _count_freed(state, tracked)
    ledger = _Ledger(state)
    changed |= ledger.take()
    changed |= _write_indexes(state, ledger.indexes)
    changed |= _announce_end(state)
    if changed:
        yield WriteStatus(written(state.status), events, state.backoff)
        changed = False
    if ledger.pods:
        report = yield RemoveFinalizers(tuple(ledger.pods))
        tracked -= {uid(pod) for at, pod in enumerate(ledger.pods) if at not in report.failed}
        changed = _count_freed(state, tracked)
        if report.failed:
            if changed:
                yield WriteStatus(written(state.status))
            return Verdict(state.requeue_after, retry=True)
    finished = not ledger.full and _end(state)
    if changed or finished:
        yield WriteStatus(written(state.status), _end_events(state) if finished else ())
    return Verdict(state.requeue_after, retry=retry, finished=finished)


def written(status: Obj) -> Obj:
    """A snapshot of the status in the form the API writes: zeros and empty lists are left out."""
    found = {key: value for key, value in status.items() if value not in (None, [], "")}
    for counter in ("active", "succeeded", "failed"):
        if not found.get(counter):
            found.pop(counter, None)
    found["uncountedTerminatedPods"] = {
        kind: list(uids) for kind, uids in status["uncountedTerminatedPods"].items() if uids
    }
    if "conditions" in found:
        found["conditions"] = [dict(c) for c in found["conditions"]]
    if status.get("failedIndexes") == "":
        found["failedIndexes"] = ""
    return found


def _by_index(pod: Obj) -> int:
    index = completion_index(pod)
    return -1 if index is None else index


def _count_freed(state: JobState, tracked: set[str]) -> bool:
    """Moves uids whose pods have no finalizer any more into the counters."""
    changed = False
    for kind, uids in state.uncounted.items():
        kept = [one for one in uids if one in tracked]
        if len(kept) != len(uids):
            changed = True
            state.status[kind] = state.status.get(kind, 0) + len(uids) - len(kept)
            state.uncounted[kind] = kept
    return changed


class _Ledger:
    """The pods whose finalizer may go, and what the status must say first."""

    def __init__(self, state: JobState) -> None:
        self.state = state
        self.pods: list[Obj] = []
        self.indexes: list[int] = []
        self.full = False
        # As the pass found them: a uid added below must not make its own pod look counted.
        # The status may be behind: a uid already moved to the counter is known here still.
        before = (state.job.get("status") or {}).get("uncountedTerminatedPods") or {}
        self.succeeded = set(before.get("succeeded") or ())
        self.failed = set(before.get("failed") or ())

    def take(self) -> bool:
        """Goes through the pods up to the limit of one status; True if the status changed."""
        changed = False
        uncounted = self.state.uncounted
        for pod in self.state.pods:
            if not self.state.is_tracked(pod) or not self._may_go(pod):
                continue
            self.pods.append(pod)
            changed |= self._enter(pod)
            counted = len(uncounted["succeeded"]) + len(uncounted["failed"])
            if len(self.indexes) + counted >= names.MAX_UNCOUNTED_PODS:
                self.full = True
                break
        return changed

    def _may_go(self, pod: Obj) -> bool:
        state = self.state
        if is_deleting(state.job) or state.verdict is not None or phase(pod) == "Succeeded":
            return True
        if not state.is_failed(pod):
            return False
        index = completion_index(pod)
        awaited = state.awaited.get(index) if index is not None else None
        return awaited is None or uid(awaited) != uid(pod)

    def _enter(self, pod: Obj) -> bool:
        state = self.state
        if phase(pod) == "Succeeded" and uid(pod) not in self.failed:
            return self._enter_success(pod)
        # When the job has failed, every pod that still ran has failed with it.
        failing = state.verdict is not None and state.verdict["type"] != names.SUCCESS_CRITERIA_MET
        if not (state.is_failed(pod) or failing):
            return False
        if uid(pod) in self.failed or not state.in_range(pod):
            return False
        if not match_failure(state.spec.get("podFailurePolicy"), pod).counts:
            return False
        state.uncounted["failed"].append(uid(pod))
        return True

    def _enter_success(self, pod: Obj) -> bool:
        if not self.state.indexed:
            if uid(pod) in self.succeeded:
                return False
            self.state.uncounted["succeeded"].append(uid(pod))
            return True
        index = completion_index(pod)
        if index is None or not self.state.in_range(pod) or index in self.state.previous_indexes:
            return False
        self.indexes.append(index)
        return True


def _write_indexes(state: JobState, new: list[int]) -> bool:
    if not state.indexed:
        return False
    done = state.succeeded_indexes = state.succeeded_indexes.union(IndexSet.of(new))
    failed = None if state.failed_indexes is None else str(state.failed_indexes)
    status = state.status
    changed = bool(new) or str(done) != (status.get("completedIndexes") or "")
    changed |= failed != status.get("failedIndexes")
    status["succeeded"] = len(done)
    status["completedIndexes"] = str(done)
    status["failedIndexes"] = failed
    return changed


def _announce_end(state: JobState) -> bool:
    """Writes the interim condition, and turns the verdict into the final one."""
    verdict = state.verdict
    if verdict is None:
        return False
    why = (verdict.get("reason", ""), verdict.get("message", ""))
    if verdict["type"] == names.FAILURE_TARGET:
        state.conditions.append(verdict)
        state.verdict = condition(names.FAILED, why, state.now)
        return True
    if verdict["type"] == names.SUCCESS_CRITERIA_MET:
        known = is_true(find_condition(state.conditions, names.SUCCESS_CRITERIA_MET))
        if not known:
            state.conditions.append(verdict)
        state.verdict = condition(names.COMPLETE, why, state.now)
        return not known
    return False


def _end(state: JobState) -> bool:
    """Adds the final condition, unless pods are still to be counted or still going down."""
    if state.verdict is None or any(state.uncounted.values()) or state.terminating > 0:
        return False
    set_condition(state.conditions, state.verdict)
    if state.verdict["type"] == names.COMPLETE:
        state.status["completionTime"] = format_datetime(state.now)
    return True


def _end_events(state: JobState) -> tuple[Event, ...]:
    verdict = state.verdict or {}
    if verdict["type"] != names.COMPLETE:
        return (Event("Warning", verdict["reason"], verdict["message"]),)
    completed = Event("Normal", "Completed", "Job completed")
    if state.completions is not None and state.status.get("succeeded", 0) > state.completions:
        message = "Too many succeeded pods running after completion count reached"
        return (Event("Warning", "TooManySucceededPods", message), completed)
    return (completed,)
