"""Reading a container's log, as ``kubectl logs`` asks a node for it.

A log is the file the shim writes and the rotated files before it (``.1`` is the youngest of
those); they read as one. Entries that are parts of one line are joined again. Following ends when
the container has ended and everything is read; no entry is lost or repeated by a rotation that
happens meanwhile.
"""

from __future__ import annotations

import asyncio
import errno
import os
import stat
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import BinaryIO, Final

from corral.cluster.node.shim.journal import MAX_FILES

POLL: Final = 0.05
"""Seconds between looks at a log that is followed."""
_CHUNK: Final = 1 << 18
_STAMP: Final = 30
"""Bytes of an entry's time."""
_WHOLE: Final = frozenset((b" stdout F ", b" stderr F "))
_TEXT: Final = _STAMP + len(b" stdout F ")
"""Where the text of an entry begins."""
_LOOKS: Final = 1000
"""How often the files of a log are looked at anew because they were rotated meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOptions:
    """What part of a log, and how it is shown."""

    follow: bool = False
    tail_lines: int | None = None
    since: str = ""
    """RFC 3339 with nanoseconds, in UTC; see ``since_seconds`` and ``since_time``."""
    timestamps: bool = False
    limit_bytes: int | None = None
    stream: str = ""
    """stdout or stderr; empty for both."""


def since_seconds(seconds: int, *, now: datetime) -> str:
    return since_time((now - timedelta(seconds=seconds)).isoformat())


def since_time(text: str) -> str:
    """A time in the form in which entries carry theirs, so that the two compare as text.

    Raises ValueError.
    """
    moment = datetime.fromisoformat(text)
    moment = moment.replace(tzinfo=moment.tzinfo or UTC).astimezone(UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S") + f".{moment.microsecond:06d}000Z"


def files_of(path: Path) -> list[Path]:
    """The files of a log, oldest first; those that are there."""
    rotated = [path.with_name(f"{path.name}.{n}") for n in range(MAX_FILES * 4, 0, -1)]
    return [file for file in (*rotated, path) if file.exists()]


def remove(path: Path) -> None:
    """Delete a log with all its rotated files."""
    for file in files_of(path):
        file.unlink(missing_ok=True)


class Formatter:
    """Turns entries into what is shown, up to the limit of bytes."""

    def __init__(self, options: LogOptions) -> None:
        self._options = options
        self._since = options.since.encode()
        self._stream = options.stream.encode()
        self._left = options.limit_bytes
        self._mid_line = False

    @property
    def full(self) -> bool:
        return self._left is not None and self._left <= 0

    def show(self, entries: list[bytes]) -> bytes:
        """Entries as they are shown, at once where all of them are whole lines and wanted."""
        plain = not (self._mid_line or self._stream) and self._left is None
        if not plain or not {entry[_STAMP:_TEXT] for entry in entries} <= _WHOLE:
            return b"".join(map(self._show_one, entries))
        if self._since:
            # the time comes first, so that whole entries compare as their times do
            since = self._since
            entries = [entry for entry in entries if entry >= since]
        if not entries:
            return b""
        if self._options.timestamps:
            space = _TEXT - 1
            lines = [entry[:_STAMP] + entry[space:] for entry in entries]
        else:
            lines = [entry[_TEXT:] for entry in entries]
        lines.append(b"")
        return b"\n".join(lines)

    def _show_one(self, entry: bytes) -> bytes:
        """An entry as it is shown; empty when it is not asked for."""
        parts = entry.split(b" ", 3)
        if len(parts) < 4:
            return b""  # cut by a full disk
        stamp, stream, tag, text = parts
        if stamp < self._since or (self._stream and stream != self._stream):
            return b""
        line = stamp + b" " + text if self._options.timestamps and not self._mid_line else text
        self._mid_line = tag.startswith(b"P")
        if not self._mid_line:
            line += b"\n"
        if self._left is not None:
            line = line[: max(self._left, 0)]
            self._left -= len(line)
        return line


def read(path: Path, options: LogOptions) -> Iterator[bytes]:
    """What is there now. Raises FileNotFoundError when there is no log."""
    cursor = Cursor(path, tail_lines=options.tail_lines)
    formatter = Formatter(options)
    try:
        for entries in cursor.available():
            if piece := formatter.show(entries):
                yield piece
            if formatter.full:
                return
    finally:
        cursor.close()


async def follow(
    path: Path,
    options: LogOptions,
    *,
    ended: Callable[[], bool],
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    opened: Callable[[Path], list[BinaryIO]] | None = None,
) -> AsyncGenerator[bytes, None]:
    """What is there, and what comes until ``ended()``. Raises FileNotFoundError.

    Others get their turn after every piece of the file, shown or not. ``opened`` finds the files,
    oldest first, where more of them are kept than have a name.
    """
    cursor = await asyncio.to_thread(
        Cursor, path, tail_lines=options.tail_lines, opened=opened or open_files
    )
    formatter = Formatter(options)
    try:
        while True:
            # asked first: what was written before the end must be read after it
            last = ended()
            for entries in cursor.available():
                if piece := formatter.show(entries):
                    yield piece
                if formatter.full:
                    return
                await asyncio.sleep(0)
            if last or not options.follow:
                return
            await sleep(POLL)
    finally:
        cursor.close()


class Cursor:
    """A place in a log that moves on through rotations."""

    def __init__(
        self,
        path: Path,
        *,
        tail_lines: int | None = None,
        opened: Callable[[Path], list[BinaryIO]] | None = None,
    ) -> None:
        self._path = path
        self._rest = b""
        self._opened = opened or open_files
        self._files = self._opened(path)
        if not self._files:
            raise FileNotFoundError(str(path))
        if tail_lines is not None:
            self._seek_tail(tail_lines)

    def available(self) -> Iterator[list[bytes]]:
        """All whole entries that are there now, in pieces."""
        while True:
            file = self._files[0]
            yield from self._entries(file)
            if len(self._files) == 1 and not self._rotated(file):
                return
            yield from self._entries(file)  # written between our last look and the rotation
            self._files.pop(0).close()

    def _entries(self, file: BinaryIO) -> Iterator[list[bytes]]:
        while data := file.read(_CHUNK):
            *entries, self._rest = (self._rest + data).split(b"\n")
            yield entries

    def _rotated(self, file: BinaryIO) -> bool:
        """Whether the log goes on in other files; they are opened."""
        mine = inode(file)
        with suppress(FileNotFoundError):
            if self._path.stat().st_ino == mine:
                return False  # as nearly always
        there = self._opened(self._path)
        numbers = [inode(other) for other in there]
        known = numbers.index(mine) + 1 if mine in numbers else 0
        for other in there[:known]:
            other.close()
        self._files += there[known:]
        return known < len(there)

    def _seek_tail(self, count: int) -> None:
        """Stand before the last ``count`` entries."""
        keep = len(self._files)
        position = 0
        while keep:
            keep -= 1
            file = self._files[keep]
            position, found = _tail_position(file, count)
            count -= found
            if count <= 0:
                break
        for file in self._files[:keep]:
            file.close()
        del self._files[:keep]
        self._files[0].seek(position)
        for file in self._files[1:]:
            file.seek(0)

    def close(self) -> None:
        for file in self._files:
            file.close()
        self._files.clear()


def open_files(path: Path) -> list[BinaryIO]:
    """The files of a log, oldest first, as they are between two rotations.

    A rotation renames one after the other: who opens them meanwhile has some twice and misses
    others, which shows when the names lead elsewhere afterwards.
    """
    for _ in range(_LOOKS):
        files: list[BinaryIO] = []
        for name in files_of(path):
            with suppress(FileNotFoundError):
                files.append(_opened(name))
        if [inode(file) for file in files] == _inodes(path):
            break
        for file in files:
            file.close()
    else:
        raise OSError(f"{path} is rotated all the time")
    return files


def _opened(path: Path) -> BinaryIO:
    """A file of a log; nothing else is read, whatever lies in its place."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    file = open(os.open(path, flags), "rb")
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return file


def inode(file: BinaryIO) -> int:
    return os.fstat(file.fileno()).st_ino


def _inodes(path: Path) -> list[int]:
    found: list[int] = []
    for name in files_of(path):
        with suppress(FileNotFoundError):
            found.append(name.stat().st_ino)
    return found


def _tail_position(file: BinaryIO, count: int) -> tuple[int, int]:
    """Where the last ``count`` lines begin, and how many there are (no more than asked)."""
    end = file.seek(0, os.SEEK_END)
    if count <= 0:
        return end, 0
    position, found = end, 0
    while position > 0:
        size = min(_CHUNK, position)
        position -= size
        file.seek(position)
        data = file.read(size)
        if position + size == end and not data.endswith(b"\n"):
            found += 1  # an entry that is being written
        index = len(data)
        while (index := data.rfind(b"\n", 0, index)) >= 0:
            found += 1
            if found > count:
                return position + index + 1, count
    return 0, found


def tail_text(path: Path, *, lines: int, limit: int) -> str:
    """The end of a log as text: at most ``lines`` lines and ``limit`` bytes."""
    try:
        data = b"".join(read(path, LogOptions(tail_lines=lines)))
    except FileNotFoundError:
        return ""
    return data[-limit:].decode(errors="replace")
