"""What the API server warns about, for the caller whose request it was.

Warnings come while a request is made, in the very task that makes it: they are noted for that
request and nobody else's. Where nobody listens they are left out; a log is no place for them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

__all__ = ["as_header", "collected", "note"]

_MOST: Final = 20
_LONGEST: Final = 400
_here: ContextVar[list[str] | None] = ContextVar("warnings", default=None)


def note(warning: str) -> None:
    """Keep a warning for the request at work."""
    found = _here.get()
    if found is not None and len(found) < _MOST and warning not in found:
        found.append(warning)


@contextmanager
def collected() -> Iterator[list[str]]:
    """The warnings of what is done inside."""
    found: list[str] = []
    before = _here.set(found)
    try:
        yield found
    finally:
        _here.reset(before)


def as_header(warning: str) -> str:
    """The value of a ``Warning`` header, as the API server itself writes them."""
    plain = "".join(char if " " <= char <= "~" else "?" for char in warning[:_LONGEST])
    escaped = plain.replace("\\", "\\\\").replace('"', '\\"')
    return f'299 - "{escaped}"'
