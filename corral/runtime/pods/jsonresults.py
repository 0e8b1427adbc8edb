"""JSON objects that pods leave behind, in messages, annotations and logs. No I/O."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import orjson

from corral.kube.types import Obj

__all__ = ["MAX_RESULT", "as_object", "last_object"]

MAX_RESULT: Final = 1 << 20
"""Bytes of a result that is kept in a status; the API server takes little more."""
MAX_DEPTH: Final = 64
"""Objects and lists within each other; more would not go through the API server either."""


def as_object(text: Any) -> Obj | None:
    """A text as a JSON object; none where it is anything else."""
    if not isinstance(text, str | bytes) or not text or len(text) > MAX_RESULT:
        return None
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(found, dict):
        return None
    try:
        return _storable(found, MAX_DEPTH)  # type: ignore[no-any-return]
    except _TooDeep:
        return None


class _TooDeep(Exception):
    """An object in objects in objects: nobody's result."""


def _storable(value: Any, depth: int) -> Any:
    """Without fields that are null: a status cannot be patched to have any."""
    if not isinstance(value, dict | list):
        return value
    if not depth:
        raise _TooDeep
    if isinstance(value, list):
        return [_storable(item, depth - 1) for item in value]
    return {key: _storable(item, depth - 1) for key, item in value.items() if item is not None}


def last_object(lines: Iterable[str]) -> Obj | None:
    """The last line that is a JSON object."""
    for line in reversed(list(lines)):
        found = as_object(line.strip())
        if found is not None:
            return found
    return None
