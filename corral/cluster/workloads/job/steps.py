"""The steps a pass over a job asks for, in order, and what its driver reports back.

A pass is a generator: it yields a step, the driver does it against the API and sends a Report,
and so on until the generator returns a Verdict. Nothing is retried inside a pass: a step that
fails as a whole (a conflict on the status, say) ends it, and the job is synced again later.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import TypeAlias

from corral.cluster.workloads import steps
from corral.cluster.workloads.job.backoff import Backoff
from corral.cluster.workloads.steps import Emit, Event
from corral.kube.types import Obj

__all__ = [
    "DONE",
    "CreatePods",
    "DeletePods",
    "Emit",
    "Event",
    "Pass",
    "RemoveFinalizers",
    "Report",
    "Step",
    "Verdict",
    "WriteStatus",
]


@dataclass(frozen=True, slots=True)
class CreatePods:
    """Create these, in slow-start batches; report those refused and those not tried."""

    bodies: tuple[Obj, ...]


@dataclass(frozen=True, slots=True)
class DeletePods:
    """Delete these; a pod that is gone already counts as deleted."""

    pods: tuple[Obj, ...]
    free_first: bool
    """Take the tracking finalizer off before: these pods are not counted."""


@dataclass(frozen=True, slots=True)
class WriteStatus:
    """Replace the job's status, at the resource version read or last written."""

    status: Obj
    events: tuple[Event, ...] = ()
    """To emit once the write has succeeded."""
    backoff: Backoff | None = None
    """To keep for the next pass once the write has succeeded."""


@dataclass(frozen=True, slots=True)
class RemoveFinalizers:
    """Take the tracking finalizer off these; a pod that is gone counts as done."""

    pods: tuple[Obj, ...]


Step: TypeAlias = CreatePods | DeletePods | WriteStatus | RemoveFinalizers | Emit


@dataclass(frozen=True, slots=True)
class Report:
    """How a step went."""

    failed: frozenset[int] = frozenset()
    """Positions, in the step's list, of what could not be done."""


DONE = Report()


@dataclass(frozen=True, slots=True)
class Verdict(steps.Verdict):
    """What remains after a pass."""

    finished: bool = False
    """The job has its Complete or Failed condition: the back-off record may be forgotten."""


Pass: TypeAlias = Generator[Step, Report, Verdict]
