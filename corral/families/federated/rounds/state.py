"""What becomes of a round: which updates have arrived, and whether they are enough. No I/O.

`observe` takes over what the tasks say, once: an update that was counted or refused stays so,
however often it is looked at and whatever becomes of its task. `decide` says what follows.
`choose` fixes the set of updates before it is aggregated, so that whoever aggregates it, and
however often, aggregates the same.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from enum import Enum
from typing import Final

from corral.families.federated.envelopes import Envelope, Rejected, read_envelope
from corral.families.federated.view import RoundView, phase_of, status_of
from corral.kube.types import Obj
from corral.runtime.keys import format_time, uid_of
from corral.runtime.pods.states import moment
from corral.runtime.sightings import Sightings

__all__ = [
    "Decision",
    "Rejection",
    "Step",
    "begin",
    "choose",
    "decide",
    "envelope_of",
    "extend",
    "fill",
    "is_open",
    "least",
    "note",
    "observe",
    "received",
    "reject",
    "reopen",
    "selected",
    "summarize",
]

_OPEN: Final = ("Pending", "Running")
MAX_MESSAGE: Final = 512


class Step(Enum):
    """What to do next."""

    WAIT = "wait"
    AGGREGATE = "aggregate"
    EXTEND = "extend"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Decision:
    """A step, and why."""

    step: Step
    reason: str = ""
    message: str = ""
    wait: float = 0.0
    """Seconds after which to look again; 0: when something changes."""


@dataclass(frozen=True, slots=True)
class Rejection:
    """An update that does not count, to be told once."""

    participant: str
    reason: str


# --- beginning -----------------------------------------------------------------------------------


def begin(view: RoundView, now: float) -> Obj:
    """The first status of a round."""
    status: Obj = {
        "phase": "Pending",
        "startTime": format_time(now),
        "updatesReceived": 0,
        "updatesRequired": view.needed,
        "participants": [{"propletId": each, "status": "Pending"} for each in view.participants],
    }
    if view.timeout:
        status["deadline"] = format_time(math.ceil(now + view.timeout))
    return status


def fill(status: Obj, participant: str, task: Obj, *, rounds_late: int = 0) -> None:
    """Note the task of a participant."""
    entry = _entry(status, participant)
    metadata = task["metadata"]
    entry["taskRef"] = {
        "apiVersion": task.get("apiVersion", ""),
        "kind": "WasmTask",
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "uid": uid_of(task),
    }
    if rounds_late:
        entry["roundsLate"] = rounds_late


def _entry(status: Obj, participant: str) -> Obj:
    found: Obj = next(e for e in status["participants"] if e["propletId"] == participant)
    return found


# --- observing -----------------------------------------------------------------------------------


def is_open(entry: Obj) -> bool:
    """Whether an update may still come of a participant."""
    return entry.get("status") in _OPEN


def received(status: Obj) -> list[Obj]:
    """The participants whose update counts."""
    return [e for e in status.get("participants") or () if e.get("updateReceived")]


def selected(status: Obj) -> list[Obj]:
    """Those of the set that is aggregated."""
    return [e for e in status.get("participants") or () if e.get("selected")]


def observe(
    view: RoundView, status: Obj, tasks: Mapping[str, Obj], now: float
) -> tuple[Obj, list[Rejection]]:
    """The status with what the tasks say, and which updates were refused just now.

    ``tasks`` are by name.
    """
    new, rejections = deepcopy(status), []
    for entry in new.get("participants") or ():
        reference = entry.get("taskRef") or {}
        if not is_open(entry) or not reference.get("uid"):
            continue
        task = tasks.get(reference["name"])
        if task is None or uid_of(task) != reference["uid"]:
            entry |= {"status": "Failed", "message": "its task was deleted"}
            continue
        refused = _take(view, entry, task, now)
        if refused:
            rejections.append(Rejection(entry["propletId"], refused))
    summarize(new)
    return new, rejections


def summarize(status: Obj) -> None:
    """Counts that follow from the participants."""
    entries = status.get("participants") or ()
    status["updatesReceived"] = len(received(status))
    refused = sum(bool(e.get("rejected")) for e in entries)
    if refused or status.get("updatesRejected"):
        status["updatesRejected"] = refused


def _take(view: RoundView, entry: Obj, task: Obj, now: float) -> str:
    """Take over the state of a task; why its update does not count, or nothing."""
    phase, told = phase_of(task), status_of(task)
    if phase == "Failed":
        why = str(told.get("error") or "its task failed")
        entry |= {"status": "Failed", "message": why[:MAX_MESSAGE]}
        return ""
    if phase != "Completed":
        entry["status"] = "Running" if phase == "Running" else "Pending"
        return ""
    entry["status"] = "Completed"
    start, end = moment(told.get("startTime")), moment(told.get("finishTime"))
    if start is not None and end is not None:
        entry["durationSeconds"] = max(end - start, 0)
    try:
        envelope = envelope_of(view, entry, task)
    except Rejected as error:
        _refuse(entry, str(error))
        return str(error)
    _count(entry, envelope, now)
    return ""


def envelope_of(view: RoundView, entry: Obj, task: Obj) -> Envelope:
    """The envelope of a participant's task; raises `Rejected`."""
    late = int(entry.get("roundsLate") or 0)
    told = status_of(task)
    return read_envelope(
        told.get("results"),
        round_=view.number - late,
        participant=entry["propletId"],
        known_as=[each for each in (told.get("propletId"),) if each],
        job_id=view.experiment or view.job,
        max_samples=view.max_samples,
    )


def _count(entry: Obj, envelope: Envelope, now: float) -> None:
    entry |= {
        "updateReceived": True,
        "receivedTime": format_time(now),
        "samples": envelope.samples,
        "updateDigest": envelope.digest,
    }
    if envelope.size:
        entry["bytes"] = envelope.size
    if envelope.format:
        entry["format"] = envelope.format
    if envelope.reference:
        entry["updateRef"] = envelope.reference
    if envelope.metrics:
        entry["metrics"] = dict(envelope.metrics)


def _refuse(entry: Obj, why: str) -> None:
    entry.pop("updateReceived", None)
    entry.pop("selected", None)
    entry |= {"rejected": True, "message": why[:MAX_MESSAGE]}


def note(status: Obj, notes: Sequence[Rejection]) -> None:
    """Say of updates that count how they do."""
    for each in notes:
        _entry(status, each.participant)["message"] = each.reason[:MAX_MESSAGE]


def reject(status: Obj, rejections: Sequence[Rejection]) -> None:
    """Take updates out of the count whose payload turned out to be no good."""
    for rejection in rejections:
        _refuse(_entry(status, rejection.participant), rejection.reason)
    summarize(status)


# --- deciding ------------------------------------------------------------------------------------


def decide(
    view: RoundView, status: Obj, now: float, *, sightings: Sightings | None = None
) -> Decision:
    """What follows from the updates and the time.

    ``sightings`` say since when a deadline is known that a wrong clock wrote.
    """
    entries = status.get("participants") or ()
    count, open_ = len(received(status)), sum(map(is_open, entries))
    lenient = view.on_timeout == "aggregate"
    enough = f"{count}/{view.needed} updates received"
    if view.needed > 0 and count >= view.needed:
        return Decision(Step.AGGREGATE, "UpdatesCollected", enough)
    # Time cannot bring more than those that are still open.
    if lenient and not open_ and count >= view.min_updates:
        return Decision(Step.AGGREGATE, "NoMoreUpdates", f"no more can come: {enough}")
    lowest = min(view.min_updates, view.needed) if lenient else view.needed
    if count + open_ < max(lowest, 1):
        why = f"only {enough}, and no more than {count + open_} can come"
        return Decision(Step.FAIL, "InsufficientUpdates", why)
    deadline = moment(status.get("deadline"))
    if deadline is None:
        return Decision(Step.WAIT)
    end = end_of(view, deadline, now, sightings or Sightings())
    if now < end:
        return Decision(Step.WAIT, wait=end - now)
    return _out_of_time(view, status, count)


def end_of(view: RoundView, deadline: float, now: float, sightings: Sightings) -> float:
    """When the time of a round is over whose deadline a wrong clock may have set."""
    if not view.timeout:
        return deadline  # the limit was taken away since
    return sightings.since(deadline - view.timeout, now=now) + view.timeout


def _out_of_time(view: RoundView, status: Obj, count: int) -> Decision:
    said = f"only {count}/{view.needed} updates received"
    if view.on_timeout == "aggregate" and count >= view.min_updates:
        return Decision(Step.AGGREGATE, "Timeout", f"the time is over: {said}")
    extensions = int(status.get("extensions") or 0)
    if view.on_timeout == "extend" and extensions < view.max_extensions:
        told = f"extended by {view.timeout:g} s ({extensions + 1} of {view.max_extensions})"
        return Decision(Step.EXTEND, "Extended", f"{told}: {said}")
    return Decision(Step.FAIL, "Timeout", f"Round timed out: {said}")


def choose(status: Obj, now: float) -> None:
    """From here on these updates are aggregated, and no others."""
    for entry in received(status):
        entry["selected"] = True
    status |= {"phase": "Aggregating", "aggregationTime": format_time(now)}


def least(view: RoundView, chosen: int) -> int:
    """How many of the chosen updates must turn out to be good."""
    return view.needed if chosen >= view.needed else view.min_updates


def reopen(status: Obj) -> None:
    """Too few of the chosen updates were good: others may still come."""
    for entry in status.get("participants") or ():
        entry.pop("selected", None)
    status.pop("aggregationTime", None)
    status["phase"] = "Running"


def extend(view: RoundView, status: Obj, now: float) -> None:
    """Give the round its time once more."""
    status["extensions"] = int(status.get("extensions") or 0) + 1
    status["deadline"] = format_time(math.ceil(now + view.timeout))
