"""Where pods of a cluster on this machine reach its broker; light, for whoever only tells it."""

from __future__ import annotations

from typing import Final

__all__ = ["NAME", "NAMESPACE", "POD_ADDRESS", "PORT"]

NAME: Final = "corral-broker"
NAMESPACE: Final = "corral-system"
PORT: Final = 9092
POD_ADDRESS: Final = f"{NAME}.{NAMESPACE}.svc:{PORT}"
"""What pods are told."""
