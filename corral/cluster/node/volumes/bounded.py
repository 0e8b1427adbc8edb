"""Room in memory of a pod's own: a file system of a size for each volume, as a kubelet makes them.

Who fills one takes nothing from others, nor from the records of containers. They are the machine's
mounts, below the node's folder in memory: they outlive the agent as the pods do, and go when that
folder is removed (`corral.files.removal`). Only the machine's root can make them.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from corral.cluster.node.shim import kernel
from corral.files.private import make_folders
from corral.kube.quantity import Quantity
from corral.kube.types import Obj

__all__ = ["bounded_folder", "memory_size"]

_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


def bounded_folder(path: Path, size: int, *, mode: int = 0o700) -> None:
    """A folder that holds so many bytes; one that is bounded or in use already stays as it is.

    Raises OSError.
    """
    make_folders(path, mode=mode)
    if os.path.ismount(path) or os.listdir(path):
        return
    options = {"size": str(max(size, _PAGE)), "mode": f"{mode:o}"}
    attributes = kernel.NO_SUID | kernel.NO_DEVICES
    kernel.attach(kernel.new_tree("tmpfs", options, attributes=attributes), str(path))


def memory_size(volume: Obj, pod: Obj, total: int) -> int:
    """Bytes of an emptyDir in memory on a machine that has ``total``.

    What the volume says, and no more than its pod may have; half of the machine's memory for one
    that says nothing in a pod that may have any amount.
    """
    said = _amount((volume.get("emptyDir") or {}).get("sizeLimit"))
    found = [size for size in (said, _limit_of(pod)) if size]
    return min(*found, total) if found else total // 2


def _limit_of(pod: Obj) -> int:
    """What all containers of a pod may have together; 0 without a limit."""
    limits = [_limit(container) for container in pod["spec"].get("containers") or ()]
    first = [_limit(container) for container in pod["spec"].get("initContainers") or ()]
    return max(sum(limits), *first, 0) if all((*limits, *first)) else 0


def _limit(container: Obj) -> int:
    return _amount(((container.get("resources") or {}).get("limits") or {}).get("memory"))


def _amount(text: object) -> int:
    return Quantity.parse(str(text)).to_int() if text else 0
