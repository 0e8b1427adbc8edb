"""``Link`` headers: where the next page of a list is."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

__all__ = ["next_page"]

_NEXT: Final = re.compile(r'<([^<>]*)>\s*;[^,]*\brel="?next"?')


def next_page(headers: Iterable[str]) -> str:
    """The address of the next page, maybe relative; empty on the last."""
    for header in headers:
        match = _NEXT.search(header)
        if match:
            return match[1]
    return ""
