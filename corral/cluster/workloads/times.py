"""What controllers of workloads add to the times of `corral.kube.times`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from corral.kube.times import parse_datetime

__all__ = ["ZERO", "datetime_or_zero", "seconds_between"]

ZERO = datetime.min.replace(tzinfo=UTC)
"""What an absent time compares as: before every other one."""


def datetime_or_zero(text: str | None) -> datetime:
    """The time in ``text``, or ZERO."""
    return parse_datetime(text) or ZERO


def seconds_between(earlier: datetime, later: datetime) -> float:
    """How long ``later`` is after ``earlier``; negative when it is before."""
    return (later - earlier) / timedelta(seconds=1)
