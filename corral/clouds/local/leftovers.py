"""What a machine's end takes along and a killed node agent cannot remove itself.

A real VM's memory and control groups go with it; these lie on the machine we share.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Final

__all__ = ["remove_leftovers"]

_MEMORY: Final = Path("/dev/shm")
_GROUPS: Final = Path("/sys/fs/cgroup")


def remove_leftovers(data: Path, name: str) -> None:
    """Remove what a node agent kept outside its folder; nothing of it may run any more."""
    containers = data / "containers"
    if containers.is_symlink():
        place = Path(os.readlink(containers)).parent
        if place.parent == _MEMORY and place.name.startswith("corral-"):
            shutil.rmtree(place, ignore_errors=True)
    # version 1 has a folder for each hierarchy, version 2 is one; only empty groups can be removed
    for group in {*_GROUPS.glob(f"corral-{name}-*"), *_GROUPS.glob(f"*/corral-{name}-*")}:
        for folder, _, _ in os.walk(group, topdown=False):
            with suppress(OSError):  # in use: of another node of that name
                os.rmdir(folder)
