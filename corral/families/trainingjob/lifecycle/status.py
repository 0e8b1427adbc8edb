"""The status of a TrainingJob: made in a `Draft`, written by the StatusController.

One write per change, on the status subresource, of the difference alone, and bound to the version
that was read. ``progress`` and ``checkpoint.restoredFrom`` belong to the report endpoint: a draft
takes them over as they are, so they are never part of the difference.
"""

from __future__ import annotations

import math
from copy import deepcopy
from typing import Final

from corral.api.training.status import (
    CONDITION_FAILED,
    CONDITION_RESTARTING,
    CONDITION_RUNNING,
    CONDITION_SUCCEEDED,
    CONDITION_SUSPENDED,
    CONDITION_VALID,
)
from corral.families.trainingjob.lifecycle.attempts import completed_replicas
from corral.families.trainingjob.lifecycle.replicas import Replicas
from corral.families.trainingjob.names import selector_of
from corral.kube.types import Obj
from corral.runtime.conditions import find_condition, is_condition_true, set_condition
from corral.runtime.keys import format_time
from corral.runtime.pods.failures import shortened
from corral.runtime.pods.states import PodState, is_ready, moment, pod_state

__all__ = [
    "REASON_INVALID",
    "Draft",
    "is_finished",
    "is_suspended",
    "running_since",
]

REASON_INVALID: Final = "InvalidSpec"
_SUMMARY: Final = ("last", "lastStep", "lastTime", "count", "bytes")


def is_finished(status: Obj) -> bool:
    """Whether the job has come to its end; one with an invalid spec may still begin."""
    conditions = status.get("conditions")
    failed = find_condition(conditions, CONDITION_FAILED) or {}
    if failed.get("status") == "True" and failed.get("reason") != REASON_INVALID:
        return True
    return is_condition_true(conditions, CONDITION_SUCCEEDED)


def is_suspended(status: Obj) -> bool:
    return is_condition_true(status.get("conditions"), CONDITION_SUSPENDED)


def running_since(status: Obj) -> float | None:
    """Since when all replicas have run; None while they do not."""
    condition = find_condition(status.get("conditions"), CONDITION_RUNNING) or {}
    return (
        moment(condition.get("lastTransitionTime")) if condition.get("status") == "True" else None
    )


class Draft:
    """A status in the making; ``status`` is a copy and may be changed."""

    def __init__(self, job: Obj, now: float) -> None:
        self.job = job
        self.old: Obj = job.get("status") or {}
        self.status: Obj = deepcopy(self.old)
        self.now = now
        self.stamp = format_time(now)
        self.generation = int(job["metadata"].get("generation") or 0)
        self.status["selector"] = selector_of(job["metadata"]["name"])
        counts = self.status.setdefault("replicas", {})
        for name in ("desired", "active", "ready", "succeeded", "failed", "restarts"):
            counts.setdefault(name, 0)
        counts.setdefault("disruptions", 0)

    @property
    def counts(self) -> Obj:
        counts: Obj = self.status["replicas"]
        return counts

    # --- conditions ------------------------------------------------------------------------------

    def condition(self, type: str, *, holds: bool, reason: str, message: str = "") -> None:
        set_condition(
            self.status.setdefault("conditions", []),
            type,
            status="True" if holds else "False",
            reason=reason,
            message=shortened(message),
            now=self.stamp,
            observed_generation=self.generation,
        )

    def end_condition(self, type: str, *, reason: str, message: str = "") -> None:
        """Say that something is no longer so; nothing where it never was."""
        if is_condition_true(self.status.get("conditions"), type):
            self.condition(type, holds=False, reason=reason, message=message)

    def valid(self) -> None:
        """The spec can be followed; takes back what was said about an earlier one."""
        self.status["observedGeneration"] = self.generation
        self.condition(CONDITION_VALID, holds=True, reason="Valid")
        self.end_condition(CONDITION_FAILED, reason="Valid", message="the spec was corrected")
        if self.status.get("phase") in (None, "Failed"):
            self.status["phase"] = "Pending"

    def invalid(self, message: str) -> None:
        """The spec cannot be followed; a job that has begun keeps what it has."""
        self.status["observedGeneration"] = self.generation
        self.condition(CONDITION_VALID, holds=False, reason=REASON_INVALID, message=message)
        if not self.status.get("attempt"):
            self.status["phase"] = "Failed"
            self.condition(CONDITION_FAILED, holds=True, reason=REASON_INVALID, message=message)

    def restarting(self, reason: str, message: str) -> None:
        self.condition(CONDITION_RESTARTING, holds=True, reason=reason, message=message)

    def end(self, type: str, *, reason: str, message: str) -> None:
        """The job has succeeded or failed, for good."""
        self.status["phase"] = type
        self.status["completionTime"] = self.stamp
        self.status.pop("nextAttemptTime", None)
        self.condition(type, holds=True, reason=reason, message=message)
        self.condition(CONDITION_RUNNING, holds=False, reason=type, message=message)
        self.end_condition(CONDITION_RESTARTING, reason=type)
        self.end_condition(CONDITION_SUSPENDED, reason=type)

    # --- figures ---------------------------------------------------------------------------------

    def count(self, view: Replicas) -> None:
        """Count the pods that are there."""
        states = [pod_state(pod) for pod in view.current.values()]
        active = [state for state in states if state in (PodState.PENDING, PodState.RUNNING)]
        self.counts["active"] = len(active)
        self.counts["ready"] = sum(
            is_ready(pod) and pod_state(pod) is PodState.RUNNING for pod in view.current.values()
        )
        self.counts["succeeded"] = len(completed_replicas(self.status))
        self.counts["failed"] = states.count(PodState.FAILED) + states.count(PodState.LOST)

    def summarise(self, checkpoints: Obj) -> None:
        """Take over what is known about the checkpoints."""
        kept = {k: v for k, v in (self.old.get("checkpoint") or {}).items() if k not in _SUMMARY}
        if checkpoints.get("count") or self.old.get("checkpoint"):
            self.status["checkpoint"] = {**kept, **checkpoints}

    def wait_until(self, moment: float) -> None:
        """Make no pods before this moment."""
        self.status["nextAttemptTime"] = format_time(math.ceil(moment))
