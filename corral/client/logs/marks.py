"""How far logs were given, so that they can be gone on with at exactly that place.

The log API of Kubernetes has no offsets: a log can be asked for from a second on, and every line
has a time of its own, which may be that of other lines too. A `Mark` is therefore a line that can
be found again, the first one with the greatest time so far, and the number of lines given from
that one on. This is exact where times are equal, and where they are out of order by up to `SLACK`
because two streams were written at once. Only a clock that is set back while nobody is connected
can hide lines from whoever goes on.

A `Position` has the marks of all containers that were read; it is what people and clients keep.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import orjson

from corral.client.errors import BadRequest

__all__ = ["Mark", "Position", "SourceKey", "second_of"]

SLACK = 0.1
"""Seconds by which lines of one container may be out of order."""
MAX_TOKEN = 1 << 20
"""Bytes of a token; one source takes about a hundred before compression."""


class SourceKey(NamedTuple):
    """A container of a pod; a pod that was made anew is another one."""

    pod: str
    uid: str
    container: str


@dataclass(frozen=True, slots=True)
class Mark:
    """A place in the log of one container, over all its attempts."""

    anchor: bytes = b""
    """The greatest time of a line so far, as the server wrote it; empty at the beginning."""
    since: bytes = b""
    """The least time of a line from the anchor on: what to ask the server for."""
    lines: int = 0
    """Lines given or passed over from the anchor (or the beginning) on, the anchor included."""
    part: int = 0
    """Bytes given of the line after those; only a very long one is given in parts."""
    restarts: int = -1
    """Of the container when it was last looked at; -1 before."""

    def dump(self) -> list[Any]:
        out = [self.anchor.decode(), self.since.decode(), self.lines, self.restarts]
        return [*out, self.part] if self.part else out

    @classmethod
    def load(cls, values: Any) -> Mark:
        """Raises ValueError for anything that `dump` does not give."""
        if not isinstance(values, list) or len(values) not in (4, 5):
            raise ValueError("not a mark")
        anchor, since, lines, restarts, part = [*values, 0][:5]
        numbers = (lines, restarts, part)
        if not all(type(number) is int for number in numbers) or lines < 0 or part < 0:
            raise ValueError("not a mark")
        if not isinstance(anchor, str) or not isinstance(since, str):
            raise ValueError("not a mark")
        for stamp in (anchor, since):
            if stamp:
                second_of(stamp.encode())
        return cls(anchor.encode(), since.encode(), lines, part, restarts)


class Position:
    """How far the logs of a job were given; ``str`` of it fits into a header or a query.

    One that came as text is read when somebody wants to know what is in it.
    """

    __slots__ = ("_began", "_marks", "_token")

    def __init__(self, marks: Mapping[SourceKey, Mark] | None = None, began: str = "") -> None:
        self._marks = dict(marks or {})
        self._began = began
        self._token = ""

    @property
    def marks(self) -> Mapping[SourceKey, Mark]:
        """Raises BadRequest where the text is none of ours."""
        self._read()
        return self._marks

    @property
    def began(self) -> str:
        """When the logs were first asked for: containers of younger pods are read from the start.

        Raises BadRequest where the text is none of ours.
        """
        self._read()
        return self._began

    def __str__(self) -> str:
        if not self._token:
            rows = [[*key, mark.dump()] for key, mark in self._marks.items()]
            packed = zlib.compress(orjson.dumps([1, self._began, rows]), 1)
            self._token = base64.urlsafe_b64encode(packed).rstrip(b"=").decode()
        return self._token

    def __repr__(self) -> str:
        return f"Position({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Position):
            return NotImplemented
        return self.marks == other.marks and self.began == other.began

    __hash__ = None  # type: ignore[assignment]  # equal ones may have different text

    @classmethod
    def parse(cls, token: str) -> Position:
        """Raises BadRequest for anything that ``str`` does not give."""
        out = cls.unread(token)
        out._read()
        return out

    @classmethod
    def unread(cls, token: str) -> Position:
        """One that is believed to be a position until somebody looks."""
        out = cls()
        out._token = token
        return out

    def _read(self) -> None:
        if self._marks or self._began or not self._token:
            return
        self._began, self._marks = _unpacked(self._token)


def _unpacked(token: str) -> tuple[str, dict[SourceKey, Mark]]:
    try:
        if len(token) > MAX_TOKEN:
            raise ValueError("too long")
        packed = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
        reader = zlib.decompressobj()
        version, began, rows = orjson.loads(reader.decompress(packed, 16 * MAX_TOKEN))
        if version != 1 or not isinstance(began, str):
            raise ValueError("of another version")
        return began, {_key(row[:3]): Mark.load(row[3]) for row in rows}
    except (ValueError, TypeError, IndexError, KeyError, zlib.error, binascii.Error) as err:
        raise BadRequest(
            "the log position cannot be read", hint="use one that a log stream gave, unchanged"
        ) from err


def _key(values: list[Any]) -> SourceKey:
    if len(values) != 3 or not all(isinstance(value, str) for value in values):
        raise ValueError("not a source")
    return SourceKey(*values)


def second_of(stamp: bytes) -> str:
    """The whole second to ask for, in UTC, to see every line from a time on. Raises ValueError.

    It is the one before where lines that are out of order could be of that.
    """
    text = stamp.decode()
    if len(text) < 20 or text[10] not in "Tt ":
        raise ValueError(f"not a time: {text[:40]!r}")
    zone = text[19:].lstrip(".0123456789")
    time = datetime.fromisoformat(text[:19] + zone)
    if time.tzinfo is None:
        raise ValueError(f"a time without its zone: {text[:40]!r}")
    fraction = text[19 : len(text) - len(zone)]
    if float(f"0{fraction}") < SLACK:
        time -= timedelta(seconds=1)
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
