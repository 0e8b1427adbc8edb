"""What a container leaves behind to say why it ended."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Final

from corral.cluster.node.container.logs import tail_text

MAX_BYTES: Final = 4096
LOG_LINES: Final = 80
LOG_BYTES: Final = 2048


def termination_message(file: Path | None, *, policy: str, failed: bool, log: Path | None) -> str:
    """The end of the message file; else, if the policy says so and it failed, of the log."""
    if file is not None:
        try:
            if data := _end_of(file):
                return data.decode(errors="replace")
        except OSError as err:
            return f"Error on reading termination log {file}: {err.strerror}"
    if policy == "FallbackToLogsOnError" and failed and log is not None:
        return tail_text(log, lines=LOG_LINES, limit=LOG_BYTES)
    return ""


def _end_of(file: Path) -> bytes:
    """The last bytes of a file that a container wrote. Raises OSError.

    A container that can reach it may have put anything there: what is no file, a link to one or
    a second name of one is not read, and nothing makes us wait.
    """
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    fd = os.open(file, flags)
    try:
        info = os.fstat(fd)
        if not stat.S_ISREG(info.st_mode) or info.st_nlink > 1:
            raise OSError(errno.EINVAL, "not a regular file with one name")
        return os.pread(fd, MAX_BYTES, max(0, info.st_size - MAX_BYTES))
    finally:
        os.close(fd)
