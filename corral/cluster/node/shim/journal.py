"""A container's log, in the format the container runtimes of Kubernetes write.

``<RFC 3339 time with nanoseconds> stdout F <line>``; P instead of F where a line goes on in the
next entry (it is longer than 16 KiB) or ended without a newline. The file is renamed to ``.1``
when it is full, ``.1`` to ``.2`` and so on.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from contextlib import suppress
from typing import Final

MAX_LINE: Final = 16 * 1024
MAX_BYTES: Final = 10 * 1024 * 1024
MAX_FILES: Final = 5


class Journal:
    """Appends to ``path``. A disk that refuses costs lines, never the container."""

    def __init__(
        self, path: str, *, max_bytes: int = MAX_BYTES, max_files: int = MAX_FILES
    ) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._max_files = max_files
        self._rest: dict[str, bytes] = {}
        self._second = -1
        self._prefix = ""
        _make_folders(os.path.dirname(path))
        # relative to the folder, for the mounts of the container may cover the way to it
        self._folder = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._name = os.path.basename(path)
        self._open()

    def _open(self) -> None:
        # a link or a pipe in its place is no log
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        self._fd = os.open(self._name, flags | os.O_NONBLOCK, 0o600, dir_fd=self._folder)
        info = os.fstat(self._fd)
        if not stat.S_ISREG(info.st_mode):
            os.close(self._fd)
            raise OSError(errno.EINVAL, "the log is not a regular file", self._path)
        self._size = info.st_size

    def write(self, stream: str, data: bytes) -> None:
        """Add output; what comes after the last newline waits for the rest of its line."""
        stamp = self._stamp()
        full, part = f"{stamp} {stream} F ".encode(), f"{stamp} {stream} P ".encode()
        lines = (self._rest.get(stream, b"") + data).split(b"\n")
        rest = lines.pop()
        pieces: list[bytes] = []
        for line in lines:
            while len(line) > MAX_LINE:
                pieces += (part, line[:MAX_LINE], b"\n")
                line = line[MAX_LINE:]
            pieces += (full, line, b"\n")
        while len(rest) > MAX_LINE:
            pieces += (part, rest[:MAX_LINE], b"\n")
            rest = rest[MAX_LINE:]
        self._rest[stream] = rest
        if pieces:
            self._append(b"".join(pieces))

    def close(self) -> None:
        """Write down unfinished lines."""
        for stream, rest in self._rest.items():
            if rest:
                self._append(f"{self._stamp()} {stream} P ".encode() + rest + b"\n")
        self._rest.clear()
        os.close(self._fd)
        os.close(self._folder)

    def _append(self, data: bytes) -> None:
        try:
            if self._size and self._size + len(data) > self._max_bytes:
                self._rotate()
            view = memoryview(data)
            while view:
                written = os.write(self._fd, view)
                self._size += written
                view = view[written:]
        except OSError:
            # a full disk: go on, so that the container is not stuck behind its own log
            return

    def _rotate(self) -> None:
        for number in range(self._max_files - 1, 0, -1):
            old = self._name if number == 1 else f"{self._name}.{number - 1}"
            try:
                new = f"{self._name}.{number}"
                os.rename(old, new, src_dir_fd=self._folder, dst_dir_fd=self._folder)
            except FileNotFoundError:
                continue
        if self._max_files == 1:
            os.unlink(self._name, dir_fd=self._folder)
        os.close(self._fd)
        self._open()

    def _stamp(self) -> str:
        second, nanos = divmod(time.time_ns(), 1_000_000_000)
        if second != self._second:
            self._second = second
            self._prefix = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))
        return f"{self._prefix}.{nanos:09d}Z"


def _make_folders(path: str) -> None:
    """For us alone, whatever the umask of the containers is."""
    if not os.path.isdir(path):
        _make_folders(os.path.dirname(path))
        with suppress(FileExistsError):
            os.mkdir(path, 0o700)
