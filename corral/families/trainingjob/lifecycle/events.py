"""Which events and figures a change of a TrainingJob's status stands for. No I/O.

They follow from the difference between two statuses, so each is said once, after the write.
"""

from __future__ import annotations

from typing import Final, Literal

from corral.api.training.status import (
    CONDITION_FAILED,
    CONDITION_RESTARTING,
    CONDITION_RUNNING,
    CONDITION_SUCCEEDED,
    CONDITION_SUSPENDED,
    CONDITION_VALID,
)
from corral.kube.types import Obj
from corral.runtime.conditions import find_condition
from corral.runtime.family.events import Event, became

__all__ = ["transitions"]

_TROUBLE: Final = frozenset({"ReplicaFailed", "PodLost"})
_QUIET: Final = frozenset({"PodsPending", "PodsEnding", "Restarting", "Suspended", "Succeeded"})
"""Reasons for not running that are nothing to warn about, or that another event tells."""


def transitions(old: Obj, new: Obj) -> list[Event]:
    """The events of a change from one status to another, in order."""
    out: list[Event] = []
    if became(old, new, CONDITION_VALID, "False"):
        out.append(_told(new, CONDITION_VALID, "Warning", "InvalidSpec"))
    if not old.get("attempt") and new.get("attempt"):
        out.append(Event("Normal", "Started", f"begins with {new.get('worldSize')} replicas"))
    if became(old, new, CONDITION_SUSPENDED, "True"):
        out.append(_told(new, CONDITION_SUSPENDED, "Normal", "Suspended"))
    if became(old, new, CONDITION_SUSPENDED, "False") and new.get("phase") == "Pending":
        out.append(Event("Normal", "Resumed", f"goes on with attempt {new.get('attempt')}"))
    out += _restarts(old, new)
    out += _running(old, new)
    if became(old, new, CONDITION_SUCCEEDED, "True"):
        out.append(_told(new, CONDITION_SUCCEEDED, "Normal", "Succeeded"))
    failed = find_condition(new.get("conditions"), CONDITION_FAILED) or {}
    if became(old, new, CONDITION_FAILED, "True") and failed["reason"] != "InvalidSpec":
        out.append(Event("Warning", failed["reason"], failed["message"]))
    return out


def _restarts(old: Obj, new: Obj) -> list[Event]:
    """One for each attempt that begins because of something."""
    condition = find_condition(new.get("conditions"), CONDITION_RESTARTING) or {}
    before = find_condition(old.get("conditions"), CONDITION_RESTARTING) or {}
    same = all(before.get(field) == condition.get(field) for field in ("status", "message"))
    if condition.get("status") != "True" or same:
        return []
    kind: Literal["Normal", "Warning"] = "Warning" if condition["reason"] in _TROUBLE else "Normal"
    return [Event(kind, condition["reason"], condition["message"])]


def _running(old: Obj, new: Obj) -> list[Event]:
    if became(old, new, CONDITION_RUNNING, "True"):
        return [_told(new, CONDITION_RUNNING, "Normal", "Running")]
    condition = find_condition(new.get("conditions"), CONDITION_RUNNING) or {}
    before = find_condition(old.get("conditions"), CONDITION_RUNNING) or {}
    reason = condition.get("reason")
    if condition.get("status") != "False" or reason in _QUIET or new.get("completionTime"):
        return []
    if before.get("reason") == reason:
        return []
    return [Event("Warning", str(reason), condition["message"])]


def _told(status: Obj, type: str, kind: Literal["Normal", "Warning"], reason: str) -> Event:
    condition = find_condition(status.get("conditions"), type) or {}
    return Event(kind, reason, str(condition.get("message") or ""))
