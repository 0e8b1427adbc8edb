"""Memory that is not needed any more."""

from __future__ import annotations

import ctypes


def give_back_memory() -> None:
    """Return freed memory to the system; what a burst needed would else be kept for good."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
