"""What can be set about the TrainingJob controllers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from corral.runtime.pods.reports import REPORT_AUDIENCE

__all__ = ["TrainingSettings"]


@dataclass(frozen=True, slots=True)
class TrainingSettings:
    """Of one operator process; durations in seconds."""

    report_url: str | None = None
    """Where pods reach the report endpoint, without a path; None: pods do not report."""
    report_ca: str = ""
    """PEM of the authority of the report endpoint; empty: plain HTTP or what systems trust."""
    report_audience: str = REPORT_AUDIENCE
    """For whom the tokens of pods are made."""
    workers: int = 10
    """Jobs that are worked on at the same time."""
    resync: float = 300.0
    """How often every job is looked at though nothing has changed."""
    timeout: float = 120.0
    """For one look at one job."""
    field_manager: str = "corral-trainingjob"
    pod_concurrency: int = 32
    """Pods of one job that are created or deleted at the same time."""
    local_root: Path | None = None
    """Where ``storage.local`` without a path is kept; None: such a job is refused."""
    restricted_user: int | None = 1000
    """The user of pods in restricted namespaces whose template names none; None: the image's."""
    gang_scheduler: str | None = None
    """``schedulerName`` of gangs; None: ``volcano`` for Volcano's PodGroups, else the default."""
