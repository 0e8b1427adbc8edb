"""Folders for files that a process needs for a while, where the system has such files.

A process that is killed cannot remove its own. Names say whose they are: `sweep` removes those
of processes that are no more, when the next one of the kind starts.
"""

from __future__ import annotations

import os
import re
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final
from weakref import WeakSet

from corral.files.private import is_own
from corral.files.removal import remove_tree

__all__ = ["sweep", "temporary"]

_NAME: Final = re.compile(r"corral-[a-z]+-([0-9]{1,9})-[^/]+")
_made: Final[WeakSet[tempfile.TemporaryDirectory[str]]] = WeakSet()


def temporary(what: str, place: Path | None = None) -> tempfile.TemporaryDirectory[str]:
    """A new folder, below ``place`` or the system's; ``what`` it is for is in its name."""
    made = tempfile.TemporaryDirectory(
        prefix=f"corral-{what}-{os.getpid()}-", dir=place, ignore_cleanup_errors=True
    )
    _made.add(made)
    return made


def sweep(place: Path | None = None) -> None:
    """Remove what processes of this user have left behind."""
    where = place or Path(tempfile.gettempdir())
    own = {Path(made.name) for made in _made}
    with suppress(OSError), os.scandir(where) as entries:
        for name in [entry.name for entry in entries]:
            found = _NAME.fullmatch(name)
            if found is None or where / name in own:
                continue
            # in a container every process may have had our number
            if int(found[1]) == os.getpid() or not _runs(int(found[1])):
                _remove(where / name)


def _remove(folder: Path) -> None:
    if is_own(folder):  # anybody may make a folder of such a name
        with suppress(OSError):
            remove_tree(folder)


def _runs(number: int) -> bool:
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
