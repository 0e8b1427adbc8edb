"""Large pieces of memory go back to the system as soon as they are free.

The C library keeps what was freed in heaps of its threads and finds it too cut up for the next
array: a process that reads one model after the other would have several times what it uses.
"""

from __future__ import annotations

import ctypes
import logging
from typing import Final

__all__ = ["give_back"]

logger = logging.getLogger(__name__)

_M_MMAP_THRESHOLD: Final = -3
LARGE: Final = 1 << 20
"""Bytes from which on a piece is one of its own."""


def give_back() -> bool:
    """Ask the C library for it; whether it knows how (glibc does, others need not)."""
    try:
        known = bool(ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, LARGE) == 1)
    except (AttributeError, OSError):
        known = False
    if not known:
        logger.debug("this C library cannot be told when to give memory back")
    return known
