"""Log lines of many replicas on one output: plain bytes, or with whose they are, in colours.

A terminal is not given what a program wrote but what it looks like: sequences and controls are
escaped (`corral.kube.printable`). Files and pipes get the bytes as they are. Work is done per
chunk, not per line: a million lines a second pass through.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, BinaryIO, Final

from corral.cli.views.output import Format
from corral.kube.printable import printable, printable_lines

if TYPE_CHECKING:
    from corral.client import LogChunk, Role

__all__ = ["Prefixes", "printer"]

_COLOURS: Final = (36, 35, 33, 34, 32, 91, 96, 95, 93, 94)
"""Of the terminal, by the order in which replicas were seen first."""


class Prefixes:
    """What stands before the lines of a replica."""

    def __init__(self, *, colour: bool, escaped: bool = False) -> None:
        self._colour, self._escaped = colour, escaped
        self._known: dict[str, bytes] = {}

    def of(self, pod: str, role: Role) -> bytes:
        """``[worker-3] ``; of one pod always the same."""
        found = self._known.get(pod)
        if found is None:
            found = f"[{printable(label(role))}] ".encode()
            if self._colour:
                number = _COLOURS[len(self._known) % len(_COLOURS)]
                found = b"\x1b[%dm%s\x1b[0m" % (number, found)
            self._known[pod] = found
        return found

    def put(self, chunk: LogChunk) -> bytes:
        """The chunk with its prefix before every line."""
        prefix = self.of(chunk.pod, chunk.role)
        data = shown(chunk.data) if self._escaped else chunk.data
        body = data[:-1] if data.endswith(b"\n") else data
        return b"".join((prefix, body.replace(b"\n", b"\n" + prefix), b"\n"))


def label(role: Role) -> str:
    """``launcher``, ``worker-3``."""
    return role.name if role.index is None else f"{role.name}-{role.index}"


def shown(data: bytes) -> bytes:
    """What a program wrote, for a terminal.

    A carriage return would write over what stands in the line: what follows it gets its own.
    """
    text = data.decode(errors="backslashreplace").replace("\r\n", "\n").replace("\r", "\n")
    return printable_lines(text).encode()


def printer(
    form: Format, *, prefix: bool, raw: bool = False, out: BinaryIO | None = None
) -> Callable[[LogChunk], None]:
    """What prints chunks in a form; ``raw``: as they are, to a terminal too."""
    target = out or sys.stdout.buffer
    if form is Format.name:
        return _names(target)
    if form is not Format.table:
        return lambda chunk: _records(target, chunk, form)
    escaped = target.isatty() and not raw
    if not prefix:
        return lambda chunk: _write(target, shown(chunk.data) if escaped else chunk.data)
    colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    prefixes = Prefixes(colour=colour, escaped=escaped)
    return lambda chunk: _write(target, prefixes.put(chunk))


def _write(target: BinaryIO, data: bytes) -> None:
    target.write(data)
    target.flush()


def _names(target: BinaryIO) -> Callable[[LogChunk], None]:
    seen: set[str] = set()

    def show(chunk: LogChunk) -> None:
        if chunk.pod not in seen:
            seen.add(chunk.pod)
            _write(target, f"pod/{printable(chunk.pod)}\n".encode())

    return show


def _records(target: BinaryIO, chunk: LogChunk, form: Format) -> None:
    start = "---\n" if form is Format.yaml else ""
    lines = []
    for line in chunk.data.decode(errors="replace").splitlines():
        record = {
            "pod": chunk.pod,
            "role": chunk.role.name,
            "index": chunk.role.index,
            "container": chunk.container,
            "line": line,
        }
        lines.append(f"{start}{json.dumps(record)}\n")  # JSON is YAML
    _write(target, "".join(lines).encode())
