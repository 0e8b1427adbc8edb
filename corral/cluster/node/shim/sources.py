"""What is mounted into a container, opened: from then on nobody can put something else there."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from corral.files.beneath import open_beneath

__all__ = ["open_source"]


def open_source(mount: Mapping[str, Any]) -> int:
    """The source of a mount, as a descriptor that serves for nothing but mounting it.

    The way to a subPath goes through a volume (``within``), which the containers that have it may
    change until it is open: it is followed without leaving the volume. The way to a job's folder
    (from ``root``) is followed as far as there is no link.

    Raises OSError.
    """
    source, within, root = mount["source"], mount.get("within"), mount.get("root")
    volume = within or source
    if root:
        found = open_beneath(root, os.path.relpath(volume, root), links=False)
    elif within:
        return open_beneath(within, os.path.relpath(source, within))
    else:
        return os.open(source, os.O_PATH | os.O_CLOEXEC)
    if not within:
        return found
    try:
        return open_beneath(found, os.path.relpath(source, within))
    finally:
        os.close(found)
