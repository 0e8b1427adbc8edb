"""Committed offsets: a journal of lines, each with a checksum, written anew when it has grown.

A line is with the operating system before a commit is answered. A torn last line is cut off.
"""

from __future__ import annotations

import logging
import os
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson

from corral.cluster.broker.storage.files import OpenFile, replace_file

__all__ = ["Committed", "Offsets"]

logger = logging.getLogger(__name__)

_GROWN: Final = 4 * 2**20
"""Bytes below which a journal is never written anew."""

Place = tuple[str, int]
"""Topic and partition."""


@dataclass(frozen=True, slots=True)
class Committed:
    """How far a group has read a partition."""

    offset: int
    epoch: int
    metadata: str
    at: float
    """Unix time."""


class Offsets:
    """By group and partition."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._groups: dict[str, dict[Place, Committed]] = {}
        self._load()
        self._file = OpenFile(path)
        self._size = self._fresh = os.fstat(self._file.fd).st_size

    def _load(self) -> None:
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            return
        good = 0
        for line in data.splitlines(keepends=True):
            entry = _unpacked(line)
            if entry is None:
                break
            self._apply(entry)
            good += len(line)
        if good < len(data):
            logger.warning("%s: cut off %d bytes", self._path, len(data) - good)
            os.truncate(self._path, good)

    def _apply(self, entry: list[Any]) -> None:
        group, rows = entry
        if rows is None:
            self._groups.pop(group, None)
            return
        held = self._groups.setdefault(group, {})
        for topic, partition, *rest in rows:
            if rest:
                held[topic, partition] = Committed(*rest)
            else:
                held.pop((topic, partition), None)

    # -- reading ---------------------------------------------------------------------------------

    def groups(self) -> Iterator[str]:
        return iter(tuple(self._groups))

    def of(self, group: str) -> Mapping[Place, Committed]:
        return self._groups.get(group, {})

    def last(self, group: str) -> float:
        """When something was committed last."""
        return max((entry.at for entry in self.of(group).values()), default=0.0)

    # -- writing ---------------------------------------------------------------------------------

    def commit(self, group: str, entries: Mapping[Place, Committed]) -> None:
        """Raises OSError, and then nothing has been committed."""
        self._write(group, [_row(place, entry) for place, entry in entries.items()])

    def remove(self, group: str, places: Iterable[Place]) -> None:
        """Raises OSError."""
        self._write(group, [[topic, partition] for topic, partition in places])

    def remove_group(self, group: str) -> None:
        """Raises OSError."""
        if group in self._groups:
            self._write(group, None)

    def remove_topic(self, topic: str, owner: str = "") -> None:
        """In the groups whose names begin so. Raises OSError."""
        for group, held in tuple(self._groups.items()):
            if not group.startswith(owner):
                continue
            places = [place for place in held if place[0] == topic]
            if places:
                self.remove(group, places)

    def _write(self, group: str, rows: list[list[Any]] | None) -> None:
        line = _packed([group, rows])
        try:
            written = os.pwrite(self._file.fd, line, self._size)
            if written < len(line):
                raise OSError(f"{self._path}: {written} of {len(line)} bytes were written")
        except OSError:
            os.ftruncate(self._file.fd, self._size)
            raise
        self._size += len(line)
        self._apply([group, rows])
        if self._size > max(_GROWN, 4 * self._fresh):
            self._rewrite()

    def _rewrite(self) -> None:
        lines = [
            _packed([group, [_row(place, entry) for place, entry in held.items()]])
            for group, held in self._groups.items()
            if held
        ]
        replace_file(self._path, b"".join(lines))
        self._file = OpenFile(self._path)
        self._size = self._fresh = os.fstat(self._file.fd).st_size

    def flush(self) -> None:
        """Have it survive a loss of power. May run in another thread."""
        os.fdatasync(self._file.fd)


def _row(place: Place, entry: Committed) -> list[Any]:
    return [*place, entry.offset, entry.epoch, entry.metadata, entry.at]


def _packed(entry: list[Any]) -> bytes:
    body = orjson.dumps(entry)
    return b"%08x %b\n" % (zlib.crc32(body), body)


def _unpacked(line: bytes) -> list[Any] | None:
    crc, _, body = line.rstrip(b"\n").partition(b" ")
    try:
        if not line.endswith(b"\n") or int(crc, 16) != zlib.crc32(body):
            return None
        entry = orjson.loads(body)
    except ValueError:
        return None
    return entry if isinstance(entry, list) else None
