"""The status of an MPIJob: made in a `Draft`, written by the StatusController.

Conditions follow Kubeflow's rules: one whose status and reason stay the same is left alone, its
message too; the last one to change is the last in the list; success and failure end ``Running``.
One write per change, of the difference alone, bound to the version that was read.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Final

from corral.api.mpi.kinds import LAUNCHER, WORKER
from corral.api.mpi.status import CREATED, FAILED, RESTARTING, RUNNING, SUCCEEDED, SUSPENDED
from corral.kube.types import Obj
from corral.runtime.conditions import find_condition, is_condition_true
from corral.runtime.keys import format_time

__all__ = [
    "REASON_INVALID",
    "Draft",
    "is_invalid",
    "is_over",
    "only_counts_differ",
    "shortened",
]

REASON_INVALID: Final = "ValidationError"
REASON_VALID: Final = "MPIJobValid"
_LIMIT: Final = 1024


def shortened(message: str) -> str:
    """At most as many bytes as an event holds."""
    text = message.encode()
    if len(text) <= _LIMIT:
        return message
    return text[: _LIMIT - 3].decode(errors="ignore") + "..."


def is_over(status: Obj) -> bool:
    """Whether the job has come to its end; nothing is made for it any more."""
    conditions = status.get("conditions")
    ended = is_condition_true(conditions, SUCCEEDED) or is_condition_true(conditions, FAILED)
    return ended and bool(status.get("completionTime"))


def is_invalid(status: Obj) -> bool:
    """Whether it failed for what is written in it, and may begin once that is corrected."""
    failed = find_condition(status.get("conditions"), FAILED) or {}
    return bool(failed.get("status") == "True" and failed.get("reason") == REASON_INVALID)


def only_counts_differ(old: Obj, new: Obj) -> bool:
    """Whether a status differs in nothing but how many pods are active."""
    return _without_counts(old) == _without_counts(new)


def _without_counts(status: Obj) -> Obj:
    counts = {
        role: {key: value for key, value in found.items() if key != "active"}
        for role, found in (status.get("replicaStatuses") or {}).items()
    }
    return {**status, "replicaStatuses": counts}


class Draft:
    """A status in the making; ``status`` is a copy and may be changed."""

    def __init__(self, job: Obj, now: float) -> None:
        metadata = job["metadata"]
        self.named = f"MPIJob {metadata['namespace']}/{metadata['name']}"
        self.old: Obj = job.get("status") or {}
        self.status: Obj = deepcopy(self.old)
        self.stamp = format_time(now)

    # --- conditions ------------------------------------------------------------------------------

    def condition(
        self, type: str, *, holds: bool, reason: str, message: str, time: str = ""
    ) -> None:
        """Set a condition, by default as of now."""
        known: list[Obj] = self.status.get("conditions") or []
        status, time = "True" if holds else "False", time or self.stamp
        before = find_condition(known, type) or {}
        if (before.get("status"), before.get("reason")) == (status, reason):
            return
        same = before.get("status") == status
        entry: Obj = {
            "type": type,
            "status": status,
            "reason": reason,
            "message": message,
            "lastUpdateTime": time,
            "lastTransitionTime": before.get("lastTransitionTime", time) if same else time,
        }
        self.status["conditions"] = [*_others(known, type), entry]

    @property
    def ran(self) -> bool:
        """Whether all pods ran already when the job was read."""
        return is_condition_true(self.old.get("conditions"), RUNNING)

    def holds(self, type: str) -> bool:
        return is_condition_true(self.status.get("conditions"), type)

    def created(self) -> None:
        """Somebody looks after the job; what was wrong with it is not any more."""
        if find_condition(self.status.get("conditions"), CREATED) is None:
            message = f"{self.named} is created."
            self.condition(CREATED, holds=True, reason="MPIJobCreated", message=message)
        if is_invalid(self.status):
            message = f"{self.named} was corrected."
            self.condition(FAILED, holds=False, reason=REASON_VALID, message=message)

    def invalid(self, message: str) -> None:
        """It cannot be run as it is; one that has begun keeps what it has."""
        if self.status.get("startTime") or self.status.get("replicaStatuses"):
            return
        if is_invalid(self.status):
            found = find_condition(self.status["conditions"], FAILED) or {}
            if found.get("message") != message:
                found |= {"message": message, "lastUpdateTime": self.stamp}
            return
        self.condition(FAILED, holds=True, reason=REASON_INVALID, message=message)

    def started(self) -> None:
        self.status.setdefault("startTime", self.stamp)

    def suspended(self) -> None:
        self.condition(SUSPENDED, holds=True, reason="MPIJobSuspended", message="MPIJob suspended")
        message = f"{self.named} is suspended."
        self.condition(RUNNING, holds=False, reason="MPIJobSuspended", message=message)

    def resumed(self) -> None:
        """Not suspended (any more)."""
        if self.holds(SUSPENDED):
            self.status["startTime"] = self.stamp
            message = "MPIJob resumed"
            self.condition(SUSPENDED, holds=False, reason="MPIJobResumed", message=message)

    def running(self) -> None:
        message = f"{self.named} is running."
        self.condition(RUNNING, holds=True, reason="MPIJobRunning", message=message)

    def succeeded(self, time: str = "") -> None:
        """For good; ``time`` is when."""
        self.status["completionTime"] = time or self.stamp
        self.status.pop("failure", None)
        message = f"{self.named} successfully completed."
        self.condition(SUCCEEDED, holds=True, reason="MPIJobSucceeded", message=message)
        self._never_ran()

    def failed(self, reason: str, message: str) -> None:
        """For good."""
        self.status["completionTime"] = self.stamp
        self.condition(FAILED, holds=True, reason=reason, message=message)
        self._never_ran()

    def _never_ran(self) -> None:
        """Clients wait for the condition, whatever it says."""
        if find_condition(self.status["conditions"], RUNNING) is None:
            message = f"{self.named} is finished but Running condition was never set."
            time = self.status["completionTime"]
            self.condition(RUNNING, holds=False, reason="MPIJobRunning", message=message, time=time)

    # --- figures ---------------------------------------------------------------------------------

    def count_launcher(self, **counts: int) -> None:
        self._count(LAUNCHER, counts)

    def count_workers(self, **counts: int) -> None:
        self._count(WORKER, counts)

    def _count(self, role: str, counts: dict[str, int]) -> None:
        """What is zero is left out."""
        found = self.status.setdefault("replicaStatuses", {})
        found[role] = {key: value for key, value in counts.items() if value}


def _others(conditions: list[Obj], type: str) -> list[Obj]:
    """All but one, as they are once that one is set."""
    apart = {RUNNING: RESTARTING, RESTARTING: RUNNING}.get(type)
    ended = (RUNNING, FAILED) if type in (SUCCEEDED, FAILED) else ()
    return [
        {**known, "status": "False"} if known["type"] in ended else known
        for known in conditions
        if known["type"] not in (type, apart)
    ]
