"""The deadline guard: how much time may still be lost before only machines on demand will do."""

from __future__ import annotations

from math import inf

from corral.spot.estimate import Estimate
from corral.spot.workload import Progress, Workload

__all__ = ["slack"]


def slack(
    workload: Workload, progress: Progress, sure: Estimate | None, *, now: float, running: bool
) -> float:
    """Seconds that may be lost and a sure machine, asked for then, is still in time.

    Only saved work counts: a machine that may be taken may take the rest with it.

    Args:
        workload: What is to be done, and until when.
        progress: How far it is.
        sure: The machine on demand that would be used; none where none may be.
        now: The time.
        running: That very machine runs already, so that what is in its memory counts too.
    """
    if workload.deadline is None:
        return inf
    if sure is None:
        return inf
    done = progress.done_s if running else progress.saved_s
    needed = max(workload.work_s - done, 0.0) / sure.speed
    return workload.deadline - now - needed - (0.0 if running else sure.entry_s)
