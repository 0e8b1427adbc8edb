"""What can be set about the controller of Greetings."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["GreetingSettings"]


@dataclass(frozen=True, slots=True)
class GreetingSettings:
    """Of one operator process; durations in seconds."""

    workers: int = 2
    timeout: float = 30.0
    field_manager: str = "corral-greeting"
