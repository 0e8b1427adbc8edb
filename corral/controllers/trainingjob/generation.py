"""Which generation of pods a job is at, and what all its pods are told."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Generation"]


@dataclass(frozen=True, slots=True)
class Generation:
    """One set of pods; a restart, a change of their number and a resume make the next one."""

    attempt: int
    """``status.attempt``; goes up with every generation."""
    world: int
    """How many replicas there are."""
    restore_from: str = "latest"
    """What training starts from: ``latest``, ``none``, a checkpoint's id or a URI."""
