"""How patient node health is."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Settings"]


@dataclass(frozen=True, slots=True)
class Settings:
    """Seconds, unless it says otherwise."""

    period: float = 5.0
    """How often all nodes are judged."""
    grace: float = 40.0
    """Silence after which a node counts as unreachable: what a node lease lasts."""
    startup_grace: float = 60.0
    """The same for a node that has never said whether it is ready."""
    eviction_rate: float = 0.1
    """Nodes a second that may be given up in a healthy zone."""
    slow_eviction_rate: float = 0.01
    """The same in a large zone of which most nodes are unhealthy; in a small one none may."""
    large_zone: int = 50
    """Nodes above which a zone is large."""
    unhealthy_share: float = 0.55
    """Share of nodes (three at least) that makes a zone unhealthy."""
    concurrency: int = 8
    """Writes that one pass has under way."""
