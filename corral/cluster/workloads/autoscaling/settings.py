"""How autoscalers behave where their objects do not say."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Settings"]


@dataclass(frozen=True, slots=True)
class Settings:
    """Seconds, unless it says otherwise."""

    period: float = 15.0
    """How often every autoscaler is looked at."""
    downscale_window: float = 300.0
    """How long the highest recommendation holds."""
    tolerance: float = 0.1
    """Ratio by which use may differ from the target without consequences."""
    cpu_initialization: float = 300.0
    """Age of a pod up to which its CPU use counts only once it is ready."""
    readiness_delay: float = 30.0
    """Age at which a pod that has changed to not ready was ready before."""
    workers: int = 5
