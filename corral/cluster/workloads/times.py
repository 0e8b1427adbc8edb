"""Moments as the API writes them: RFC 3339 in whole seconds, UTC."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

__all__ = ["ZERO", "moment", "moment_or_zero", "seconds_between", "stamp"]

ZERO = datetime.min.replace(tzinfo=UTC)
"""What an absent time compares as: before every other one."""


def moment(text: str | None) -> datetime | None:
    """The time in ``text``; None where there is none."""
    return datetime.fromisoformat(text) if text else None


def moment_or_zero(text: str | None) -> datetime:
    """The time in ``text``, or ZERO."""
    return datetime.fromisoformat(text) if text else ZERO


def stamp(when: datetime) -> str:
    """``when`` as the API stores it."""
    return when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def seconds_between(earlier: datetime, later: datetime) -> float:
    """How long ``later`` is after ``earlier``; negative when it is before."""
    return (later - earlier) / timedelta(seconds=1)
