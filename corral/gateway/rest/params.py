"""Query parameters: each said once, for reading it and for the OpenAPI document.

A parameter that is not known is refused, with those that look alike: a misspelt filter must not
give a list that looks filtered. Every mistake of a query is told at once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from difflib import get_close_matches
from typing import Any, Final
from urllib.parse import parse_qsl

from corral.gateway.problems import Refused
from corral.kube.types import Obj

__all__ = ["Param", "boolean", "choice", "number", "read_query", "text", "timestamp"]

_LONGEST: Final = 4096
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class Param:
    """One parameter of a query."""

    name: str
    description: str
    schema: Obj
    read: Callable[[str], Any]
    """Raises ValueError with words for people."""
    default: Any = None
    many: bool = False
    """May be given more than once, or with commas between."""

    def as_object(self) -> Obj:
        """As OpenAPI describes it."""
        schema = {"type": "array", "items": self.schema} if self.many else self.schema
        out: Obj = {"name": self.name, "in": "query", "description": self.description}
        if self.many:
            out |= {"style": "form", "explode": True}
        return {**out, "required": False, "schema": schema}


def text(name: str, description: str, *, longest: int = _LONGEST, many: bool = False) -> Param:
    """Words."""

    def read(value: str) -> str:
        if len(value) > longest or _CONTROL.search(value):
            raise ValueError(f"must be at most {longest} printable characters")
        return value

    schema = {"type": "string", "maxLength": longest}
    return Param(name, description, schema, read, default=() if many else "", many=many)


def boolean(name: str, description: str) -> Param:
    """True or false."""

    def read(value: str) -> bool:
        if value.lower() not in ("true", "false", "1", "0"):
            raise ValueError("must be true or false")
        return value.lower() in ("true", "1")

    return Param(name, description, {"type": "boolean", "default": False}, read, default=False)


def number(
    name: str, description: str, *, least: int, most: int, default: int | None = None
) -> Param:
    """A whole number."""

    def read(value: str) -> int:
        if not re.fullmatch(r"\d{1,10}", value, re.ASCII) or not least <= int(value) <= most:
            raise ValueError(f"must be a whole number from {least} to {most}")
        return int(value)

    schema: Obj = {"type": "integer", "minimum": least, "maximum": most}
    if default is not None:
        schema["default"] = default
    return Param(name, description, schema, read, default=default)


def timestamp(name: str, description: str) -> Param:
    """A time as RFC 3339 writes it."""

    def read(value: str) -> datetime:
        # a plus that was not escaped arrives as a space
        written = re.sub(r" (\d\d:\d\d)$", r"+\1", value)
        try:
            found = datetime.fromisoformat(written)
        except ValueError:
            found = None
        if found is None or found.tzinfo is None or not 1970 <= found.year < 9999:
            raise ValueError("must be a time such as 2026-01-31T12:00:00Z")
        return found

    return Param(name, description, {"type": "string", "format": "date-time"}, read)


def choice(name: str, description: str, words: Sequence[str], *, default: str) -> Param:
    """One of some words."""

    def read(value: str) -> str:
        if value not in words:
            raise ValueError(f"must be one of {', '.join(words)}")
        return value

    schema = {"type": "string", "enum": list(words), "default": default}
    return Param(name, description, schema, read, default=default)


def read_query(query: bytes, params: Iterable[Param]) -> Mapping[str, Any]:
    """The value of every parameter, or its default.

    Raises:
        Refused: some are unknown, given twice or wrong; all of them are named.
    """
    known = {param.name: param for param in params}
    given: dict[str, list[str]] = {}
    wrong: list[tuple[str, str]] = []
    try:
        pairs = parse_qsl(
            query.decode(), keep_blank_values=True, errors="strict", max_num_fields=100
        )
    except ValueError:
        raise Refused("bad-request", "the query cannot be read") from None
    for name, value in pairs:
        if name in known:
            given.setdefault(name, []).append(value)
        else:
            wrong.append((name, _unknown(name, list(known))))
    values = {name: param.default for name, param in known.items()}
    for name, written in given.items():
        try:
            values[name] = _read(known[name], written)
        except ValueError as error:
            wrong.append((name, str(error)))
    if wrong:
        detail = "; ".join(f"{name}: {reported}" for name, reported in wrong)
        raise Refused("bad-request", detail, errors=tuple(wrong))
    return values


def _read(param: Param, written: list[str]) -> Any:
    if param.many:
        words = [word for value in written for word in value.split(",") if word]
        return tuple(param.read(word) for word in words)
    if len(written) > 1:
        raise ValueError("may be given once")
    return param.read(written[0])


def _unknown(name: str, known: list[str]) -> str:
    close = get_close_matches(name, known, n=1)
    if close:
        return f"there is no such parameter; did you mean {close[0]}?"
    return "there is no such parameter here" + (f"; known: {', '.join(known)}" if known else "")
