"""What is known about a FederatedJob: its status, as its rounds tell it. No I/O.

Everything that is counted is counted by the number of a round, in the same write as
``completedRounds``: a round that is looked at again adds nothing.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Final

from corral.api.propeller.kinds import FederatedJob
from corral.api.propeller.rules import invalid_spec
from corral.families.federated.rounds.conclusion import condition, duration
from corral.families.federated.rounds.state import received, selected
from corral.families.federated.view import status_of
from corral.kube.types import Obj
from corral.runtime.keys import format_time

__all__ = ["SUSPENDED", "end", "follow", "problem", "record", "set_suspended"]

READY: Final = "Ready"
SUSPENDED: Final = "Suspended"
MAX_ROUNDS: Final = 100
"""Rounds whose figures a status has; all are in the ModelCheckpoints."""
_FIGURES: Final = (("samples", "samples"), ("bytes", "bytes"), ("metrics", "metrics"))


def problem(job: Obj) -> str:
    """Why a job cannot run, in the words of the contract; empty where it can."""
    return invalid_spec(FederatedJob.read(job).spec)


# --- participants --------------------------------------------------------------------------------


def follow(job: Obj, status: Obj, round_: Obj | None) -> None:
    """Take over how the participants of the present round are."""
    known = {entry["propletId"]: entry for entry in status.get("participants") or ()}
    told = status_of(round_ or {}).get("participants") or ()
    now = {entry["propletId"]: entry for entry in told}
    out = []
    for each in job["spec"].get("participants") or ():
        name = each["propletId"]
        entry = deepcopy(known.get(name) or {"propletId": name, "status": "Pending"})
        if name in now:
            _take(entry, now[name])
        out.append(entry)
    status["participants"] = out


def _take(entry: Obj, told: Obj) -> None:
    entry["status"] = told.get("status") or "Pending"
    if not told.get("updateReceived"):
        return
    entry["lastUpdate"] = told["receivedTime"]
    for key in ("samples", "bytes", "durationSeconds", "metrics"):
        if told.get(key) is not None:
            entry[key] = told[key]


# --- rounds --------------------------------------------------------------------------------------


def record(job: Obj, status: Obj, round_: Obj, number: int, *, epsilon: float | None) -> None:
    """A round is completed; again it changes nothing."""
    told = status_of(round_)
    follow(job, status, round_)
    status["aggregatedModelRef"] = told.get("aggregatedModelRef", "")
    if told.get("modelDigest"):
        status["modelDigest"] = told["modelDigest"]
    if number <= int(status.get("completedRounds") or 0):
        return
    status["completedRounds"] = number
    counted = {entry["propletId"] for entry in selected(told)}
    refused = {e["propletId"] for e in told.get("participants") or () if e.get("rejected")}
    for entry in status["participants"]:
        for key, names in (("updates", counted), ("rejected", refused)):
            if entry["propletId"] in names:
                entry[key] = int(entry.get(key) or 0) + 1
    figures: Obj = {
        "round": number,
        "updates": len(counted),
        "durationSeconds": duration(told),
        "modelRef": told.get("aggregatedModelRef", ""),
    }
    if refused:
        figures["rejected"] = len(refused)
    if told.get("aggregationSeconds") is not None:
        figures["aggregationSeconds"] = told["aggregationSeconds"]
    figures |= {to: told[key] for key, to in _FIGURES if told.get(key) is not None}
    if epsilon is not None:
        figures["epsilon"] = epsilon
    status["rounds"] = [*(status.get("rounds") or ()), figures][-MAX_ROUNDS:]


def progress(round_: Obj | None) -> str:
    """One line about the present round."""
    told = status_of(round_ or {})
    return f"{len(received(told))} of {told.get('updatesRequired', '?')} updates"


def end(
    status: Obj, *, phase: str, reason: str, message: str, now: float, detail: str = ""
) -> None:
    """The job is over; the condition has the contract's words, the status may tell more."""
    told = detail or message
    status |= {"phase": phase, "finishTime": format_time(now), "message": told[:1024]}
    condition(status, READY, holds=phase == "Completed", reason=reason, message=message, now=now)


def set_suspended(status: Obj, *, suspended: bool, now: float) -> bool:
    """Show whether the job is suspended; whether that is news."""
    known = [c for c in status.get("conditions") or () if c["type"] == SUSPENDED]
    if not suspended and not known:
        return False
    before = bool(known and known[0]["status"] == "True")
    condition(
        status,
        SUSPENDED,
        holds=suspended,
        reason="Suspended" if suspended else "Resumed",
        message="no further round begins" if suspended else "rounds go on",
        now=now,
    )
    return before != suspended
