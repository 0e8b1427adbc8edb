"""Whether an object is as it should be. No I/O."""

from __future__ import annotations

from typing import Any

__all__ = ["contains"]


def contains(found: Any, wanted: Any) -> bool:
    """Whether everything wanted is there; what a server or others added does not matter."""
    if isinstance(wanted, dict):
        if not isinstance(found, dict):
            return not wanted and found is None  # an empty object need not be kept
        return all(contains(found.get(key), value) for key, value in wanted.items())
    if isinstance(wanted, list):
        return (
            isinstance(found, list)
            and len(found) == len(wanted)
            and all(map(contains, found, wanted))
        )
    return bool(found == wanted)
