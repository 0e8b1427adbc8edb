"""What a machine's end takes along and a killed node agent cannot remove itself.

A real VM's memory and control groups go with it; these lie on the machine we share. A node agent
names both after its data folder, as is done here; a test holds the two together.
"""

from __future__ import annotations

import hashlib
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from corral.files.private import is_own
from corral.files.removal import remove_tree

__all__ = ["places", "remove_leftovers"]

_MEMORY: Final = Path("/dev/shm")
_GROUPS: Final = Path("/sys/fs/cgroup")
_ENDING_S: Final = 2.0
_PAUSE_S: Final = 0.01


def places(data: Path, name: str) -> tuple[list[Path], list[Path]]:
    """What a node agent has in memory, and its control groups; as far as there are any."""
    digest = hashlib.sha256(str(data.resolve()).encode()).hexdigest()
    group = f"corral-{name}-{digest[:8]}"
    # version 2 is one hierarchy, version 1 has a folder for each
    groups = [*_GROUPS.glob(group), *_GROUPS.glob(f"*/{group}")]
    memory = [path for path in _MEMORY.glob(f"corral-{digest[:12]}-*") if is_own(path)]
    return memory, groups


def remove_leftovers(data: Path, name: str) -> None:
    """Remove what a node agent kept outside its folder; nothing of it may run any more."""
    memory, groups = places(data, name)
    for folder in memory:
        with suppress(OSError):  # as much as can be removed
            remove_tree(folder)
    for group in groups:
        _remove_group(group)


def _remove_group(group: Path) -> None:
    """Remove a control group and those below it.

    Of processes that were killed, threads may end a little later, and make groups until then.
    """
    until = time.monotonic() + _ENDING_S
    while True:
        for folder, _, _ in os.walk(group, topdown=False):
            with suppress(OSError):  # hierarchies that are mounted together are gone together
                os.rmdir(folder)
        if not group.exists() or time.monotonic() > until:
            return
        time.sleep(_PAUSE_S)
