"""The status of a PodDisruptionBudget from its pods. No I/O; the time is passed in."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from corral.cluster.workloads.pods import is_deleting, is_ready
from corral.cluster.workloads.times import datetime_or_zero, seconds_between
from corral.kube.times import format_datetime
from corral.kube.types import Obj
from corral.runtime import set_condition

__all__ = ["DELETION_TIMEOUT", "Verdict", "failed_status", "judge", "needs_scale"]

DELETION_TIMEOUT: Final = timedelta(minutes=2)
"""How long an evicted pod counts as disrupted although nobody has deleted it."""
ALLOWED: Final = "DisruptionAllowed"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What to write, and when to look again."""

    status: Obj
    recheck_after: float | None
    """Seconds until an eviction that never became a deletion stops to count."""
    overdue: tuple[Obj, ...]
    """Pods that were evicted and not deleted in time."""


def needs_scale(budget: Obj) -> bool:
    """Whether the status depends on how many pods the controllers want."""
    spec = budget["spec"]
    return spec.get("maxUnavailable") is not None or isinstance(spec.get("minAvailable"), str)


def judge(budget: Obj, pods: Sequence[Obj], scale: int, *, now: datetime) -> Verdict:
    """The status of a budget.

    Args:
        budget: As read.
        pods: The pods that its selector selects.
        scale: How many pods their controllers want; only for budgets that need it.
        now: The time.
    """
    expected, desired = _goals(budget, pods, scale)
    disrupted, recheck, overdue = _disrupted(budget, pods, now)
    healthy = sum(
        1
        for pod in pods
        if not is_deleting(pod) and pod["metadata"]["name"] not in disrupted and is_ready(pod)
    )
    allowed = max(0, healthy - desired) if expected > 0 else 0
    generation = int(budget["metadata"].get("generation", 0))
    conditions = copy.deepcopy((budget.get("status") or {}).get("conditions") or [])
    _set_allowed(conditions, allowed, generation=generation, now=now)
    status: Obj = {
        "currentHealthy": healthy,
        "desiredHealthy": desired,
        "disruptionsAllowed": allowed,
        "expectedPods": expected,
        "observedGeneration": generation,
        "conditions": conditions,
    }
    if disrupted:
        status["disruptedPods"] = disrupted
    return Verdict(status, recheck, overdue)


def failed_status(budget: Obj, message: str, *, now: datetime) -> Obj:
    """The status when the numbers cannot be found out: nothing may be disrupted."""
    status = copy.deepcopy(budget.get("status") or {})
    status["disruptionsAllowed"] = 0
    for name in ("currentHealthy", "desiredHealthy", "expectedPods"):
        status.setdefault(name, 0)
    set_condition(
        status.setdefault("conditions", []),
        ALLOWED,
        status="False",
        reason="SyncFailed",
        message=message,
        now=format_datetime(now),
        observed_generation=status.get("observedGeneration", 0),
    )
    return status


def _goals(budget: Obj, pods: Sequence[Obj], scale: int) -> tuple[int, int]:
    """(expected, desired): how many pods there should be, and how many must be healthy."""
    spec = budget["spec"]
    unavailable, available = spec.get("maxUnavailable"), spec.get("minAvailable")
    if unavailable is not None:
        return scale, max(0, scale - _share(unavailable, scale))
    if isinstance(available, str):
        return scale, _share(available, scale)
    if available is not None:
        return len(pods), int(available)
    return 0, 0


def _share(value: int | str, of: int) -> int:
    """A number, or a percentage of ``of`` rounded up."""
    if isinstance(value, int):
        return value
    return -(-int(value.removesuffix("%")) * of // 100)


def _disrupted(
    budget: Obj, pods: Iterable[Obj], now: datetime
) -> tuple[dict[str, str], float | None, tuple[Obj, ...]]:
    noted = (budget.get("status") or {}).get("disruptedPods") or {}
    kept: dict[str, str] = {}
    overdue: list[Obj] = []
    recheck: float | None = None
    for pod in pods if noted else ():
        name = pod["metadata"]["name"]
        if is_deleting(pod) or name not in noted:
            continue
        left = seconds_between(now, datetime_or_zero(noted[name]) + DELETION_TIMEOUT)
        if left < 0:
            overdue.append(pod)
        else:
            kept[name] = noted[name]
            recheck = left if recheck is None else min(recheck, left)
    return kept, recheck, tuple(overdue)


def _set_allowed(conditions: list[Obj], allowed: int, *, generation: int, now: datetime) -> None:
    set_condition(
        conditions,
        ALLOWED,
        status="True" if allowed > 0 else "False",
        reason="SufficientPods" if allowed > 0 else "InsufficientPods",
        now=format_datetime(now),
        observed_generation=generation,
    )
