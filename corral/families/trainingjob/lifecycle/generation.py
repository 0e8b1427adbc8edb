"""Which generation of pods a job is at, and what all its pods are told."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Generation"]


@dataclass(frozen=True, slots=True)
class Generation:
    """One set of pods; a restart, a change of their number and a resume make the next one."""

    attempt: int
    """The attempt that these pods are; goes up with every generation."""
    world: int
    """How many replicas there are."""
    restore_from: str = "latest"
    """What training starts from: ``latest``, ``none``, a checkpoint's id or a URI."""
    set_attempt: int | None = None
    """The attempt of the set that replicas join which are restarted alone: ``status.attempt``."""

    @property
    def shared_attempt(self) -> int:
        """What all replicas that work together have in common: their meeting point, their fence."""
        return self.attempt if self.set_attempt is None else self.set_attempt
