"""Semantic versions (2.0.0), for the CEL semver library."""

from __future__ import annotations

import re
from functools import total_ordering

__all__ = ["Version", "parse_version"]

_FORM = re.compile(
    r"(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)"
    r"(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?\Z"
)


@total_ordering
class Version:
    """A version ordered by precedence: build metadata does not count."""

    __slots__ = ("key", "numbers")

    def __init__(self, numbers: tuple[int, int, int], pre: str) -> None:
        self.numbers = numbers
        # A release sorts after its pre-releases; numeric identifiers sort before words.
        parts = tuple((0, int(p), "") if p.isdigit() else (1, 0, p) for p in pre.split(".") if p)
        self.key = (numbers, 0 if pre else 1, parts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Version) and self.key == other.key

    def __lt__(self, other: Version) -> bool:
        return self.key < other.key

    def __hash__(self) -> int:
        return hash(self.key)


def parse_version(text: str, normalize: bool = False) -> Version:
    """Read a version; with ``normalize`` also ``v1``, ``1.2`` and leading zeros.

    Raises:
        ValueError: the text is not a version.
    """
    found = _FORM.match(_normalized(text) if normalize else text)
    if found is None:
        if text.count(".") < 2:
            raise ValueError("No Major.Minor.Patch elements found")
        raise ValueError(f"Invalid character(s) found in version {_quoted(text)}")
    major, minor, patch, pre = found.groups()
    for part in (pre or "").split("."):
        if part.isdigit() and len(part) > 1 and part[0] == "0":
            raise ValueError(f"Numeric PreRelease version must not contain leading zeroes {part!r}")
    return Version((int(major), int(minor), int(patch)), pre or "")


def _normalized(text: str) -> str:
    text = text.removeprefix("v")
    core = re.match(r"[^+-]*", text)
    head = core[0] if core else ""
    parts = [p.lstrip("0") or "0" if p.isdigit() else p for p in head.split(".")]
    if len(parts) < 3 and len(head) < len(text):
        return text  # a short version may not carry a suffix
    return ".".join(parts + ["0"] * (3 - len(parts))) + text[len(head) :]


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '\\"') + '"'
