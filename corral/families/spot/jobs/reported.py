"""What a copy of a spot job has told, and what it is asked for: notes on its pod. Pure.

The report endpoint writes the first three when the pod speaks to it; whoever wants a checkpoint at
once writes the request, and the pod answers with a checkpoint that names it. Notes go with the pod.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from typing import Any, Final, TypeVar

from corral.egress.reading import load_json
from corral.kube.types import Obj

__all__ = [
    "LAST_CHECKPOINT",
    "PROGRESS",
    "REQUEST",
    "RESTORED",
    "LastCheckpoint",
    "Progress",
    "Restored",
    "asks_for_checkpoint",
    "last_checkpoint",
    "note",
    "progress",
    "request_of",
    "restored",
]

LAST_CHECKPOINT: Final = "training.dcnlab.com/last-checkpoint"
PROGRESS: Final = "training.dcnlab.com/progress"
RESTORED: Final = "training.dcnlab.com/restored"
REQUEST: Final = "training.dcnlab.com/checkpoint-request"
"""Any new text asks for a checkpoint."""


@dataclass(frozen=True, slots=True)
class LastCheckpoint:
    """The newest checkpoint of one pod."""

    id: str
    step: int
    time: float
    """When it was begun, in seconds since the epoch."""
    attempt: int = 0
    seconds: float | None = None
    """How long it took until it was complete."""
    bytes: int = 0
    request: str = ""
    """The newest request that was answered by one."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a pod is."""

    time: float
    """When it said so, in seconds since the epoch."""
    step: int | None = None
    total: int | None = None
    rate: float | None = None
    """Steps a second."""


@dataclass(frozen=True, slots=True)
class Restored:
    """What a pod started from."""

    id: str
    step: int | None = None


N = TypeVar("N", LastCheckpoint, Progress, Restored)


def last_checkpoint(pod: Obj) -> LastCheckpoint | None:
    return _read(pod, LAST_CHECKPOINT, LastCheckpoint)


def progress(pod: Obj) -> Progress | None:
    return _read(pod, PROGRESS, Progress)


def restored(pod: Obj) -> Restored | None:
    return _read(pod, RESTORED, Restored)


def request_of(pod: Obj) -> str | None:
    """The request that no checkpoint has answered yet."""
    asked = (pod["metadata"].get("annotations") or {}).get(REQUEST)
    if not asked:
        return None
    last = last_checkpoint(pod)
    return None if last is not None and last.request == asked else str(asked)


def asks_for_checkpoint(request: str) -> Obj:
    """The patch of a pod that asks it for a checkpoint."""
    return {"metadata": {"annotations": {REQUEST: request}}}


def note(told: LastCheckpoint | Progress | Restored) -> dict[str, str]:
    """As an annotation."""
    key = {LastCheckpoint: LAST_CHECKPOINT, Progress: PROGRESS, Restored: RESTORED}[type(told)]
    kept = {name: value for name, value in asdict(told).items() if value is not None}
    return {key: json.dumps(kept, separators=(",", ":"))}


def _read(pod: Obj, key: str, kind: type[N]) -> N | None:
    """None where there is none, or what is there is not ours."""
    text = (pod["metadata"].get("annotations") or {}).get(key)
    if not text:
        return None
    try:
        found: Any = load_json(text)
        known = {field.name for field in fields(kind)}
        return kind(**{name: value for name, value in found.items() if name in known})
    except (ValueError, TypeError, AttributeError):
        return None
