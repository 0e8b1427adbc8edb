"""What a decision about a TrainingJob is made of, and what it says to do. No I/O."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from corral.kube.types import Obj
from corral.runtime.sightings import Sightings

__all__ = ["Decision", "Launch", "Observation", "Refusal"]


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why the server did not let us make what a job needs, the last time we tried."""

    reason: str
    """A word for a condition."""
    message: str
    since: float
    """When it was refused first."""
    until: float
    """When it may be tried again."""


@dataclass(frozen=True, slots=True)
class Observation:
    """Everything that a decision depends on."""

    job: Obj
    pods: Sequence[Obj]
    """All that the job controls."""
    checkpoints: Obj
    """The fields of ``status.checkpoint`` that follow from Checkpoint objects."""
    now: float
    """Seconds since the epoch."""
    claimed: frozenset[int] = frozenset()
    """Attempts that this very process has claimed: only their pods may be created by it."""
    known: frozenset[tuple[int, int]] = frozenset()
    """(replica, attempt) of pods that this process has created or seen."""
    refusal: Refusal | None = None
    placed_at: float = 0.0
    """When this process last created placeholders for the job."""
    sightings: Sightings = field(default_factory=Sightings)
    """Since when this process knows times that lie ahead."""

    def since(self, at: float) -> float:
        """A time that is past, whatever clock wrote it."""
        return self.sightings.since(at, now=self.now)


@dataclass(frozen=True, slots=True)
class Launch:
    """Pods to create."""

    attempt: int
    world: int
    indexes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Decision:
    """To be done in this order; a crash after any part of it does no harm."""

    status: Obj
    """What to write first; the rest is only to be done if that succeeds."""
    claimed: frozenset[int] = frozenset()
    """Attempts that writing the status claims."""
    culprit: Obj | None = None
    """The pod whose log belongs into ``status.failure``."""
    delete: tuple[Obj, ...] = ()
    """Pods to delete, with their grace period."""
    kill: tuple[Obj, ...] = ()
    """Pods to remove without waiting for their node."""
    launches: tuple[Launch, ...] = ()
    placeholders: tuple[int, ...] = ()
    """Numbers of placeholders to create."""
    upkeep: bool = False
    """Whether services and all that must be there."""
    clean_pods: str | None = None
    """The job has finished: clean up by this policy."""
    expired: bool = False
    """The job itself is to be deleted."""
    requeue_after: float = 0.0
    """Seconds after which to decide again though nothing has changed; 0: no need to."""
    known: frozenset[tuple[int, int]] = field(default=frozenset())
    """(replica, attempt) of the pods that count and are there."""
