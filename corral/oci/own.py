"""The name of the registry of a cluster of ours."""

from __future__ import annotations

from typing import Final

__all__ = ["AUDIENCE", "OWN", "PULL_AUDIENCE"]

OWN: Final = "registry.corral.local"
"""In references: the registry of the cluster itself, wherever it is."""
AUDIENCE: Final = "registry.corral.dev"
"""Of service account tokens that were made for a registry: what a pod is to push with."""
PULL_AUDIENCE: Final = "pull.registry.corral.dev"
"""Of those that nodes pull a pod's modules with."""
