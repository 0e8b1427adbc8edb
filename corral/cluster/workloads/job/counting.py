"""What a pass knows before it acts: pods by state, indexes done, and whether the job has ended.

The order of the checks is the order of precedence: an end decided by an earlier pass, the pod
failure policy, the back-off limit, the deadline, failed indexes, the success policy.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from corral.cluster.workloads.job import names
from corral.cluster.workloads.job.backoff import Backoff, finish_time, next_backoff
from corral.cluster.workloads.job.indexes import (
    IndexSet,
    absolute_failure_count,
    completion_index,
    failure_count,
    indexes_of,
)
from corral.cluster.workloads.job.policies import match_failure, match_success
from corral.cluster.workloads.job.state import (
    JobState,
    condition,
    find_condition,
    has_finalizer,
)
from corral.cluster.workloads.pods import is_active, is_ready, is_terminating, phase
from corral.cluster.workloads.times import seconds_between
from corral.kube.times import format_datetime, parse_datetime
from corral.kube.types import Obj

__all__ = ["count", "decide_end", "is_true"]


def count(
    job: Obj, pods: Iterable[Obj], *, now: datetime, backoff: Backoff, removed: frozenset[str]
) -> JobState:
    """Reads the job and its pods into a fresh state; sets the start time where it is due."""
    state = JobState(job, list(pods), now, _status_copy(job), removed)
    state.active_pods = [pod for pod in state.pods if is_active(pod)]
    state.active = len(state.active_pods)
    state.ready = sum(map(is_ready, state.active_pods))
    state.terminating = sum(map(is_terminating, state.pods))
    uncounted = state.uncounted
    succeeded = state.new_pods(uncounted["succeeded"], lambda pod: phase(pod) == "Succeeded")
    failed = state.new_pods(uncounted["failed"], state.is_failed)
    status = state.status
    state.succeeded = status.get("succeeded", 0) + len(succeeded) + len(uncounted["succeeded"])
    state.failed = status.get("failed", 0) + _counted(state, failed) + len(uncounted["failed"])
    if not status.get("startTime") and not state.suspended:
        status["startTime"] = format_datetime(now)
    state.backoff = next_backoff(backoff, succeeded, failed)
    return state


def _status_copy(job: Obj) -> Obj:
    status = dict(job.get("status") or {})
    status["conditions"] = [dict(c) for c in status.get("conditions") or ()]
    uncounted = status.get("uncountedTerminatedPods") or {}
    status["uncountedTerminatedPods"] = {
        kind: list(uncounted.get(kind) or ()) for kind in ("succeeded", "failed")
    }
    return status


def _counted(state: JobState, failed: list[Obj]) -> int:
    policy = state.spec.get("podFailurePolicy")
    return sum(match_failure(policy, pod).counts for pod in failed)


def is_true(found: Obj | None) -> bool:
    return found is not None and found.get("status") == "True"


def decide_end(state: JobState) -> None:
    """Sets ``state.verdict`` if the job has failed or its success policy is met."""
    state.verdict = _decided_before(state) or _policy_failure(state)
    if state.verdict is None:
        _check_limits(state)
    if state.indexed:
        _count_indexes(state)
        if state.per_index:
            _check_indexes(state)
        message = match_success(
            state.spec.get("successPolicy"), state.index_limit, state.succeeded_indexes
        )
        if state.verdict is None and message is not None:
            state.verdict = condition(
                names.SUCCESS_CRITERIA_MET, (names.SUCCESS_POLICY, message), state.now
            )


def _decided_before(state: JobState) -> Obj | None:
    met = find_condition(state.conditions, names.SUCCESS_CRITERIA_MET)
    if is_true(met):
        return met
    target = find_condition(state.conditions, names.FAILURE_TARGET)
    if target is not None and is_true(target):
        why = (target.get("reason", ""), target.get("message", ""))
        return condition(names.FAILED, why, state.now)
    return None


def _policy_failure(state: JobState) -> Obj | None:
    policy = state.spec.get("podFailurePolicy")
    for pod in state.pods if policy else ():
        message = match_failure(policy, pod).message if state.is_failed(pod) else None
        if message is not None:
            why = (names.POD_FAILURE_POLICY, message)
            return condition(names.FAILURE_TARGET, why, state.now)
    return None


def _check_limits(state: JobState) -> None:
    deadline = state.spec.get("activeDeadlineSeconds")
    left = None
    if deadline is not None and not state.suspended:
        start = parse_datetime(state.status.get("startTime"))
        left = deadline - (seconds_between(start, state.now) if start else 0.0)
    if state.failed > state.backoff_limit or _too_many_restarts(state):
        _fail(state, names.BACKOFF_LIMIT_EXCEEDED)
    elif left is not None and left <= 0:
        _fail(state, names.DEADLINE_EXCEEDED)
    elif left is not None:
        state.requeue(left)


def _fail(state: JobState, why: tuple[str, str]) -> None:
    state.verdict = condition(names.FAILURE_TARGET, why, state.now)


def _too_many_restarts(state: JobState) -> bool:
    """With restartPolicy OnFailure, restarts of containers count in place of failed pods."""
    template = state.spec.get("template") or {}
    if (template.get("spec") or {}).get("restartPolicy") != "OnFailure":
        return False
    restarts = sum(
        container.get("restartCount", 0)
        for pod in state.pods
        if phase(pod) in ("Running", "Pending")
        for kind in ("initContainerStatuses", "containerStatuses")
        for container in pod["status"].get(kind) or ()
    )
    return bool(restarts >= max(state.backoff_limit, 1))


def _count_indexes(state: JobState) -> None:
    before = IndexSet.parse(state.status.get("completedIndexes") or "", state.index_limit)
    new = indexes_of(
        pod
        for pod in state.pods
        if phase(pod) == "Succeeded" and state.in_range(pod) and has_finalizer(pod)
    )
    state.previous_indexes = before
    state.succeeded_indexes = before.union(new)
    state.succeeded = len(state.succeeded_indexes)


def _check_indexes(state: JobState) -> None:
    before = IndexSet.parse(state.status.get("failedIndexes") or "", state.index_limit)
    new = indexes_of(
        pod
        for pod in state.pods
        if state.in_range(pod) and has_finalizer(pod) and _index_failed(state, pod)
    )
    failed = state.failed_indexes = before.union(new)
    most = state.spec.get("maxFailedIndexes")
    if state.verdict is None and most is not None and len(failed) > most:
        _fail(state, names.MAX_FAILED_INDEXES_EXCEEDED)
    elif state.verdict is None and len(failed) > 0:
        if len(failed) + len(state.succeeded_indexes) >= state.index_limit:
            _fail(state, names.FAILED_INDEXES)
    state.awaited = _awaited(state, failed)


def _index_failed(state: JobState, pod: Obj) -> bool:
    if not state.is_failed(pod):
        return False
    match = match_failure(state.spec.get("podFailurePolicy"), pod)
    if match.action == "FailIndex":
        return True
    return match.counts and failure_count(pod) >= int(state.spec["backoffLimitPerIndex"])


def _awaited(state: JobState, failed: IndexSet) -> dict[int, Obj]:
    """The last failed pod of every index that is neither done, failed nor at work again."""
    settled = state.succeeded_indexes.union(failed).union(indexes_of(state.active_pods))
    found: dict[int, Obj] = {}
    for pod in state.new_pods((), state.is_failed):
        index = completion_index(pod)
        if index is None or index in settled:
            continue
        other = found.get(index)
        if other is None or (
            absolute_failure_count(other) <= absolute_failure_count(pod)
            and finish_time(pod) >= finish_time(other)
        ):
            found[index] = pod
    return found
