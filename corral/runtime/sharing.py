"""Which part of the keys is ours, where several processes do one controller's work.

A key always falls to the same share, so that the promise of a controller holds over all processes:
no key is reconciled twice at a time. What a share does not have, its caches have nevertheless.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

__all__ = ["WHOLE", "Share"]


@dataclass(frozen=True, slots=True)
class Share:
    """One of so many parts of all keys."""

    index: int = 0
    count: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.index < self.count:
            raise ValueError(f"share {self.index} of {self.count}: use 0 to {self.count - 1}")

    def __contains__(self, key: str) -> bool:
        return self.count == 1 or zlib.crc32(key.encode()) % self.count == self.index


WHOLE = Share()
