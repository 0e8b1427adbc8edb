"""Times of the Kubernetes API: ``Time`` (whole seconds) and ``MicroTime``, RFC 3339 in UTC."""

from __future__ import annotations

from datetime import UTC, datetime

__all__ = ["format_datetime", "format_micro_time", "format_time", "parse_datetime", "parse_time"]


def parse_time(text: str | None) -> float | None:
    """Seconds since the epoch; None where there is no time. Raises ValueError."""
    return datetime.fromisoformat(text).timestamp() if text else None


def parse_datetime(text: str | None) -> datetime | None:
    """The same as a datetime of the zone that is written. Raises ValueError."""
    return datetime.fromisoformat(text) if text else None


def format_time(seconds: float) -> str:
    """Seconds since the epoch as ``Time``."""
    return format_datetime(datetime.fromtimestamp(int(seconds), UTC))


def format_micro_time(seconds: float) -> str:
    """Seconds since the epoch as ``MicroTime``."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def format_datetime(when: datetime) -> str:
    """A datetime of any zone as ``Time``."""
    return when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
