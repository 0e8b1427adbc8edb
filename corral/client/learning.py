"""What a federated job has learned, round by round and proplet by proplet. No I/O.

Everything is taken from the status of the FederatedJob and of its TrainingRounds. Rounds that are
gone are still in the job's own status, without their participants.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from corral.client.phases import section, sections, status_of, text
from corral.kube.types import Obj

__all__ = ["JOB_LABEL", "learned"]

JOB_LABEL: Final = "federated-job"
"""On rounds, tasks and checkpoints of a job: its name."""

_ROUND: Final = (
    "startTime", "endTime", "aggregationSeconds", "samples", "bytes", "metrics", "message",
)  # fmt: skip
_PART: Final = (
    "status", "samples", "bytes", "durationSeconds", "metrics", "receivedTime", "roundsLate",
    "message",
)  # fmt: skip
_SUMS: Final = ("samples", "bytes", "durationSeconds")


def learned(job: Obj, rounds: Sequence[Obj]) -> Obj:
    """The figures of a job; ``rounds`` are its TrainingRounds as far as they are there."""
    status, spec, metadata = status_of(job), section(job, "spec"), section(job, "metadata")
    found = _rounds(status, rounds)
    out: Obj = {
        "kind": "FederatedJob",
        "namespace": text(metadata.get("namespace")),
        "name": text(metadata.get("name")),
        "phase": text(status.get("phase")) or "Pending",
        "algorithm": text(section(spec, "aggregator").get("algorithm")) or "fedavg",
        "currentRound": _whole(status.get("currentRound")),
        "completedRounds": _whole(status.get("completedRounds")),
        "totalRounds": max(_whole(section(spec, "rounds").get("total")), 1),
        "rounds": found,
        "proplets": _proplets(status, spec, found),
    }
    if text(status.get("aggregatedModelRef")):
        out["modelRef"] = status["aggregatedModelRef"]
    if section(status, "privacy"):
        out["privacy"] = status["privacy"]
    return out


def _whole(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


# --- rounds --------------------------------------------------------------------------------------


def _rounds(status: Obj, rounds: Sequence[Obj]) -> list[Obj]:
    """By number: as the round says, and where it is gone as the job has kept it."""
    found = {}
    for kept in sections(status, "rounds"):
        number = _whole(kept.get("round"))
        found[number] = {**kept, "phase": "Completed", "participants": []}
    for round_ in rounds:
        number = _number(round_)
        if number:
            found[number] = {**found.get(number, {}), **_round(round_, number)}
    return [found[number] for number in sorted(found)]


def _number(round_: Obj) -> int:
    digits = text(section(round_, "spec").get("roundId")).removeprefix("round-")
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 10 else 0


def _round(round_: Obj, number: int) -> Obj:
    status = status_of(round_)
    out: Obj = {
        "round": number,
        "name": text(section(round_, "metadata").get("name")),
        "phase": text(status.get("phase")) or "Pending",
        "updates": _whole(status.get("updatesReceived")),
        "required": _whole(status.get("updatesRequired")),
        "rejected": _whole(status.get("updatesRejected")),
        **{key: status[key] for key in _ROUND if status.get(key) is not None},
        "participants": [_participant(each) for each in sections(status, "participants")],
    }
    seconds = _seconds(status.get("startTime"), status.get("endTime"))
    if seconds is not None:
        out["durationSeconds"] = seconds
    if text(status.get("aggregatedModelRef")):
        out["modelRef"] = status["aggregatedModelRef"]
    return out


def _participant(entry: Obj) -> Obj:
    return {
        "propletId": text(entry.get("propletId")),
        "counted": entry.get("updateReceived") is True,
        "rejected": entry.get("rejected") is True,
        **{key: entry[key] for key in _PART if entry.get(key) is not None},
    }


def _seconds(start: object, end: object) -> float | None:
    try:
        first, last = datetime.fromisoformat(text(start)), datetime.fromisoformat(text(end))
    except ValueError:
        return None
    return max((last - first).total_seconds(), 0.0)


# --- proplets ------------------------------------------------------------------------------------


def _proplets(status: Obj, spec: Obj, rounds: Sequence[Obj]) -> list[Obj]:
    """Over all rounds, in the order of the spec: what was counted of each, and its last figures."""
    out: dict[str, Obj] = {}
    for each in sections(spec, "participants"):
        _entry(out, text(each.get("propletId")))
    for each in sections(status, "participants"):
        entry = _entry(out, text(each.get("propletId")))
        # the job's own counts go on when rounds are gone
        entry |= {key: each[key] for key in ("status", "updates", "rejected") if key in each}
        entry |= {key: each[key] for key in ("lastUpdate", "metrics") if each.get(key)}
    for round_ in rounds:
        for part in round_["participants"]:
            _add(_entry(out, part["propletId"]), part)
    return [entry for name, entry in out.items() if name]


def _entry(out: dict[str, Obj], name: str) -> Obj:
    blank: Obj = {"propletId": name, "status": "Pending", "updates": 0, "rejected": 0}
    blank |= dict.fromkeys((*_SUMS, "failed"), 0)
    return out.setdefault(name, blank)


def _add(entry: Obj, part: Obj) -> None:
    if part["counted"]:
        for key in _SUMS:
            entry[key] += _figure(part.get(key))
        if part.get("metrics"):
            entry["metrics"] = part["metrics"]
    elif part.get("status") == "Failed":
        entry["failed"] += 1


def _figure(value: Any) -> float | int:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else 0
