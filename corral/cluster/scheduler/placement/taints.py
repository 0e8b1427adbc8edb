"""Taints and tolerations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from corral.kube.types import Obj

__all__ = ["UNSCHEDULABLE", "tolerated", "tolerates", "untolerated"]

UNSCHEDULABLE: Final[Obj] = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
"""What a cordoned node amounts to."""

HARD: Final = frozenset({"NoSchedule", "NoExecute"})


def tolerates(toleration: Obj, taint: Obj) -> bool:
    """Whether one toleration covers one taint. ``Lt`` and ``Gt`` are off by default in 1.37."""
    effect, key = toleration.get("effect"), toleration.get("key")
    if effect and effect != taint.get("effect"):
        return False
    if key and key != taint.get("key"):
        return False
    operator: Any = toleration.get("operator") or "Equal"
    if operator == "Equal":
        return (toleration.get("value") or "") == (taint.get("value") or "")
    return bool(operator == "Exists")


def tolerated(tolerations: Sequence[Obj], taint: Obj) -> bool:
    """Whether any of the tolerations covers the taint."""
    return any(tolerates(toleration, taint) for toleration in tolerations)


def untolerated(tolerations: Sequence[Obj], taints: Sequence[Obj]) -> bool:
    """Whether there is a taint that none of the tolerations covers."""
    return any(not tolerated(tolerations, taint) for taint in taints)
