"""Whether a cron schedule can be read; the reading itself is `corral.kube.cron`."""

from __future__ import annotations

from corral.kube.cron import ScheduleError, known_zone, parse

__all__ = ["known_zone", "schedule_error"]


def schedule_error(text: str) -> str:
    """Why a schedule cannot be read; empty when it can."""
    try:
        parse(text)
    except ScheduleError as bad:
        return str(bad)
    return ""
