"""Finding the pods of a job, and the jobs of a pod, through indexes. No I/O.

Pods that a job controls are found by its uid. A pod without a controller may be adopted by a job
whose selector matches: both are kept under one ``key=value`` pair of the selector, so that neither
side has to look at everything in the namespace.
"""

from __future__ import annotations

from corral.cluster.workloads.job.state import has_finalizer
from corral.cluster.workloads.pods import controller_of, is_deleting, is_ready, is_terminal, phase
from corral.kube.selectors import Selector
from corral.kube.types import Obj
from corral.runtime import (
    CONTROLLER_UID_INDEX,
    UID_INDEX,
    Change,
    Informer,
    index_by_controller_uid,
    index_by_uid,
    key_of,
    uid_of,
)

__all__ = ["JobPods", "matters"]

_BY_SELECTOR = "job-by-selector"
_ORPHANS = "pod-without-controller"
_ANYTHING = "*"


def _selector_pair(job: Obj) -> str:
    """The place of a job's selector in the indexes: its first pair, or that of all selectors."""
    namespace = job["metadata"].get("namespace", "")
    wanted = (job["spec"].get("selector") or {}).get("matchLabels") or {}
    if not wanted:
        return f"{namespace}/{_ANYTHING}"
    key = min(wanted)
    return f"{namespace}/{key}={wanted[key]}"


def _index_by_selector(job: Obj) -> tuple[str, ...]:
    return (_selector_pair(job),)


def _label_pairs(pod: Obj) -> tuple[str, ...]:
    meta = pod["metadata"]
    namespace = meta.get("namespace", "")
    labels = meta.get("labels") or {}
    return (f"{namespace}/{_ANYTHING}", *(f"{namespace}/{k}={v}" for k, v in labels.items()))


def _index_orphans(pod: Obj) -> tuple[str, ...]:
    return _label_pairs(pod) if controller_of(pod) is None else ()


class JobPods:
    """Jobs and pods as the caches have them."""

    def __init__(self, jobs: Informer, pods: Informer) -> None:
        self._jobs = jobs.store
        self._pods = pods.store
        jobs.add_index(UID_INDEX, index_by_uid)
        jobs.add_index(_BY_SELECTOR, _index_by_selector)
        pods.add_index(CONTROLLER_UID_INDEX, index_by_controller_uid)
        pods.add_index(_ORPHANS, _index_orphans)

    def candidates(self, job: Obj) -> list[Obj]:
        """The pods that the job controls, and those without a controller that it may select."""
        owned = self._pods.by_index(CONTROLLER_UID_INDEX, uid_of(job))
        return owned + self._pods.by_index(_ORPHANS, _selector_pair(job))

    def controlled(self, job: Obj) -> list[Obj]:
        """The pods that the job controls."""
        return self._pods.by_index(CONTROLLER_UID_INDEX, uid_of(job))

    def owner(self, pod: Obj) -> Obj | None:
        """The job that controls the pod, if it is known."""
        reference = controller_of(pod)
        if reference is None or reference.get("kind") != "Job":
            return None
        found = self._jobs.by_index(UID_INDEX, str(reference.get("uid", "")))
        return found[0] if found else None

    def adopters(self, pod: Obj) -> list[Obj]:
        """The jobs whose selectors match a pod that has no controller."""
        labels = pod["metadata"].get("labels") or {}
        return [
            job
            for pair in _label_pairs(pod)
            for job in self._jobs.by_index(_BY_SELECTOR, pair)
            if Selector.from_object(job["spec"].get("selector")).matches(labels)
        ]

    def concerned(self, change: Change) -> list[str]:
        """The keys of the jobs that a change of a pod concerns, by ownership or by labels."""
        jobs = [self.owner(state) for state in (change.old, change.new) if state is not None]
        new = change.new
        if new is not None and controller_of(new) is None and _may_be_adopted(change):
            jobs += self.adopters(new)
        return list(dict.fromkeys(key_of(job) for job in jobs if job is not None))


def _may_be_adopted(change: Change) -> bool:
    old, new = change.old, change.new
    if old is None or new is None:
        return True
    return bool(
        old["metadata"].get("labels") != new["metadata"].get("labels")
        or controller_of(old) != controller_of(new)
    )


def matters(change: Change) -> bool:
    """Whether a change of a pod can change what its job does: not for addresses and heartbeats."""
    old, new = change.old, change.new
    if old is None or new is None:
        return True
    return _meta(old) != _meta(new) or _state(old) != _state(new)


def _meta(pod: Obj) -> tuple[object, ...]:
    meta = pod["metadata"]
    return (
        is_deleting(pod),
        has_finalizer(pod),
        meta.get("labels"),
        meta.get("annotations"),
        meta.get("ownerReferences"),
    )


def _state(pod: Obj) -> tuple[object, ...]:
    status = pod.get("status") or {}
    if is_terminal(pod) or is_deleting(pod):
        return (phase(pod), status.get("conditions"), status.get("containerStatuses"))
    restarts = sum(
        container.get("restartCount", 0)
        for kind in ("initContainerStatuses", "containerStatuses")
        for container in status.get(kind) or ()
    )
    return (phase(pod), is_ready(pod), restarts)
