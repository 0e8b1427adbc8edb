"""Folders for files that live as long as one aggregation, and no longer than the process.

One that was killed could not remove its own: whoever comes next on the machine does.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import ClassVar, Final

__all__ = ["Spool"]

PREFIX: Final = "corral-round-"


class Spool:
    """Below one place; the system's for such files if none is given."""

    _swept: ClassVar[set[Path]] = set()
    """Places where this process has removed what it found; what is there since may be its own."""

    def __init__(self, place: Path | None) -> None:
        self._place = place or Path(tempfile.gettempdir())

    def folder(self) -> tempfile.TemporaryDirectory[str]:
        """A new folder; the first call removes what processes that are no more have left."""
        if self._place not in self._swept:
            self._swept.add(self._place)
            self._sweep()
        return tempfile.TemporaryDirectory(
            prefix=f"{PREFIX}{os.getpid()}-", dir=self._place, ignore_cleanup_errors=True
        )

    def _sweep(self) -> None:
        for found in self._place.glob(f"{PREFIX}*"):
            number = found.name.removeprefix(PREFIX).partition("-")[0]
            # In a container every process may have had our number: we have made none yet.
            if number.isdecimal() and (int(number) == os.getpid() or not _runs(int(number))):
                shutil.rmtree(found, ignore_errors=True)


def _runs(number: int) -> bool:
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
