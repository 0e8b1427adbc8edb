"""How patient a client is, and how much it takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from corral import __version__
from corral.egress.policy import EgressPolicy

__all__ = ["ClientSettings"]

_MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """Times in seconds, sizes in bytes."""

    connect_timeout: float = 15.0
    """To open a connection, TLS included."""
    read_timeout: float = 60.0
    """Longest silence in an answer."""
    tries: int = 5
    """How often the same step is tried in all without any progress."""
    first_wait: float = 0.2
    """Before the second try; doubles each time, with jitter."""
    longest_wait: float = 10.0
    """Between tries; also the longest ``Retry-After`` that is followed."""
    chunk: int = 32 * _MIB
    """A blob up to this size goes in one request; a larger one in pieces of it, which can be gone
    on with."""
    max_manifest: int = 4 * _MIB
    max_answer: int = _MIB
    """Of everything else that is read at once: errors, tokens, lists."""
    max_blob: int = 64 << 30
    egress: EgressPolicy | None = None
    """Which servers are called beside those that the mapping of registries names; None: any, for a
    user's own process."""
    user_agent: str = f"corral/{__version__}"
