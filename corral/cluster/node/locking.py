"""One agent for each folder."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

__all__ = ["FolderInUse", "FolderLock"]


class FolderInUse(Exception):
    """Another agent works in the folder."""


class FolderLock:
    """Held as long as this process wants, or lives."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = -1

    def take(self) -> None:
        """Raises FolderInUse, OSError."""
        fd = os.open(self._path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(fd, 32, 0).decode(errors="replace").strip() or "another process"
            os.close(fd)
            raise FolderInUse(
                f"a node agent (process {holder}) already works in {self._path.parent}: "
                "stop it, or choose another data folder"
            ) from None
        os.truncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
        self._fd = fd

    def release(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
