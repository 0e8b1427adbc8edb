"""The phase of an object of any family, and one line that says why: pure functions of the object.

Objects come from clusters where anything may have been written: whatever is missing or of another
type counts as unknown, and nothing here raises.
"""

from __future__ import annotations

from typing import Any, Final

from corral.kube.types import Obj

__all__ = [
    "condition",
    "is_true",
    "status_of",
]

_MPI_ORDER: Final = ("Failed", "Succeeded", "Suspended", "Restarting", "Running", "Created")
"""The first of these conditions that is true is the phase, as `MPIJob.get_job_phase` has it."""


def section(obj: Any, name: str) -> Obj:
    """A part of an object that is an object itself; an empty one where it is not."""
    found = obj.get(name) if isinstance(obj, dict) else None
    return found if isinstance(found, dict) else {}


def status_of(obj: Obj) -> Obj:
    return section(obj, "status")


def sections(obj: Any, name: str) -> list[Obj]:
    """The objects in a list of an object; none where there is no list."""
    found = obj.get(name) if isinstance(obj, dict) else None
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def conditions(obj: Obj) -> list[Obj]:
    return sections(status_of(obj), "conditions")


def condition(obj: Obj, type_: str) -> Obj | None:
    return next((c for c in conditions(obj) if c.get("type") == type_), None)


def is_true(obj: Obj, type_: str) -> bool:
    return (condition(obj, type_) or {}).get("status") == "True"


def text(value: Any) -> str:
    return value if isinstance(value, str) else ""


# --- phases --------------------------------------------------------------------------------------


def mpi_phase(obj: Obj) -> str:
    return next((phase for phase in _MPI_ORDER if is_true(obj, phase)), "Pending")


def training_phase(obj: Obj) -> str:
    """Suspended and Restarting are conditions of a job that is not over."""
    phase = text(status_of(obj).get("phase")) or "Pending"
    if phase in ("Succeeded", "Failed"):
        return phase
    return next((word for word in ("Suspended", "Restarting") if is_true(obj, word)), phase)


def own_phase(obj: Obj) -> str:
    """What the status calls it itself."""
    return text(status_of(obj).get("phase")) or "Pending"


def spot_phase(obj: Obj) -> str:
    """The reference writes nothing but ``activeReplicas``; conditions and a phase win over it."""
    status = status_of(obj)
    if text(status.get("phase")):
        return text(status["phase"])
    for word in ("Failed", "Succeeded", "Suspended", "Restarting"):
        if is_true(obj, word):
            return word
    if _number(status.get("activeReplicas")):
        return "Running"
    phases = [text(job.get("phase")) for job in sections(status, "jobStatuses")]
    if phases and all(phase in ("Succeeded", "Complete", "Completed") for phase in phases):
        return "Succeeded"
    return "Running" if "Running" in phases else "Pending"


def vm_phase(obj: Obj) -> str:
    """Of the machines that were made: running when one is, terminated when all are."""
    status = status_of(obj)
    if text(status.get("phase")):
        return text(status["phase"])
    if is_true(obj, "Failed"):
        return "Failed"
    found = sections(status, "provisionedInstances")
    states = [text(instance.get("state")).upper() for instance in found]
    if "RUNNING" in states:
        return "Running"
    if states and all(state in ("TERMINATED", "STOPPING") for state in states):
        return "Terminated"
    return "Provisioning" if states else "Pending"


def group_phase(obj: Obj) -> str:
    status = status_of(obj)
    if not status:
        return "Pending"
    return "Ready" if _number(status.get("availableProplets")) else "Empty"


def record_phase(obj: Obj) -> str:
    """Of kinds that only say something: ready, or refused."""
    phase = text(status_of(obj).get("phase"))
    if phase:
        return phase
    ready = condition(obj, "Ready") or condition(obj, "Valid")
    words = {"True": "Ready", "False": "Failed"}
    return words.get(text((ready or {}).get("status")), "Pending")


def _number(value: Any) -> int:
    return value if isinstance(value, int) else 0


# --- messages ------------------------------------------------------------------------------------


def condition_message(obj: Obj, *types: str) -> str:
    """The message of the first of these conditions that is true, or its reason."""
    for type_ in types:
        found = condition(obj, type_)
        if found is not None and found.get("status") == "True":
            return text(found.get("message")) or text(found.get("reason"))
    return ""


def failure_message(obj: Obj) -> str:
    """``worker 1 on node a: OOMKilled (exit code 137): …``; empty without a failure."""
    failure = section(status_of(obj), "failure")
    if not failure:
        return ""
    who = text(failure.get("pod"))
    index = failure.get("replica") if isinstance(failure.get("replica"), int) else None
    if not who and index is not None:
        who = f"replica {index}"
    if text(failure.get("node")):
        who = f"{who} on node {failure['node']}".strip()
    why = text(failure.get("reason"))
    if isinstance(failure.get("exitCode"), int):
        why = f"{why} (exit code {failure['exitCode']})".strip()
    parts = (who, why, text(failure.get("message")))
    return ": ".join(part for part in parts if part)


def job_message(obj: Obj) -> str:
    """Of TrainingJobs and MPIJobs: the failure where there is one, else what the phase says."""
    if not is_true(obj, "Succeeded"):
        valid = condition(obj, "Valid")
        if valid is not None and valid.get("status") == "False":
            return text(valid.get("message"))
        failure = failure_message(obj)
        if failure:
            return failure
    return condition_message(obj, *_MPI_ORDER) or _unseen(obj)


def own_message(obj: Obj) -> str:
    """``message`` or ``error`` of the status, else that of its main condition."""
    status = status_of(obj)
    detail = text(status.get("message")) or text(status.get("error"))
    if detail:
        return detail
    for type_ in ("Ready", "Failed", "Succeeded", "Running"):
        found = condition(obj, type_)
        if found is not None and text(found.get("message")):
            return text(found["message"])
    return _unseen(obj)


def _unseen(obj: Obj) -> str:
    return "" if status_of(obj) else "no controller has looked at it yet"
