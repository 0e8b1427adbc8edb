"""What a decision about an MPIJob is made of, and what it says to do. No I/O."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from corral.families.mpijob.lifecycle.diagnosis import Trouble
from corral.families.mpijob.view import JobView
from corral.kube.types import Obj
from corral.runtime.sightings import Sightings

__all__ = ["Decision", "Launcher", "Observation"]


@dataclass(frozen=True, slots=True)
class Observation:
    """Everything that a decision depends on."""

    view: JobView
    job: Obj
    """As it was read."""
    launcher: Obj | None
    """The Job that this very MPIJob controls."""
    launcher_pods: Sequence[Obj]
    workers: Sequence[Obj]
    """All pods that the MPIJob controls."""
    now: float
    """Seconds since the epoch."""
    replaced: Mapping[int, int] = field(default_factory=dict)
    """How often this process has replaced each worker."""
    silent: Collection[str] = ()
    """Nodes that have workers of the job and do not answer any more."""
    gone: Collection[str] = ()
    """Those of them that are no part of the cluster any more."""
    explained: Obj | None = None
    """The failure of the launcher that its log named a worker for."""
    sightings: Sightings = field(default_factory=Sightings)
    """Since when this process knows times that lie ahead."""

    def since(self, at: float) -> float:
        """A time that is past, whatever clock wrote it."""
        return self.sightings.since(at, now=self.now)


class Launcher(Enum):
    """What to do with the launcher."""

    LEAVE = "leave"
    CREATE = "create"
    SUSPEND = "suspend"
    RESUME = "resume"


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do; a crash after any part of it does no harm."""

    status: Obj
    status_first: bool = False
    """Whether the status must be written before anything else is done: it says why."""
    trouble: Trouble | None = None
    """The pod whose log belongs into ``status.failure``."""
    objects: bool = False
    """Whether Service, ConfigMap, Secret and the like must be there."""
    pod_group: bool | None = None
    """Whether the PodGroup must be there, or gone; None: it is left alone."""
    running: tuple[str, ...] = ()
    """Names of the workers that run, for those who look for hosts."""
    complete: bool = False
    """Whether these are all, and a launcher may look for them: they are told at once."""
    settles: bool = False
    """Whether figures are about to change again: pods begin, or the launcher has just ended."""
    create: tuple[int, ...] = ()
    """Indexes of workers to create."""
    delete: tuple[Obj, ...] = ()
    """Workers to delete."""
    replace: tuple[Obj, ...] = ()
    """Dead workers to delete; they are created again when they are gone."""
    force: tuple[Obj, ...] = ()
    """Deleted workers whose node will never say that they have ended: to be taken off the books."""
    launcher: Launcher = Launcher.LEAVE
    expired: bool = False
    """The MPIJob itself is to be deleted."""
    requeue_after: float = 0.0
    """Seconds after which to decide again though nothing has changed; 0: no need to."""

    @property
    def acts(self) -> bool:
        """Whether there is something to do beside upkeep and the status."""
        return bool(
            self.create
            or self.delete
            or self.replace
            or self.force
            or self.expired
            or self.launcher is not Launcher.LEAVE
        )
