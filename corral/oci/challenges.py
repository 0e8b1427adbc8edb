"""``WWW-Authenticate``: how a registry says what it wants to be shown."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

__all__ = ["Challenge", "challenges"]

_TOKEN = r"[A-Za-z0-9!#$%&'*+.^_`|~-]++"
_PARAMETER = re.compile(rf'\s*+({_TOKEN})\s*+=\s*+(?:"((?:[^"\\]|\\.)*+)"|({_TOKEN}))\s*+(?:,|$)')
_SCHEME = re.compile(rf"\s*+,?\s*+({_TOKEN})(?:\s++|$|,)")


@dataclass(frozen=True, slots=True)
class Challenge:
    """One way to say who one is."""

    scheme: str
    """The name of the scheme in lower case."""
    parameters: dict[str, str] = field(default_factory=dict)
    """All names are in lower case."""


def challenges(headers: Iterable[str]) -> list[Challenge]:
    """All challenges in the headers; what is malformed ends its header."""
    found: list[Challenge] = []
    for header in headers:
        place = 0
        while match := _SCHEME.match(header, place):
            challenge = Challenge(match[1].lower())
            found.append(challenge)
            place = match.end()
            while parameter := _PARAMETER.match(header, place):
                quoted = parameter[2]
                value = parameter[3] if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
                challenge.parameters[parameter[1].lower()] = value
                place = parameter.end()
    return found
