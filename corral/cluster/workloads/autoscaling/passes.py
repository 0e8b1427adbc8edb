"""One look at one autoscaler: its status as it is to become, and where no metric is asked.

Writes nothing but events.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

from corral.cluster.workloads.autoscaling.behavior import Bounds
from corral.kube.types import Obj
from corral.runtime import EventRecorder, find_condition, format_time, set_condition

__all__ = ["ABLE", "ACTIVE", "AT_ZERO", "LIMITED", "Pass", "forced_replicas"]

ABLE, ACTIVE, LIMITED, AT_ZERO = "AbleToScale", "ScalingActive", "ScalingLimited", "ScaledToZero"


class Pass:
    """The status in the making; ``hpa`` stays as it was read."""

    def __init__(self, hpa: Obj, recorder: EventRecorder, now: float) -> None:
        self.hpa = hpa
        self.spec: Obj = hpa["spec"]
        self.status: Obj = copy.deepcopy(hpa.get("status") or {})
        self.status.setdefault("desiredReplicas", 0)
        self._conditions: list[Obj] = self.status.setdefault("conditions", [])
        self._recorder = recorder
        self._now = format_time(now)

    @property
    def bounds(self) -> Bounds:
        given = self.spec.get("minReplicas")
        return Bounds(1 if given is None else int(given), int(self.spec["maxReplicas"]))

    @property
    def was_scaled_to_zero(self) -> bool:
        return (find_condition(self._conditions, AT_ZERO) or {}).get("status") == "True"

    @property
    def knows_metrics_without_pods(self) -> bool:
        return any(m.get("type") in ("Object", "External") for m in self.spec.get("metrics") or ())

    def note(self, kind: str, holds: bool, reason: str, *, message: str) -> None:
        status = "True" if holds else "False"
        set_condition(
            self._conditions, kind, status=status, reason=reason, now=self._now, message=message
        )

    def warn(self, reason: str, message: str) -> None:
        self._recorder.warning(self.hpa, reason, message)

    def tell(self, reason: str, message: str) -> None:
        self._recorder.normal(self.hpa, reason, message)

    def report(self, current: int, desired: int, metrics: Sequence[Obj], *, rescaled: bool) -> None:
        """Fill in what does not depend on conditions."""
        self.status["currentReplicas"] = current
        self.status["desiredReplicas"] = desired
        self.status.pop("currentMetrics", None)
        if metrics:
            self.status["currentMetrics"] = list(metrics)
        if generation := self.hpa["metadata"].get("generation"):
            self.status["observedGeneration"] = generation
        if rescaled:
            self.status["lastScaleTime"] = self._now


def forced_replicas(work: Pass, current: int) -> tuple[int, str] | None:
    """The number of replicas where no metric is asked, and why; None where they are."""
    bounds = work.bounds
    if current == 0:
        may_start = work.was_scaled_to_zero and (
            bounds.minimum != 0 or work.knows_metrics_without_pods
        )
        if may_start:
            return None
        why = "scaling is disabled since the replica count of the target is zero"
        work.note(ACTIVE, False, "ScalingDisabled", message=why)
        return 0, ""
    if current > bounds.maximum:
        return bounds.maximum, "Current number of replicas above Spec.MaxReplicas"
    if current < bounds.minimum:
        return bounds.minimum, "Current number of replicas below Spec.MinReplicas"
    return None
