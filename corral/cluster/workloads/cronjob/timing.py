"""Which run of a cron job is due, and when to look again."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from corral.cluster.workloads.times import datetime_or_zero, seconds_between
from corral.kube.cron import Schedule, ScheduleError
from corral.kube.times import parse_datetime
from corral.kube.types import Obj

__all__ = ["Due", "due_run", "seconds_to_next"]

_MANY: Final = 100
"""More missed runs than this are worth a warning."""
_PADDING_S: Final = 0.1
"""Added to every wait, so that a clock that is slightly off does not wake up too early."""
_WRONG_CLOCK: Final = timedelta(hours=1)
"""A last run further in the future was started by a clock that has been set back since: it says
nothing, or there would be no run until its time comes."""
_LATE: Final = timedelta(seconds=100)
"""How late a run may be then."""


@dataclass(frozen=True, slots=True)
class Due:
    """What was missed since the last run (or the creation)."""

    since: datetime
    run: datetime | None = None
    """The latest run that should have been started by now; None when there is none."""
    missed: int = 0
    """About how many should have; 0 when the latest one is the only one."""

    @property
    def too_many(self) -> bool:
        return self.missed > _MANY


def due_run(cron_job: Obj, now: datetime, schedule: Schedule, *, deadline: bool = True) -> Due:
    """The latest run due. With ``deadline``, runs past startingDeadlineSeconds are not seen.

    Raises:
        ScheduleError: The schedule never comes.
    """
    since = _since(cron_job, now, deadline=deadline)
    first = schedule.next(since)
    if first is None:
        raise ScheduleError("time difference between two schedules is less than 1 second")
    if now < first:
        return Due(since)
    second = schedule.next(first)
    if second is None or now < second:
        return Due(since, first)
    apart = max(1, round(seconds_between(first, second)))
    missed = int(seconds_between(first, now)) // apart + 1
    # The estimate assumes even gaps: go one gap back and let the schedule find the rest.
    found, at = None, schedule.next(first + timedelta(seconds=(missed - 2) * apart))
    while at is not None and at <= now:
        found, at = at, schedule.next(at)
    return Due(since, found, missed)


def _since(cron_job: Obj, now: datetime, *, deadline: bool) -> datetime:
    last = parse_datetime((cron_job.get("status") or {}).get("lastScheduleTime"))
    if last is not None and last - now > _WRONG_CLOCK:
        return now - _LATE
    since = last or datetime_or_zero(cron_job["metadata"].get("creationTimestamp"))
    seconds = cron_job["spec"].get("startingDeadlineSeconds")
    if deadline and seconds is not None:
        since = max(since, now - timedelta(seconds=seconds))
    return since


def seconds_to_next(cron_job: Obj, now: datetime, schedule: Schedule) -> float | None:
    """How long until the next run; None when there will be none."""
    try:
        due = due_run(cron_job, now, schedule, deadline=False)
    except ScheduleError:
        return None
    if due.run is not None:
        start = due.run
    else:
        start = now if due.missed else due.since
    upcoming = schedule.next(start)
    return None if upcoming is None else seconds_between(now, upcoming) + _PADDING_S
