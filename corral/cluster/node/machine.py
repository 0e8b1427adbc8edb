"""Folders that belong to the machine and not to one agent: all agents of a user share them.

Where everybody may make folders, as in /tmp, a name can be taken by somebody else before us. That
costs nothing: another one is used, which the user's other agents find by its owner.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from corral.files.private import is_own

__all__ = ["machine_folder"]


def machine_folder() -> Path:
    """Where the agents of one user on this machine find each other; empty after a boot.

    Raises OSError.
    """
    if os.geteuid() == 0:
        return Path("/run/corral")
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime and is_own(Path(runtime)):
        return Path(runtime) / "corral"
    return _among_strangers(Path(tempfile.gettempdir()))


def _among_strangers(place: Path) -> Path:
    """A folder of ours where everybody may make folders, and may have taken the name already."""
    first = place / f"corral-{os.geteuid()}"
    for known in (first, *sorted(place.glob(f"{first.name}-*"))):
        if is_own(known):
            return known
    try:
        first.mkdir(mode=0o700)
    except FileExistsError:
        return Path(tempfile.mkdtemp(prefix=f"{first.name}-", dir=place))
    return first
