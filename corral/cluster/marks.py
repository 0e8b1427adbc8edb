"""Labels by which the parts of an embedded cluster know each other's objects."""

from __future__ import annotations

from typing import Final

__all__ = ["ISOLATION_LABEL", "PLAIN"]

ISOLATION_LABEL: Final = "corral.dev/isolation"
"""On a Node of ours: how its pods are kept apart, ``root``, ``user`` or ``plain``."""
PLAIN: Final = "plain"
"""Not at all: pods are processes of one user, who can read and end each other."""
