"""The status of a WasmTask: made in a `Draft`, each phase by one method. No I/O."""

from __future__ import annotations

from copy import deepcopy
from typing import Any, Final

from corral.api.propeller.status import WasmTaskStatus
from corral.families.federated.groups.proplets import Proplet
from corral.families.federated.results import Extracted
from corral.kube.resources import Resource
from corral.kube.types import Obj
from corral.runtime.conditions import find_condition, remove_condition, set_condition
from corral.runtime.family.events import Event
from corral.runtime.keys import format_time, uid_of

__all__ = ["INVALID", "Draft", "is_over", "transitions"]

INVALID: Final = "InvalidSpec"
_READY: Final = "Ready"
_PARTIAL: Final = "Partial"
_MESSAGE: Final = 2048


def is_over(task: Obj) -> bool:
    """Whether it has ended, well or not."""
    return (task.get("status") or {}).get("phase") in ("Completed", "Failed")


class Draft:
    """A status in the making; ``status`` is a copy and may be changed."""

    def __init__(self, task: Obj, now: float) -> None:
        self.status: Obj = deepcopy(task.get("status") or {})
        self.status.setdefault("conditions", [])
        self.status["observedGeneration"] = task["metadata"].get("generation", 0)
        self._now = format_time(now)
        self._name = task["metadata"]["name"]

    def model(self) -> WasmTaskStatus:
        """What was made of it."""
        return WasmTaskStatus.model_validate(self.status)

    @property
    def phase(self) -> str:
        return str(self.status.get("phase") or "")

    @property
    def attempt(self) -> int:
        return int(self.status.get("reschedules") or 0)

    def waits(self, reason: str, message: str) -> None:
        """No proplet can have it now."""
        self.status["phase"] = "Pending"
        self._ready(False, reason, message)

    def scheduled(self, proplet: Proplet) -> None:
        """It has a proplet, and no pod that runs yet."""
        self.status["phase"] = "Scheduled"
        self.status["propletId"] = proplet.id
        self.status["nodeName"] = proplet.node
        self.status.setdefault("startTime", self._now)
        message = f"Task is bound to proplet {proplet.id} on node {proplet.node}"
        self._ready(False, "Scheduled", message)

    def created(self, resource: Resource, workload: Obj) -> None:
        """Its Job is there."""
        metadata = workload["metadata"]
        self.status["jobRef"] = {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "uid": uid_of(workload),
        }

    def runs(self) -> None:
        self.status["phase"] = "Running"
        where = f"on proplet {self.status.get('propletId')}"
        self._ready(True, "Running", f"Task is running {where}")

    def troubled(self, reason: str, message: str) -> None:
        """It does not get on; the phase stays."""
        self._ready(False, reason, message)

    def partial(self, results: Obj) -> None:
        """What it has given so far."""
        if self.status.get("results") == results:
            return
        self.status["results"] = results
        self._condition(_PARTIAL, True, "Streaming", "the task runs: these results may change")

    def monitored(self, readings: Obj) -> None:
        self.status["monitoring"] = readings

    def completed(self, found: Extracted | None) -> None:
        self.status["phase"] = "Completed"
        self.status["finishTime"] = self._now
        self.status.pop("error", None)
        if found is not None:
            self.status["results"] = found.results
            self.status["resultSource"] = found.source
        self._whole(found is not None)
        self._ready(True, "Completed", "Task completed")

    def failed(self, reason: str, error: str) -> None:
        self.status["phase"] = "Failed"
        self.status["finishTime"] = self._now
        self.status["error"] = error[:_MESSAGE]
        self._whole(False)
        self._ready(False, reason, error)

    def lost(self, why: str) -> None:
        """Its proplet stopped answering: it begins anew on another."""
        proplet = self.status.get("propletId")
        self.status["phase"] = "Pending"
        self.status["reschedules"] = self.attempt + 1
        for key in ("propletId", "nodeName", "jobRef", "results", "monitoring"):
            self.status.pop(key, None)
        remove_condition(self.status["conditions"], _PARTIAL)
        self._ready(False, "PropletLost", f"proplet {proplet} is lost: {why}")

    def _whole(self, found: bool) -> None:
        if find_condition(self.status["conditions"], _PARTIAL) is not None:
            message = (
                "these are the results of the task" if found else "the task ended without others"
            )
            self._condition(_PARTIAL, False, "Ended", message)

    def _ready(self, holds: bool, reason: str, message: str) -> None:
        self._condition(_READY, holds, reason, message)

    def _condition(self, type: str, holds: bool, reason: str, message: str) -> None:
        set_condition(
            self.status["conditions"],
            type,
            status="True" if holds else "False",
            reason=reason,
            message=message[:_MESSAGE],
            now=self._now,
        )


def transitions(old: Obj, new: Obj) -> list[Event]:
    """The events of a change from one status to another."""
    before, after = _said(old), _said(new)
    if before == after:
        return []
    reason, message = after
    phase = new.get("phase")
    if phase != old.get("phase"):
        bad = phase == "Failed" or (phase == "Pending" and reason != "Scheduled")
        return [Event("Warning" if bad else "Normal", reason, message)]
    if before[0] == reason or reason in ("Running", "Scheduled"):
        return []
    return [Event("Warning", reason, message)]


def _said(status: Obj) -> tuple[str, str]:
    ready: dict[str, Any] = find_condition(status.get("conditions"), _READY) or {}
    return str(ready.get("reason") or ""), str(ready.get("message") or "")
