"""Takes what a confined process left in its folders, which are in memory, to where it is wanted.

Nothing in them is trusted: links, devices and pipes are left out, and names lead nowhere else.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from corral.podtools.confine.view import INODES

__all__ = ["Unreadable", "take_results"]

_DEPTH: Final = 32
_PIECE: Final = 1 << 20
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Unreadable(Exception):
    """It left something that cannot be read."""


def take_results(folders: Sequence[int], targets: Sequence[Path], *, most: int) -> None:
    """Move everything from folders, given as descriptors, into others.

    ``most`` is how many bytes that may be in all: files in memory may have holes, which are bytes
    where they are taken to.

    Raises:
        Unreadable: it left what cannot be read, or more than that.
        OSError: it cannot be written.
    """
    room = _Room(most)
    for folder, target in zip(folders, targets, strict=True):
        _take(folder, target, 0, room)


class _Room:
    """How much more may be taken."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._bytes = 0
        self._names = 0

    def name(self) -> None:
        """Count one more file; raises Unreadable above the limit."""
        self._names += 1
        if self._names > INODES:
            raise Unreadable(f"it left more than {INODES} files")

    def bytes(self, count: int) -> None:
        """Count bytes of files; raises Unreadable above the limit."""
        self._bytes += count
        if self._bytes > self._most:
            raise Unreadable(f"it left more than {self._most} bytes")


def _take(folder: int, target: Path, depth: int, room: _Room) -> None:
    if depth > _DEPTH:
        raise Unreadable(f"it left folders that are more than {_DEPTH} deep")
    for name in os.listdir(folder):
        room.name()
        with _readable(name):
            fd = os.open(name, _FILE, dir_fd=folder)
        try:
            mode = os.fstat(fd).st_mode
            if stat.S_ISDIR(mode):
                _make_folder(target / name)
                _take(fd, target / name, depth + 1, room)
                with _readable(name):
                    os.rmdir(name, dir_fd=folder)
            elif stat.S_ISREG(mode):
                _copy(fd, target / name, room)
                with _readable(name):
                    os.unlink(name, dir_fd=folder)
        finally:
            os.close(fd)


@contextmanager
def _readable(name: str) -> Iterator[None]:
    """It may still run, and exchange what it has left. Raises Unreadable."""
    try:
        yield
    except OSError as err:
        raise Unreadable(f"it left {name!r}, which cannot be read: {err.strerror}") from err


def _make_folder(target: Path) -> None:
    try:
        target.mkdir(exist_ok=True)
    except FileExistsError:
        raise Unreadable(f"it left a folder {target.name!r}, where it left a file before") from None


def _copy(fd: int, target: Path, room: _Room) -> None:
    size = os.fstat(fd).st_size
    room.bytes(size)  # before anything is written
    try:
        # made anew: what lies there may be a link
        target.unlink(missing_ok=True)
    except IsADirectoryError:
        raise Unreadable(f"it left a file {target.name!r}, where it left a folder before") from None
    with open(fd, "rb", closefd=False) as found, target.open("xb") as made:
        while data := found.read(_PIECE):
            made.write(data)
            size -= len(data)
            if size < 0:
                raise Unreadable(f"it left {target.name!r}, and writes to it still")
