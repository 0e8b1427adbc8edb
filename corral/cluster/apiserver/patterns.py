"""Regular expressions of users, run by RE2: in time linear in the text, whatever the pattern.

RE2 and Go's regexp package read the same syntax; only what they say about a malformed pattern
differs.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import re2

__all__ = ["compile_pattern", "compiled", "pattern_problem"]

_OPTIONS = re2.Options()
_OPTIONS.log_errors = False

_REASONS = {
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "no argument for repetition operator": "missing argument to repetition operator",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid repetition size": "invalid repeat count",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid named capture group": "invalid named capture",
    "trailing \\": "trailing backslash at end of expression",
}
"""RE2's words and Go's."""


@lru_cache(maxsize=4096)
def compiled(pattern: str) -> Any:
    """The pattern, ready to match. Raises ValueError with Go's reason."""
    try:
        return re2.compile(pattern, _OPTIONS)
    except re2.error as why:
        raise ValueError(_go_reason(why.args[0])) from None


def compile_pattern(pattern: str) -> Callable[[str], Any]:
    """The search function of a pattern; nothing matches a malformed one."""
    try:
        return compiled(pattern).search  # type: ignore[no-any-return]
    except ValueError:
        return lambda text: None


def pattern_problem(pattern: str) -> str | None:
    """What Go's regexp package says about a malformed pattern, or None."""
    try:
        compiled(pattern)
    except ValueError as why:
        return str(why)
    return None


def _go_reason(text: bytes | str) -> str:
    said = text.decode(errors="replace") if isinstance(text, bytes) else text
    reason, _, where = said.partition(": ")
    return f"error parsing regexp: {_REASONS.get(reason, reason)}: `{where}`"
