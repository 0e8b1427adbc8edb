"""Events that a decision or a change of status stands for. No I/O."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal, NamedTuple

from corral.kube.types import Obj
from corral.runtime.conditions import find_condition

if TYPE_CHECKING:
    from corral.runtime.events.recorder import EventRecorder

__all__ = ["Event", "became", "normal", "record", "warning"]


class Event(NamedTuple):
    """To be recorded about an object, once the status that it tells of is written."""

    type: Literal["Normal", "Warning"]
    reason: str
    message: str


def normal(reason: str, message: str) -> Event:
    """Something happened as it should."""
    return Event("Normal", reason, message)


def warning(reason: str, message: str) -> Event:
    """Something went wrong."""
    return Event("Warning", reason, message)


def became(old: Obj, new: Obj, type: str, status: str) -> bool:
    """Whether a condition has this status in ``new`` and had another one, or none, in ``old``."""
    before = find_condition(old.get("conditions"), type) or {}
    after = find_condition(new.get("conditions"), type) or {}
    return bool(after.get("status") == status and before.get("status") != status)


def record(recorder: EventRecorder, obj: Obj, events: Iterable[Event]) -> None:
    """Record all of them about an object."""
    for event in events:
        recorder.record(obj, event.type, reason=event.reason, message=event.message)
