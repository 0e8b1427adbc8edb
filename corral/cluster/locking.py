"""A folder for one process at a time, and the number of that process for everybody to read."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

__all__ = ["Held", "holder_of", "take"]


class Held(Exception):
    """Another process has it."""

    def __init__(self, holder: int) -> None:
        super().__init__(f"process {holder} has it")
        self.holder = holder


def take(path: Path) -> int:
    """Lock a file, for as long as the returned descriptor is open. Raises Held, OSError."""
    lock = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.truncate(lock, 0)
        os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
    except BlockingIOError:
        holder = _number(lock)
        os.close(lock)
        raise Held(holder) from None
    except OSError:
        os.close(lock)
        raise
    return lock


def holder_of(path: Path) -> int:
    """The process that has the file; 0 when none has."""
    try:
        lock = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return 0
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _number(lock)
    finally:
        os.close(lock)
    return 0


def _number(lock: int) -> int:
    text = os.pread(lock, 32, 0).strip()
    return int(text) if text.isdigit() else 0
