"""Files of a log that are kept open for whoever follows it, so that no rotation outruns them.

A log is rotated by its writer, who does not know whether anybody reads. The files that had a name
while a log was followed stay readable for its followers, and for a moment after the last of them
has left: one whose connection was cut comes back and goes on where it was. They take disk and no
memory, and there is a limit to them; beyond it the oldest are given up.
"""

from __future__ import annotations

import os
from pathlib import Path
from threading import Lock
from typing import BinaryIO, Final

from corral.cluster.node.container.logs import inode, open_files

MAX_HELD: Final = 100
"""Files of one log: a gigabyte."""


class HeldFiles:
    """The files of one log, in the order of their writing; to be used from any thread."""

    def __init__(self, path: Path, *, keep: bool = True) -> None:
        """Nothing is kept where ``keep`` is off."""
        self._path = path
        self._keep = keep
        self._files: dict[int, BinaryIO] = {}
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._files)

    def note(self) -> None:
        """Keep what has a name now: to be called after every rotation."""
        if self._keep:
            with self._lock:
                self._note()

    def opened(self, path: Path) -> list[BinaryIO]:
        """All files anew, each with a place of its own to read at."""
        if not self._keep:
            return open_files(path)
        with self._lock:
            self._note()
            return [_anew(file) for file in self._files.values()]

    def close(self) -> None:
        with self._lock:
            for file in self._files.values():
                file.close()
            self._files.clear()

    def _note(self) -> None:
        for file in open_files(self._path):
            number = inode(file)
            if number in self._files:
                file.close()
            else:
                self._files[number] = file
        while len(self._files) > MAX_HELD:
            self._files.pop(next(iter(self._files))).close()


def _anew(file: BinaryIO) -> BinaryIO:
    """The same file, even if it has no name any more."""
    fd = os.open(f"/proc/self/fd/{file.fileno()}", os.O_RDONLY | os.O_CLOEXEC)
    return os.fdopen(fd, "rb")
