"""How much a registry keeps, and for how long."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["StoreSettings"]

_GIB: Final = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSettings:
    """Sizes in bytes, times in seconds."""

    max_blob: int = 64 * _GIB
    max_manifest: int = 4 << 20
    max_total: int = 0
    """Of all blobs and uploads together; 0: as much as the disk has."""
    reserve: int = 256 << 20
    """Of the disk that is left free: what would use it is refused."""
    max_namespace: int = 0
    """Of one namespace: its blobs, manifests and uploads; 0: half of what all may have together."""
    max_uploads: int = 16384
    """Open at the same time."""
    max_namespace_uploads: int = 256
    """... of one namespace, so that nobody takes the places of others."""
    max_caller_uploads: int = 128
    """... of one caller in a namespace, so that the others of it go on."""
    grace: float = 3600.0
    """How long a blob that no manifest refers to is kept."""
    upload_idle: float = 600.0
    """After which an upload that nobody goes on with is removed."""
    expiring: tuple[str, ...] = ("*/updates",)
    """Patterns of repositories whose artifacts are removed when nobody uses them."""
    expire_after: float = 86400.0
    """Without being pushed or pulled."""
    collect_every: float = 600.0
