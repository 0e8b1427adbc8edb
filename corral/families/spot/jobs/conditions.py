"""The conditions and the message of a spot job's status. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from corral.api.spot.status import FAILED, RUNNING, SUCCEEDED
from corral.kube.types import Obj
from corral.runtime.conditions import find_condition, set_condition

__all__ = ["PLACED", "describe", "refuse"]

PLACED: Final = "Placed"
"""Whether every copy has a machine, or one on its way."""
_PHASES: Final = (RUNNING, "Restarting", "Suspended", SUCCEEDED, FAILED)


def describe(status: Obj, waits: Sequence[str], *, now: str, generation: int | None = None) -> None:
    """Set conditions and message, in place; ``waits`` says why copies have no machine."""
    conditions: list[Obj] = status.setdefault("conditions", [])
    phase = status.get("phase")
    over = phase in (SUCCEEDED, FAILED)
    if not over:
        _say(status, "; ".join(waits) or _words(status))
    message = str(status.get("message") or "")
    for word in _PHASES:
        if phase == word or find_condition(conditions, word) is not None:
            state = "True" if phase == word else "False"
            set_condition(
                conditions,
                word,
                status=state,
                reason=word if state == "True" else str(phase),
                message=message if state == "True" else "",
                now=now,
                observed_generation=generation,
            )
    placed = not waits and phase not in ("Suspended", SUCCEEDED, FAILED)
    set_condition(
        conditions,
        PLACED,
        status="True" if placed else "False",
        reason="Placed" if placed else "Waiting" if waits else str(phase),
        message="; ".join(waits),
        now=now,
        observed_generation=generation,
    )


def refuse(status: Obj, message: str, *, now: str, generation: int | None = None) -> None:
    """The job cannot be run as it is; it waits for a change."""
    status["phase"] = "Pending"
    _say(status, message)
    set_condition(
        status.setdefault("conditions", []),
        PLACED,
        status="False",
        reason="Invalid",
        message=message,
        now=now,
        observed_generation=generation,
    )


def _say(status: Obj, message: str) -> None:
    if message:
        status["message"] = message
    else:
        status.pop("message", None)


def _words(status: Obj) -> str:
    phase = status.get("phase")
    entries = status.get("jobStatuses") or ()
    if phase == RUNNING:
        return f"{status.get('activeReplicas') or 0} of {len(entries)} copies run"
    if phase == "Suspended":
        return "it is suspended; its checkpoints stay"
    machines = [p for p in status.get("placements") or () if not p.get("endTime")]
    coming = [p for p in machines if not p.get("readyTime")]
    if coming:
        return f"{len(coming)} of {len(machines)} machines are on their way"
    return "copies are being started" if machines else ""
