"""What passes over workloads have in common: events to emit, and what a driver answers.

A pass is a generator that does no I/O: it yields steps, the driver does each against the API and
sends an answer, and in the end the generator returns a verdict. Every controller adds the steps of
its own.
"""

from __future__ import annotations

from dataclasses import dataclass

from corral.kube.types import Obj
from corral.runtime import EventRecorder

__all__ = ["Answer", "Emit", "Event", "Failed", "Verdict", "emit"]


@dataclass(frozen=True, slots=True)
class Event:
    """An event about the object that the pass is over."""

    type: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Emit:
    """Only say this."""

    events: tuple[Event, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """How a step went."""

    found: Obj | None = None
    """The object read, created or in the way."""
    existed: bool = False
    """Something was there already: what to create (``found`` has it), or what to delete."""
    error: str | None = None
    """Why the step failed."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What remains after a pass."""

    requeue_after: float | None = None
    """Pass over it again after so many seconds, even if nothing changes."""
    retry: bool = False
    """Something could not be done: pass over it again with the queue's own back-off."""


class Failed(Exception):
    """A step failed: the pass ends here and is tried again."""


def emit(recorder: EventRecorder, about: Obj, events: tuple[Event, ...]) -> None:
    """Record events about an object, in order."""
    for event in events:
        if event.type == "Warning":
            recorder.warning(about, event.reason, event.message)
        else:
            recorder.normal(about, event.reason, event.message)
