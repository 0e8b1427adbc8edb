"""Files: open ones that outlive their names, slices of them, small ones replaced whole."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

__all__ = ["FileSlice", "OpenFile", "replace_file", "sync_folder"]


class OpenFile:
    """A descriptor that is closed when nobody has it any more."""

    __slots__ = ("fd",)

    def __init__(self, path: Path) -> None:
        self.fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def __del__(self) -> None:
        fd, self.fd = getattr(self, "fd", -1), -1
        if fd >= 0:
            os.close(fd)


@dataclass(frozen=True, slots=True)
class FileSlice:
    """Bytes of a file that nobody has read yet."""

    file: OpenFile
    start: int
    size: int

    def __len__(self) -> int:
        return self.size

    def read(self, at: int = 0, size: int | None = None) -> bytes:
        """Some of them. Raises OSError where the file has them no more."""
        wanted = self.size - at if size is None else min(size, self.size - at)
        data = os.pread(self.file.fd, wanted, self.start + at)
        if len(data) < wanted:
            raise OSError(f"{wanted} bytes at {self.start + at}, and only {len(data)} are there")
        return data


def replace_file(path: Path, data: bytes, *, sync: bool = True) -> None:
    """Write a file whole: whoever reads it sees the old or the new one."""
    new = path.with_name(path.name + ".new")
    fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]
        if sync:
            os.fsync(fd)
    finally:
        os.close(fd)
    os.replace(new, path)
    if sync:
        sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """Have the names in a folder survive a loss of power."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
