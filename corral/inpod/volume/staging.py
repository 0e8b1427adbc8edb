"""Hidden folders that a user's save() fills, on the volume where they shall stay.

A folder of a process that died is recognised by the lock that the system dropped, or by its
attempt, and removed by the next process. One that is being filled is never touched.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from pathlib import Path

from . import disk, names

try:
    import fcntl
except ImportError:  # not on this system; then age alone decides
    fcntl = None  # type: ignore[assignment]

_YOUNG = 60.0
"""Seconds in which a folder may have been made and not yet locked."""
_ABANDONED = 24 * 3600.0
"""Seconds after which a folder that cannot be locked counts as left behind."""


class Folder:
    """One folder in the making."""

    def __init__(self, path: str) -> None:
        self.path = Path(path)
        self._descriptor: int | None = None

    def make(self) -> None:
        os.makedirs(self.path.parent, exist_ok=True)
        self.path.mkdir(mode=0o750)  # for the pod's user and group, as the files of a checkpoint
        self._descriptor = _locked(str(self.path))

    def release(self) -> None:
        """Ends the protection from `sweep`, once the folder has its final name."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def discard(self) -> None:
        """Removes what is left of it."""
        self.release()
        shutil.rmtree(self.path, ignore_errors=True)


class Staging:
    """The folders in the making of one process."""

    def __init__(self, root: str, attempt: int) -> None:
        self._root = root
        self._attempt = attempt

    def open(self) -> Folder:
        """Make a new, empty folder for one checkpoint."""
        name = names.saving_folder(self._attempt, os.urandom(8).hex())
        folder = Folder(os.path.join(self._root, name))
        folder.make()
        return folder

    def sweep(self) -> int:
        """Removes the folders of processes that are gone; returns how many."""
        count = 0
        with contextlib.suppress(FileNotFoundError):
            for entry in disk.entries(self._root):
                attempt = names.saving_attempt(entry.name)
                if attempt is not None and self._is_left(entry.path, attempt):
                    shutil.rmtree(entry.path, ignore_errors=True)
                    count += 1
        return count

    def _is_left(self, path: str, attempt: int) -> bool:
        if attempt < self._attempt:
            return True
        try:
            age = time.time() - os.stat(path, follow_symlinks=False).st_mtime
        except OSError:
            return False
        if age < _YOUNG:
            return False
        try:
            descriptor = _locked(path)
        except BlockingIOError:
            return False  # its process is alive
        if descriptor is None:
            return age > _ABANDONED
        os.close(descriptor)
        return True


def _locked(path: str) -> int | None:
    """A descriptor that holds the folder's lock; None where folders cannot be locked.

    Raises:
        BlockingIOError: if another process has it.
    """
    if fcntl is None:
        return None
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise
    except OSError:
        os.close(descriptor)
        return None
    return descriptor
