"""Times as the API writes them: RFC 3339, in whole seconds."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache

__all__ = ["format_time", "parse_time"]


def format_time(seconds: float) -> str:
    return _format_second(int(seconds))


@lru_cache(maxsize=1024)
def _format_second(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_time(text: str) -> float:
    """Raises ValueError."""
    return datetime.fromisoformat(text).timestamp()
