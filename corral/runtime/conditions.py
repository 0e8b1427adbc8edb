"""Conditions of a status, after the API conventions. No I/O; the time is passed in.

``lastTransitionTime`` moves only when the status of a condition changes. All functions that change
something say whether they did, so that a status is written only when there is something new.
"""

from __future__ import annotations

from corral.kube.types import Obj

__all__ = [
    "find_condition",
    "has_condition",
    "is_condition_false",
    "is_condition_true",
    "remove_condition",
    "set_condition",
]


def find_condition(conditions: list[Obj] | None, type: str) -> Obj | None:
    """The condition of a type; the very dict that is in the list."""
    for condition in conditions or ():
        if condition.get("type") == type:
            return condition
    return None


def has_condition(conditions: list[Obj] | None, type: str, *, status: str) -> bool:
    condition = find_condition(conditions, type)
    return condition is not None and condition.get("status") == status


def is_condition_true(conditions: list[Obj] | None, type: str) -> bool:
    return has_condition(conditions, type, status="True")


def is_condition_false(conditions: list[Obj] | None, type: str) -> bool:
    return has_condition(conditions, type, status="False")


def set_condition(
    conditions: list[Obj],
    type: str,
    *,
    status: str,
    reason: str,
    now: str,
    message: str = "",
    observed_generation: int | None = None,
) -> bool:
    """Set a condition in the list, in place; whether that changed anything.

    ``now`` is what ``lastTransitionTime`` becomes if the status changes (see `keys.format_time`).
    """
    wanted: Obj = {"status": status, "reason": reason, "message": message}
    if observed_generation is not None:
        wanted["observedGeneration"] = observed_generation
    condition = find_condition(conditions, type)
    if condition is None:
        conditions.append({"type": type, **wanted, "lastTransitionTime": now})
        return True
    if all(condition.get(field) == value for field, value in wanted.items()):
        return False
    if condition.get("status") != status:
        condition["lastTransitionTime"] = now
    condition.update(wanted)
    return True


def remove_condition(conditions: list[Obj], type: str) -> bool:
    """Take a condition out of the list, in place; whether it was there."""
    kept = [condition for condition in conditions if condition.get("type") != type]
    removed = len(kept) != len(conditions)
    conditions[:] = kept
    return removed
