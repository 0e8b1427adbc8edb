"""ttlSecondsAfterFinished: when a finished job is to be deleted."""

from __future__ import annotations

from datetime import datetime, timedelta

from corral.cluster.workloads.job.state import finished_condition
from corral.cluster.workloads.pods import is_deleting
from corral.cluster.workloads.times import seconds_between
from corral.kube.times import parse_datetime
from corral.kube.types import Obj

__all__ = ["time_to_live"]


def time_to_live(job: Obj, now: datetime) -> float | None:
    """Seconds the finished job may still stay (0: delete it now); None when it is not to go.

    Before the deletion the job is read again and this asked again: the field may have changed.
    """
    seconds = job["spec"].get("ttlSecondsAfterFinished")
    finished = finished_condition(job)
    if seconds is None or finished is None or is_deleting(job):
        return None
    at = parse_datetime(finished.get("lastTransitionTime"))
    if at is None:
        return None
    return max(0.0, seconds_between(now, at + timedelta(seconds=seconds)))
