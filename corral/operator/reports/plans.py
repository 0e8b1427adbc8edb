"""At which step all replicas of a job make their next checkpoint together. No I/O.

A sharded checkpoint needs every replica at one step, so the step is announced before anybody is
there. The plan is an annotation of the job: every operator process gives the same answer, and a
new one goes on with it. A plan that some replica missed is never completed; the next follows after
another interval.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass

from corral.api.fields import span_seconds
from corral.families.trainingjob.checkpoints.summaries import belongs_to, is_ready, time_of
from corral.kube.types import Obj

__all__ = ["PLAN", "Plan", "interval_of", "next_plan", "plan_of"]

PLAN = "training.corral.dev/checkpoint-plan"
"""On a job: the plan as JSON."""
LEAST_STEPS = 5
AHEAD = 3.0
"""Seconds of training between the announcement and the step."""
DEFAULT_INTERVAL = 600.0


@dataclass(frozen=True, slots=True)
class Plan:
    """The step of a checkpoint that all replicas make."""

    attempt: int
    step: int
    time: float
    """When it was made, in seconds since the epoch."""
    request: str = ""
    """The request for a checkpoint that it is for."""

    def text(self) -> str:
        parts = {"attempt": self.attempt, "step": self.step, "time": self.time}
        return json.dumps({**parts, "request": self.request} if self.request else parts)


def plan_of(job: Obj) -> Plan | None:
    """The plan that was announced last."""
    text = (job["metadata"].get("annotations") or {}).get(PLAN)
    try:
        found = json.loads(text or "null")
        return None if found is None else Plan(
            int(found["attempt"]), int(found["step"]), float(found["time"]),
            str(found.get("request") or ""),
        )  # fmt: skip
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        return None  # somebody else wrote it: as if there were none


def interval_of(job: Obj) -> float:
    """Seconds between two checkpoints."""
    spec = job["spec"].get("checkpoint") or {}
    try:
        return span_seconds(spec["interval"])
    except (KeyError, ValueError):
        return DEFAULT_INTERVAL


def next_plan(
    job: Obj,
    checkpoints: Sequence[Obj],
    *,
    attempt: int,
    step: int,
    rate: float | None,
    began: float,
    now: float,
    request: str = "",
) -> Plan | None:
    """A new plan, if a checkpoint is due and none is planned ahead of this step.

    ``began`` is when this attempt was first heard of; ``request`` one that nobody answered yet.
    """
    present = plan_of(job)
    if present is not None and present.attempt == attempt and present.step > step:
        return None
    own = [found for found in checkpoints if is_ready(found) and belongs_to(found, job)]
    last = max([began, *map(time_of, own)])
    if present is not None and present.attempt == attempt:
        last = max(last, present.time)
    asked = bool(request) and (present is None or present.request != request)
    if not asked and now - last < interval_of(job):
        return None
    ahead = max(LEAST_STEPS, math.ceil((rate or 0.0) * AHEAD))
    return Plan(attempt, step + ahead, now, request)
