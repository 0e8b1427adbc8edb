"""The home of a confined process where there are no namespaces: a folder of the machine.

It is removed by whoever watches the process. One that was left, because all were ended at once, is
removed by the next: whoever watches holds a lock on it.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Sequence
from typing import Final

__all__ = ["PREFIX", "make_home", "remove", "sweep"]

PREFIX: Final = "corral-confined-"
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW: Final = 60
"""Seconds in which a folder may have been made and not be locked yet."""


def make_home(folder: str, writable: Sequence[str]) -> tuple[str, list[int]]:
    """A home in a folder, and descriptors of it and of the writable folders."""
    sweep(folder)
    home = tempfile.mkdtemp(prefix=PREFIX, dir=folder)
    folders = [os.open(path, _FOLDER & ~os.O_NOFOLLOW) for path in (home, *writable)]
    fcntl.flock(folders[0], fcntl.LOCK_SH)
    return home, folders


def sweep(folder: str) -> None:
    """Remove the homes of processes that were ended together with whoever watched them."""
    with os.scandir(folder) as entries:
        names = [entry.name for entry in entries if entry.name.startswith(PREFIX)]
    for name in names:
        path = os.path.join(folder, name)
        try:
            fd = os.open(path, _FOLDER)
        except OSError:
            continue  # another user's, or no folder
        try:
            if _left(os.fstat(fd)):
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                remove(path)
        except BlockingIOError:
            continue  # it is in use
        finally:
            os.close(fd)


def _left(info: os.stat_result) -> bool:
    return info.st_uid == os.geteuid() and time.time() - info.st_mtime > _NEW


def remove(home: str) -> None:
    """A home with all that is in it."""
    shutil.rmtree(home, ignore_errors=True)
