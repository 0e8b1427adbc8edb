"""Folders for files that live as long as one aggregation, and no longer than the process.

One that was killed could not remove its own: whoever comes next on the machine does.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import ClassVar

from corral.files.temporary import sweep, temporary

__all__ = ["Spool"]


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
            sweep(self._place)
        return temporary("round", self._place)
