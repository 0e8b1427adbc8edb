"""How many pods a job should have now, which to create and which to delete."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from corral.cluster.workloads.job import names
from corral.cluster.workloads.job.backoff import remaining, remaining_for
from corral.cluster.workloads.job.indexes import (
    completion_index,
    failure_count,
    ignored_failure_count,
    indexes_of,
)
from corral.cluster.workloads.job.policies import match_failure
from corral.cluster.workloads.job.state import JobState
from corral.cluster.workloads.job.steps import CreatePods, DeletePods
from corral.cluster.workloads.pods import (
    controller_reference,
    deletion_rank,
    is_terminating,
    pod_body,
)
from corral.kube.types import Obj

__all__ = ["desired_step", "pods_to_remove"]

_LONGEST_GENERATED_PREFIX = 58
"""The server adds five characters to generateName and keeps names within 63."""


def desired_step(state: JobState) -> CreatePods | DeletePods | None:
    """The one change to the pods that is due: deletions first, creations in a later pass."""
    if state.suspended:
        return _deletion(pods_to_remove(state, state.active))
    wanted = _wanted_active(state)
    removable = pods_to_remove(state, max(0, state.active - wanted))[: names.MAX_PODS_PER_SYNC]
    if removable:
        return _deletion(removable)
    kept_places = state.terminating if state.replaces_only_failed else 0
    missing = wanted - kept_places - state.active
    return _creation(state, missing) if missing > 0 else None


def _deletion(pods: list[Obj]) -> DeletePods | None:
    return DeletePods(tuple(pods), free_first=True) if pods else None


def _wanted_active(state: JobState) -> int:
    if state.completions is None:
        # A work queue: after the first success the others finish, and none is started.
        return state.active if state.succeeded > 0 else state.parallelism
    return max(0, min(state.completions - state.succeeded, state.parallelism))


def pods_to_remove(state: JobState, at_least: int) -> list[Obj]:
    """Active pods to delete: those with a useless index, then the least advanced ones."""
    removed: list[Obj] = []
    left = state.active_pods
    if state.indexed:
        removed, left = _useless_indexes(state)
    if len(removed) < at_least:
        removed += sorted(left, key=deletion_rank)[: at_least - len(removed)]
    return removed


def _index_order(pod: Obj) -> int:
    index = completion_index(pod)
    return -1 if index is None else index


def _useless_indexes(state: JobState) -> tuple[list[Obj], list[Obj]]:
    """Pods without a valid index, and all but the most advanced pod of every index."""
    removed: list[Obj] = []
    left: list[Obj] = []
    beyond: list[Obj] = []
    for index, group in groupby(sorted(state.active_pods, key=_index_order), key=_index_order):
        pods = list(group)
        if index < 0:
            removed += pods
        elif index >= state.index_limit:
            beyond += pods
        else:
            pods.sort(key=deletion_rank)
            removed += pods[:-1]
            left.append(pods[-1])
    return beyond + removed, left


def _creation(state: JobState, missing: int) -> CreatePods | None:
    if not state.per_index:
        wait = remaining(state.backoff, state.now)
        if wait > 0:
            state.requeue(max(wait, names.BATCH_PERIOD_S))
            return None
    missing = min(missing, names.MAX_PODS_PER_SYNC)
    if not state.indexed:
        body = pod_body(_tracked_template(state), state.job, _reference(state))
        return CreatePods((body,) * missing)
    indexes = _indexes_to_add(state, missing)
    bodies = tuple(_indexed_bodies(state, indexes))
    return CreatePods(bodies) if bodies else None


def _reference(state: JobState) -> Obj:
    return controller_reference(state.job, names.API_VERSION, names.KIND)


def _indexes_to_add(state: JobState, limit: int) -> list[int]:
    """The lowest indexes nobody works on, less those that have to wait for their back-off."""
    taken = state.succeeded_indexes.union(indexes_of(state.active_pods))
    if state.replaces_only_failed:
        taken = taken.union(indexes_of(pod for pod in state.pods if is_terminating(pod)))
    if state.failed_indexes is not None:
        taken = taken.union(state.failed_indexes)
    pending = taken.missing(state.index_limit, limit)
    if not state.per_index:
        return pending
    waits = {index: remaining_for(state.awaited.get(index), state.now) for index in pending}
    due = [index for index in pending if waits[index] == 0]
    if not due and waits:
        state.requeue(max(min(waits.values()), names.BATCH_PERIOD_S))
    return due


def _tracked_template(state: JobState) -> Obj:
    template = dict(state.spec["template"])
    meta = dict(template.get("metadata") or {})
    finalizers = meta.get("finalizers") or []
    if names.TRACKING_FINALIZER not in finalizers:
        finalizers = [*finalizers, names.TRACKING_FINALIZER]
    return {**template, "metadata": {**meta, "finalizers": finalizers}}


def _indexed_bodies(state: JobState, indexes: Sequence[int]) -> Iterator[Obj]:
    template = _tracked_template(state)
    spec = dict(template["spec"])
    for field in ("initContainers", "containers"):
        if spec.get(field):
            spec[field] = [_with_index_env(container) for container in spec[field]]
    reference, name = _reference(state), state.job["metadata"]["name"]
    for index in indexes:
        body = pod_body(template, state.job, reference, prefix=_indexed_prefix(name, index))
        meta = body["metadata"]
        meta.setdefault("annotations", {})[names.COMPLETION_INDEX] = str(index)
        meta.setdefault("labels", {})[names.COMPLETION_INDEX] = str(index)
        if state.per_index:
            meta["annotations"].update(_failure_counts(state, index))
        body["spec"] = {**spec, "hostname": f"{name}-{index}"}
        yield body


def _indexed_prefix(name: str, index: int) -> str:
    ending = f"-{index}-"
    return name[: _LONGEST_GENERATED_PREFIX - len(ending)] + ending


def _with_index_env(container: Obj) -> Obj:
    env = container.get("env") or []
    if any(entry.get("name") == names.COMPLETION_INDEX_ENV for entry in env):
        return container
    source = {"fieldRef": {"fieldPath": f"metadata.labels['{names.COMPLETION_INDEX}']"}}
    return {**container, "env": [*env, {"name": names.COMPLETION_INDEX_ENV, "valueFrom": source}]}


def _failure_counts(state: JobState, index: int) -> dict[str, str]:
    """The annotations that carry an index's failures from the failed pod to its replacement."""
    replaced = state.awaited.get(index)
    failures = ignored = 0
    if replaced is not None:
        counts = match_failure(state.spec.get("podFailurePolicy"), replaced).counts
        failures = failure_count(replaced) + counts
        ignored = ignored_failure_count(replaced) + (not counts)
    found = {names.INDEX_FAILURE_COUNT: str(failures)}
    if ignored > 0:
        found[names.INDEX_IGNORED_FAILURE_COUNT] = str(ignored)
    return found
