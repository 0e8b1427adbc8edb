"""What is next for a CheckpointBackup, by what it asks for and what was written down. Pure.

A run begins with a note of its start, so that a process that takes over knows which run it is and
until when it may take. A backup on a schedule runs again after every end, also after a failure;
runs that were missed are made up for by one.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from corral.api.spot.backup import CheckpointBackupSpec
from corral.api.spot.status import BACKUP_ENDS
from corral.kube.cron import parse
from corral.kube.types import Obj
from corral.runtime.pods.states import moment
from corral.runtime.sightings import Sightings

__all__ = ["Expired", "Go", "Over", "Step", "Wait", "next_step", "started_at"]

CHECKPOINTING: Final = "Checkpointing"


@dataclass(frozen=True, slots=True)
class Go:
    """Work; a new run, or the one that was begun."""

    started: float | None = None
    """Seconds since the epoch when the run was begun; None: it is to be begun."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing to do for so many seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Expired:
    """The run has taken too long."""


@dataclass(frozen=True, slots=True)
class Over:
    """Nothing follows."""


Step = Go | Wait | Expired | Over


def started_at(backup: Obj) -> float | None:
    """When the last run was begun."""
    return moment((backup.get("status") or {}).get("startTime"))


def next_step(
    backup: Obj,
    spec: CheckpointBackupSpec,
    now: float,
    *,
    sightings: Sightings | None = None,
) -> Step:
    """What to do at a time in seconds since the epoch.

    ``sightings`` say since when a start is known that a wrong clock wrote.
    """
    sightings = sightings or Sightings()
    phase = (backup.get("status") or {}).get("phase") or ""
    started = started_at(backup)
    if phase and phase not in BACKUP_ENDS and started is not None:
        end = sightings.since(started, now=now) + spec.timeout_seconds
        return Expired() if now >= end else Go(started)
    if spec.once:
        return Over() if phase in BACKUP_ENDS else Go()
    last = started if started is not None else moment(backup["metadata"]["creationTimestamp"])
    due = _next(spec.schedule or "", sightings.since(last if last is not None else now, now=now))
    if due is None:
        return Over()
    return Go() if due <= now else Wait(due - now)


def _next(schedule: str, after: float) -> float | None:
    found = parse(schedule).next(datetime.fromtimestamp(after, UTC))
    return None if found is None else found.timestamp()
