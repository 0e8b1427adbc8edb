"""One job and its pods, as a pass sees and changes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from corral.cluster.workloads.job import names
from corral.cluster.workloads.job.backoff import Backoff
from corral.cluster.workloads.job.indexes import IndexSet, completion_index
from corral.cluster.workloads.pods import is_deleting, phase, uid
from corral.kube.times import format_datetime
from corral.kube.types import Obj

__all__ = [
    "JobState",
    "condition",
    "find_condition",
    "finished_condition",
    "has_finalizer",
    "managed_by_other",
    "set_condition",
]


def condition(
    kind: str, reason_message: tuple[str, str], now: datetime, status: str = "True"
) -> Obj:
    """A new job condition."""
    when = format_datetime(now)
    return {
        "type": kind,
        "status": status,
        "lastProbeTime": when,
        "lastTransitionTime": when,
        "reason": reason_message[0],
        "message": reason_message[1],
    }


def find_condition(conditions: Iterable[Obj], kind: str) -> Obj | None:
    return next((c for c in conditions if c.get("type") == kind), None)


def set_condition(conditions: list[Obj], new: Obj) -> bool:
    """Adds or replaces a condition in place; True when that changed something.

    A condition that is absent is not added as False.
    """
    for at, old in enumerate(conditions):
        if old.get("type") == new["type"]:
            if all(old.get(f, "") == new[f] for f in ("status", "reason", "message")):
                return False
            conditions[at] = new
            return True
    if new["status"] == "False":
        return False
    conditions.append(new)
    return True


def finished_condition(job: Obj) -> Obj | None:
    """The true Complete or Failed condition, or None while the job is not finished."""
    for found in (job.get("status") or {}).get("conditions") or ():
        if found.get("type") in (names.COMPLETE, names.FAILED) and found.get("status") == "True":
            return dict(found)
    return None


def managed_by_other(job: Obj) -> bool:
    """Another controller than this one looks after the job."""
    return (job["spec"].get("managedBy") or names.CONTROLLER_NAME) != names.CONTROLLER_NAME


def has_finalizer(pod: Obj) -> bool:
    return names.TRACKING_FINALIZER in (pod["metadata"].get("finalizers") or ())


@dataclass(slots=True)
class JobState:
    """The working copy of a pass. ``status`` is written; the job and the pods are only read."""

    job: Obj
    pods: list[Obj]
    now: datetime
    status: Obj
    removed: frozenset[str]
    """Pods whose finalizer is known to be off although the copy at hand still has it."""
    active_pods: list[Obj] = field(default_factory=list)
    active: int = 0
    ready: int = 0
    terminating: int = 0
    succeeded: int = 0
    failed: int = 0
    backoff: Backoff = field(default_factory=Backoff)
    verdict: Obj | None = None
    """The condition that ends the job, once one is met."""
    previous_indexes: IndexSet = field(default_factory=IndexSet)
    succeeded_indexes: IndexSet = field(default_factory=IndexSet)
    failed_indexes: IndexSet | None = None
    """None without backoffLimitPerIndex."""
    awaited: dict[int, Obj] = field(default_factory=dict)
    """Per index, the failed pod kept until its replacement carries its failure count on."""
    requeue_after: float | None = None

    @property
    def spec(self) -> Obj:
        spec: Obj = self.job["spec"]
        return spec

    @property
    def conditions(self) -> list[Obj]:
        found: list[Obj] = self.status.setdefault("conditions", [])
        return found

    @property
    def uncounted(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = self.status["uncountedTerminatedPods"]
        return found

    @property
    def completions(self) -> int | None:
        found: int | None = self.spec.get("completions")
        return found

    @property
    def index_limit(self) -> int:
        """Indexes of an indexed job are below this."""
        return self.spec.get("completions") or 0

    @property
    def parallelism(self) -> int:
        return _or_default(self.spec.get("parallelism"), 1)

    @property
    def backoff_limit(self) -> int:
        return _or_default(self.spec.get("backoffLimit"), 6)

    @property
    def indexed(self) -> bool:
        return bool(self.spec.get("completionMode") == "Indexed")

    @property
    def suspended(self) -> bool:
        return bool(self.spec.get("suspend"))

    @property
    def per_index(self) -> bool:
        return self.spec.get("backoffLimitPerIndex") is not None

    @property
    def replaces_only_failed(self) -> bool:
        return bool(self.spec.get("podReplacementPolicy") == "Failed")

    def is_failed(self, pod: Obj) -> bool:
        """Failed, or (unless only failed pods are replaced) deleted before it could succeed."""
        if phase(pod) == "Failed":
            return True
        if self.replaces_only_failed:
            return False
        return is_deleting(pod) and phase(pod) != "Succeeded"

    def in_range(self, pod: Obj) -> bool:
        """Always so for jobs without indexes."""
        if not self.indexed:
            return True
        index = completion_index(pod)
        return index is not None and index < self.index_limit

    def is_tracked(self, pod: Obj) -> bool:
        """The pod's end is not in the status's counters yet."""
        return has_finalizer(pod) and uid(pod) not in self.removed

    def new_pods(self, counted: Iterable[str], wanted: Callable[[Obj], bool]) -> list[Obj]:
        """Tracked pods with a valid index that are not in ``counted`` and that are ``wanted``."""
        skip = set(counted)
        return [
            pod
            for pod in self.pods
            if self.is_tracked(pod) and uid(pod) not in skip and self.in_range(pod) and wanted(pod)
        ]

    def requeue(self, seconds: float) -> None:
        """Sync again no later than that."""
        if self.requeue_after is None or seconds < self.requeue_after:
            self.requeue_after = seconds


def _or_default(value: Any, default: int) -> int:
    return default if value is None else int(value)
