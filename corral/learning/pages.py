"""Pages of files that are mapped for reading, given back once they were read.

A file that is read from one end to the other through a mapping would otherwise end up in the memory
of the process as a whole. What is needed again is read again, with the same bytes in it.
"""

from __future__ import annotations

import mmap

import numpy as np

from corral.learning.tensors import Vector

__all__ = ["give_back", "owner"]

_CAN = hasattr(mmap, "MADV_DONTNEED")


def owner(values: Vector) -> object:
    """What the memory of an array belongs to."""
    found: object = values
    while isinstance(found, np.ndarray | memoryview):
        found = found.base if isinstance(found, np.ndarray) else found.obj
        if found is None:
            return None
    return found


def give_back(values: Vector, start: int, stop: int) -> None:
    """Give back the pages of a part of an array; nothing where it is no file mapped for reading."""
    mapped = owner(values) if _CAN else None
    # memory that can be written to would be lost
    if not isinstance(mapped, mmap.mmap) or not memoryview(mapped).readonly:
        return
    begins = np.frombuffer(mapped, np.uint8).ctypes.data
    first = values.ctypes.data - begins + start * values.itemsize
    stop_at = first + (stop - start) * values.itemsize
    first -= first % mmap.PAGESIZE
    mapped.madvise(mmap.MADV_DONTNEED, first, stop_at - first)
