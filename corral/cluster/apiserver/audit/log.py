"""The file that audit events are appended to, one JSON document a line, rotated by size.

Lines are written whole and at once, so that what was answered is in the log even if the server is
killed next. A log that cannot be written (a full disk) never fails a request: it is reported once,
and events that are lost meanwhile are counted.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

__all__ = ["AuditLog", "LogSettings"]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LogSettings:
    """Where the log is and how much of it is kept."""

    path: Path
    max_size: int = 100
    """Megabytes after which a new file is begun."""
    max_backups: int = 10
    """Old files kept; 0 keeps all of them."""
    max_age: int = 0
    """Days an old file is kept; 0 keeps them whatever their age."""


class AuditLog:
    """Appends events to a file of mode 0600."""

    def __init__(self, settings: LogSettings, *, clock: Callable[[], float] = time.time) -> None:
        self._settings = settings
        self._clock = clock
        self._fd = -1
        self._size = 0
        self.lost = 0
        """Events that could not be written."""

    def open(self) -> None:
        """Raises OSError."""
        path = self._settings.path
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        self._fd = os.open(path, flags, 0o600)
        self._size = os.fstat(self._fd).st_size

    def write(self, line: bytes) -> None:
        """Append one event; never raises for a disk that cannot take it."""
        try:
            if self._size and self._size + len(line) > self._settings.max_size * 1_000_000:
                self._rotate()
            if self._fd < 0:
                self.open()
            written = os.write(self._fd, line)
            self._size += written
            if written < len(line):  # the disk is full: no half lines
                os.ftruncate(self._fd, self._size - written)
                self._size -= written
                raise OSError(28, "No space left on device")
        except OSError as err:
            self._lose(err)
            return
        if self.lost:
            log.warning("the audit log is written again; %d events were lost", self.lost)
            self.lost = 0

    def _lose(self, err: OSError) -> None:
        self.lost += 1
        if self.lost == 1:
            log.error(
                "the audit log %s cannot be written (%s): events are lost until it can be",
                self._settings.path,
                err.strerror,
            )

    def _rotate(self) -> None:
        path = self._settings.path
        stamp = time.strftime("%Y-%m-%dT%H-%M-%S", time.gmtime(self._clock()))
        number = 0
        while (target := path.with_name(f"{path.stem}-{stamp}.{number:03}{path.suffix}")).exists():
            number += 1
        os.close(self._fd)
        self._fd = -1
        path.rename(target)
        self.open()
        self._drop_old()

    def _drop_old(self) -> None:
        path, settings = self._settings.path, self._settings
        old = sorted(path.parent.glob(f"{path.stem}-*{path.suffix}"), reverse=True)
        kept = old[: settings.max_backups] if settings.max_backups else old
        oldest = self._clock() - settings.max_age * 86400 if settings.max_age else 0.0
        for file in old:
            if file not in kept or file.stat().st_mtime < oldest:
                file.unlink()

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
