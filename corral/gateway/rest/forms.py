"""Bodies as web forms send them: fields and files, taken apart where they lie. No I/O of its own.

Parts of a multipart body are found in what holds it (bytes or a mapped file) and are not copied: a
file of any size costs no memory.
"""

from __future__ import annotations

import mmap
import re
from dataclasses import dataclass
from email.message import Message
from typing import Final
from urllib.parse import parse_qsl

__all__ = ["FormError", "Part", "boundary_of", "fields_of", "parts_of"]

_HEADERS: Final = 16 * 1024
"""Bytes of the headers of a part."""
_PARTS: Final = 100
_BOUNDARY: Final = re.compile(r"[ -~]{1,70}")

Held = bytes | mmap.mmap


class FormError(ValueError):
    """A body that is no form; one line that says why."""


@dataclass(frozen=True, slots=True)
class Part:
    """One field, or one file, by where it lies."""

    name: str
    start: int
    end: int
    filename: str = ""

    def __len__(self) -> int:
        return self.end - self.start


def fields_of(body: bytes) -> dict[str, str]:
    """The fields of an urlencoded body. Raises FormError."""
    try:
        pairs = parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=_PARTS)
    except ValueError as error:
        raise FormError(f"the body is no form: {error}") from error
    return dict(pairs)


def boundary_of(content_type: str) -> bytes:
    """What is between the parts of a multipart body. Raises FormError."""
    found = _param(content_type, "boundary")
    if not _BOUNDARY.fullmatch(found):
        raise FormError("the body is multipart, and its boundary is not said")
    return found.encode()


def parts_of(body: Held, boundary: bytes) -> dict[str, Part]:
    """The parts of a multipart body by their names. Raises FormError."""
    mark = b"--" + boundary
    if body.find(mark, 0, len(mark) + 2) not in (0, 2):
        raise FormError("the body does not begin with its boundary")
    out: dict[str, Part] = {}
    place = body.find(mark) + len(mark)
    while body[place : place + 2] != b"--":
        if len(out) >= _PARTS:
            raise FormError(f"a form has at most {_PARTS} parts")
        if body[place : place + 2] != b"\r\n":
            raise FormError("a part does not begin on a line of its own")
        head = body.find(b"\r\n\r\n", place, place + _HEADERS)
        end = -1 if head < 0 else body.find(b"\r\n" + mark, head + 2)
        if end < 0:
            raise FormError("the body ends within a part")
        start = min(head + 4, end)
        part = _named(body[place + 2 : head], start, end)
        if part.name in out:
            raise FormError(f"the part {part.name[:50]!r} comes twice")
        out[part.name] = part
        place = end + 2 + len(mark)
    return out


def _named(head: bytes, start: int, end: int) -> Part:
    for line in head.decode("utf-8", errors="replace").split("\r\n"):
        key, _, value = line.partition(":")
        if key.strip().lower() == "content-disposition":
            if name := _param(value.strip(), "name"):
                return Part(name, start, end, _param(value.strip(), "filename"))
    raise FormError("a part of the body has no name")


def _param(header: str, name: str) -> str:
    """A parameter of a header; empty if it has none. Takes whatever is sent."""
    message: Message[str, str] = Message()  # the plain one: others refuse what is no header
    message["Content-Type"] = header
    found = message.get_param(name)
    return found if isinstance(found, str) else ""
