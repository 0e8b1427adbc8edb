"""Durable storage with watches: SQLite as an append-only log, the current state in memory.

Guarantees:

* A write that was acknowledged is on disk (WAL, ``synchronous=FULL``); it survives ``kill -9`` and
  a power cut. Writes that arrive while a commit runs share the next one (group commit).
* Readers and watchers see a write only after it is durable, in revision order, each one once.
* One global revision counter; it never goes back, restarts included.
* Events of the recent past are kept (in memory and in the log), so watches resume after a
  restart; what is older is refused with ``Compacted``, never silently skipped.

Objects are kept as JSON bytes: that is a fifth of the memory of dicts, it is what lists and
watches send, and decoding gives every reader a copy of its own.
"""

from corral.cluster.apiserver.store.entries import ADDED, DELETED, MODIFIED, Entry, Event
from corral.cluster.apiserver.store.failures import (
    Compacted,
    DiskFull,
    Stale,
    StoreError,
    TooLarge,
)
from corral.cluster.apiserver.store.state import Limits, Store
from corral.cluster.apiserver.store.watches import Watch

__all__ = [
    "ADDED",
    "DELETED",
    "MODIFIED",
    "Compacted",
    "DiskFull",
    "Entry",
    "Event",
    "Limits",
    "Stale",
    "Store",
    "StoreError",
    "TooLarge",
    "Watch",
]
