"""Small pieces of sentences: names in a row, spans of time, one and many. Pure functions."""

from __future__ import annotations

from typing import Final

__all__ = ["listed", "plural", "role_words", "span"]


def role_words(role: str, index: int | None) -> str:
    """``worker 3``, ``its launcher``."""
    return f"{role} {index}" if index is not None else f"its {role}"


def listed(names: list[str]) -> str:
    """The first few, and how many more."""
    shown = ", ".join(names[:4])
    return f"{shown} and {len(names) - 4} more" if len(names) > 4 else shown


_VERBS: Final = {"waits": "wait", "has": "have", "is": "are", "was": "were", "fails": "fail"}


def plural(sentence: str, count: int) -> str:
    """``waits for its image: …`` → ``wait for their image: …``; what was said stays as it is."""
    if count == 1:
        return sentence
    verb, _, rest = sentence.partition(" ")
    head, colon, detail = rest.partition(":")
    return f"{_VERBS.get(verb, verb)} {head.replace('its ', 'their ')}{colon}{detail}"


def span(seconds: float) -> str:
    """``90 s``, ``3 min``, ``5 h``."""
    for size, word in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{int(seconds // size)} {word}"
    return f"{int(seconds)} s"
