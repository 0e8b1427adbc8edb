"""What a process knows about a job beside what the cluster says; lost with the process."""

from __future__ import annotations

from dataclasses import dataclass, field

from corral.families.mpijob.view import JobView
from corral.kube.problems import FieldError
from corral.kube.types import Obj

__all__ = ["Memory"]


@dataclass(slots=True)
class Memory:
    """Of one job."""

    judged: tuple[object, ...] = ()
    """The generation and metadata that were judged last."""
    problems: list[FieldError] = field(default_factory=list)
    view: JobView | None = None
    said: dict[str, str] = field(default_factory=dict)
    """By reason: the last warning."""
    replaced: dict[int, int] = field(default_factory=dict)
    explained: Obj | None = None
    refusals: int = 0
    retry_at: float = 0.0
    wrote_at: float = 0.0
    """When the status was written last."""
    held_at: float = 0.0
    """Since when figures that are about to change again have not been written; 0: they have."""

    def set_right(self, now: float, *, longest: float) -> None:
        """Wait for nothing that a clock has noted that has been set back since.

        ``longest``: seconds until what was refused is tried again.
        """
        self.retry_at = min(self.retry_at, now + longest)
        self.wrote_at, self.held_at = min(self.wrote_at, now), min(self.held_at, now)
