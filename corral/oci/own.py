"""The name of the registry of a cluster of ours."""

from __future__ import annotations

from typing import Final

__all__ = ["OWN"]

OWN: Final = "registry.corral.local"
"""In references: the registry of the cluster itself, wherever it is."""
