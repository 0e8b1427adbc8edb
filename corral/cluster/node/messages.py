"""What a container leaves behind to say why it ended."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from corral.cluster.node.logs import tail_text

MAX_BYTES: Final = 4096
LOG_LINES: Final = 80
LOG_BYTES: Final = 2048


def termination_message(file: Path | None, *, policy: str, failed: bool, log: Path | None) -> str:
    """The end of the message file; else, if the policy says so and it failed, of the log."""
    if file is not None:
        try:
            with file.open("rb") as stream:
                size = stream.seek(0, os.SEEK_END)
                stream.seek(max(0, size - MAX_BYTES))
                if data := stream.read(MAX_BYTES):
                    return data.decode(errors="replace")
        except OSError as err:
            return f"Error on reading termination log {file}: {err.strerror}"
    if policy == "FallbackToLogsOnError" and failed and log is not None:
        return tail_text(log, lines=LOG_LINES, limit=LOG_BYTES)
    return ""
