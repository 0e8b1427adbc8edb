"""Times of objects: when they were created, started and finished, and how long that took."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from corral.client.phases import condition, status_of, text
from corral.kube.types import Obj

__all__ = ["duration", "finish_time", "parse_time", "start_time"]

_STARTS = ("startTime",)
_ENDS = ("completionTime", "finishTime", "endTime")


def parse_time(value: Any) -> datetime | None:
    """A time of the API; none where it is no time."""
    try:
        read = datetime.fromisoformat(value) if isinstance(value, str) and value else None
    except ValueError:
        return None
    return read.replace(tzinfo=UTC) if read is not None and read.tzinfo is None else read


def start_time(obj: Obj) -> str:
    """When it began to run; empty before."""
    return _first(status_of(obj), _STARTS)


def finish_time(obj: Obj) -> str:
    """When it ended; empty before."""
    return _first(status_of(obj), _ENDS)


def _first(status: Obj, names: tuple[str, ...]) -> str:
    return next((text(status[name]) for name in names if text(status.get(name))), "")


def duration(obj: Obj, now: datetime) -> timedelta | None:
    """How long it ran until its end, its suspension, or now; none before it has started."""
    start = parse_time(start_time(obj))
    if start is None:
        return None
    end = parse_time(finish_time(obj)) or _suspended_since(obj) or now
    return max(end - start, timedelta(0))


def _suspended_since(obj: Obj) -> datetime | None:
    found = condition(obj, "Suspended") or {}
    return parse_time(found.get("lastTransitionTime")) if found.get("status") == "True" else None
