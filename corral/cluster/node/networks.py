"""Moved: see ``network``."""

from __future__ import annotations

from corral.cluster.node.network.errors import NetworkError

__all__ = ["NetworkError"]
