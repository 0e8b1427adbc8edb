"""Figures about TrainingJobs for Prometheus."""

from __future__ import annotations

from functools import partial
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from corral.api.training.status import CONDITION_RUNNING, PHASES
from corral.kube.types import Obj
from corral.runtime.family.events import became
from corral.runtime.informers.informer import Informer
from corral.runtime.pods.states import moment

__all__ = ["TrainingMetrics"]

PHASE_INDEX: Final = "phase"
_BUCKETS: Final = (0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0)


def _by_phase(job: Obj) -> tuple[str, ...]:
    return ((job.get("status") or {}).get("phase") or "Pending",)


def _count_of(jobs: Informer, phase: str) -> float:
    return float(len(jobs.store.keys_by_index(PHASE_INDEX, phase)))


class TrainingMetrics:
    """In the registry that is passed in; once a process."""

    def __init__(self, registry: CollectorRegistry, jobs: Informer) -> None:
        jobs.add_index(PHASE_INDEX, _by_phase)
        count = Gauge("corral_trainingjobs", "TrainingJobs, by phase", ["phase"], registry=registry)
        for phase in PHASES:
            count.labels(phase).set_function(partial(_count_of, jobs, phase))
        self._restarts = Counter(
            "corral_trainingjob_restarts_total",
            "Restarts of TrainingJobs: after failures of replicas, or after pods were lost",
            ["cause"],
            registry=registry,
        )
        self._finished = Counter(
            "corral_trainingjobs_finished_total",
            "TrainingJobs that have ended, by phase",
            ["phase"],
            registry=registry,
        )
        self._start = Histogram(
            "corral_trainingjob_time_to_running_seconds",
            "From the start of a TrainingJob to all of its replicas running",
            buckets=_BUCKETS,
            registry=registry,
        )

    def changed(self, old: Obj, new: Obj, *, now: float) -> None:
        """A status was written."""
        for cause, field in (("failure", "restarts"), ("disruption", "disruptions")):
            more = _count(new, field) - _count(old, field)
            if more > 0:
                self._restarts.labels(cause).inc(more)
        if new.get("completionTime") and not old.get("completionTime"):
            self._finished.labels(str(new.get("phase"))).inc()
        start = moment(new.get("startTime"))
        first = (new.get("attempt") or 0) == 1 and not new.get("suspendedSeconds")
        if first and start is not None and became(old, new, CONDITION_RUNNING, "True"):
            self._start.observe(max(now - start, 0.0))


def _count(status: Obj, field: str) -> int:
    return int((status.get("replicas") or {}).get(field) or 0)
