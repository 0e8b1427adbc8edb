"""Names and namespaces that objects can have; anything else is a mistake that is told at once.

It never reaches the path of a request, where it might mean something else.
"""

from __future__ import annotations

import re
from typing import Final

from corral.client.errors import BadRequest

__all__ = ["check_name", "check_namespace"]

_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_NAMESPACE: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")


def check_name(name: str) -> None:
    """Raises BadRequest unless an object can have this name."""
    _check(name, _NAME, what="name", longest=253)


def check_namespace(namespace: str | None) -> None:
    """Raises BadRequest unless there can be such a namespace; none stands for all."""
    if namespace is not None:
        _check(namespace, _NAMESPACE, what="namespace", longest=63)


def _check(word: str, pattern: re.Pattern[str], *, what: str, longest: int) -> None:
    if len(word) > longest or not pattern.fullmatch(word):
        detail = repr(word) if len(word) <= longest else f"{word[:20]!r}…"
        raise BadRequest(
            f"{detail} is no {what} that anything can have",
            hint=f"a {what} has lower-case letters, digits and '-', at most {longest}, "
            "with a letter or digit at both ends",
        )
