"""Conditions of typed statuses. No I/O; the time is passed in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from corral.api.fields import Condition
from corral.runtime.keys import format_time

__all__ = ["condition_of", "with_condition"]


def condition_of(conditions: Sequence[Condition] | None, type: str) -> Condition | None:
    """The condition of a type."""
    return next((found for found in conditions or () if found.type == type), None)


def with_condition(
    conditions: Sequence[Condition] | None,
    type: str,
    *,
    status: Literal["True", "False", "Unknown"],
    reason: str,
    message: str = "",
    now: float,
) -> list[Condition]:
    """The conditions with one of them set; its transition time moves with its status only."""
    before = condition_of(conditions, type)
    same = before is not None and before.status == status
    condition = Condition(
        type=type,
        status=status,
        reason=reason,
        message=message,
        last_transition_time=before.last_transition_time if before and same else format_time(now),
    )
    if before is None:
        return [*(conditions or ()), condition]
    return [condition if found.type == type else found for found in conditions or ()]
