"""Which events a change of an MPIJob's status stands for. No I/O.

They follow from the difference between two statuses, so each is said once, after the write. Reasons
and words are Kubeflow's; ``MPIJobRestarting`` is ours.
"""

from __future__ import annotations

from corral.api.mpi.status import CREATED, FAILED, RUNNING, SUCCEEDED, SUSPENDED
from corral.families.mpijob.lifecycle.diagnosis import describe
from corral.kube.types import Obj
from corral.runtime.conditions import find_condition
from corral.runtime.family.events import Event, became

__all__ = ["COMPONENT", "transitions"]

COMPONENT = "mpi-job-controller"


def transitions(old: Obj, new: Obj) -> list[Event]:
    """The events of a change from one status to another, in order."""
    out: list[Event] = []
    if became(old, new, CREATED, "True"):
        out.append(_told(new, CREATED))
    if became(old, new, SUSPENDED, "True"):
        out.append(_told(new, SUSPENDED))
    if became(old, new, SUSPENDED, "False") and find_condition(old.get("conditions"), SUSPENDED):
        out.append(_told(new, SUSPENDED))
    if became(old, new, RUNNING, "True"):
        said = _told(new, RUNNING)
        out.append(said._replace(message=said.message.removesuffix(".")))
    out += _restarts(old, new)
    if became(old, new, SUCCEEDED, "True"):
        out.append(_told(new, SUCCEEDED))
    if _newly_failed(old, new):
        out.append(_told(new, FAILED)._replace(type="Warning"))
    return out


def _newly_failed(old: Obj, new: Obj) -> bool:
    before = find_condition(old.get("conditions"), FAILED) or {}
    after = find_condition(new.get("conditions"), FAILED) or {}
    same = all(before.get(key) == after.get(key) for key in ("status", "reason", "message"))
    return after.get("status") == "True" and not same


def _restarts(old: Obj, new: Obj) -> list[Event]:
    """Something failed, and is tried again."""
    failure = new.get("failure") or {}
    if not failure or new.get("completionTime"):
        return []
    before = old.get("failure") or {}
    if {**before, "logTail": None} == {**failure, "logTail": None}:
        return []
    what = "it is replaced" if failure.get("replica") == "Worker" else "it is started again"
    if failure.get("reason") == "ProcessFailed":
        what = "the launcher is started again"
    return [Event("Warning", "MPIJobRestarting", f"{describe(failure)}: {what}")]


def _told(status: Obj, type: str) -> Event:
    condition = find_condition(status.get("conditions"), type) or {}
    return Event("Normal", str(condition.get("reason")), str(condition.get("message") or ""))
