"""Whether a launcher has come to its end, and how. No I/O."""

from __future__ import annotations

from corral.kube.types import Obj
from corral.runtime.conditions import find_condition, is_condition_true

__all__ = ["ended_by", "is_finished", "is_suspended"]


def is_suspended(launcher: Obj) -> bool:
    return bool(launcher["spec"].get("suspend"))


def is_finished(launcher: Obj) -> bool:
    return ended_by(launcher, "Complete") is not None or ended_by(launcher, "Failed") is not None


def ended_by(launcher: Obj, type: str) -> Obj | None:
    """The condition of this type, where it is true."""
    conditions = (launcher.get("status") or {}).get("conditions")
    return find_condition(conditions, type) if is_condition_true(conditions, type) else None
