"""Figures about tasks, their Jobs and results for Prometheus, by the names of the contract."""

from __future__ import annotations

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from corral.kube.types import Obj
from corral.runtime.informers.informer import Informer
from corral.runtime.pods.states import moment

__all__ = ["TaskMetrics"]

_BUCKETS: Final = (0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0)
_QUICK: Final = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0)
ACTIVE_INDEX: Final = "active"


def _active(task: Obj) -> tuple[str, ...]:
    active = (task.get("status") or {}).get("phase") in ("Scheduled", "Running")
    return ("active",) if active else ()


class TaskMetrics:
    """In the registry that is passed in; once a process."""

    def __init__(self, registry: CollectorRegistry, tasks: Informer) -> None:
        tasks.add_index(ACTIVE_INDEX, _active)
        self._tasks = Counter(
            "propeller_task_total",
            "WasmTasks that have reached a phase",
            ["namespace", "phase"],
            registry=registry,
        )
        self._seconds = Histogram(
            "propeller_task_duration_seconds",
            "From the start of a WasmTask to its end",
            ["namespace", "phase"],
            buckets=_BUCKETS,
            registry=registry,
        )
        Gauge(
            "propeller_task_active", "WasmTasks that have a proplet", registry=registry
        ).set_function(lambda: float(len(tasks.store.keys_by_index(ACTIVE_INDEX, "active"))))
        self._jobs = Counter(
            "propeller_job_total",
            "Jobs of WasmTasks, by what became of them",
            ["status"],
            registry=registry,
        )
        self._job_seconds = Histogram(
            "propeller_job_duration_seconds",
            "From the start of a Job of a WasmTask to its end",
            buckets=_BUCKETS,
            registry=registry,
        )
        self._extractions = Counter(
            "propeller_result_extraction_total",
            "Results that were looked for, by where they were found",
            ["source", "status"],
            registry=registry,
        )
        self._extraction_seconds = Histogram(
            "propeller_result_extraction_duration_seconds",
            "How long it took to find a result",
            buckets=_QUICK,
            registry=registry,
        )

    def changed(self, namespace: str, old: Obj, new: Obj) -> None:
        """A status was written."""
        phase = str(new.get("phase") or "")
        if phase == old.get("phase"):
            return
        self._tasks.labels(namespace, phase).inc()
        if phase in ("Completed", "Failed"):
            start, end = moment(new.get("startTime")), moment(new.get("finishTime"))
            if start is not None and end is not None:
                self._seconds.labels(namespace, phase).observe(max(end - start, 0.0))

    def created(self) -> None:
        """A Job was made."""
        self._jobs.labels("created").inc()

    def ended(self, status: str, job: Obj, now: float) -> None:
        """A Job has succeeded or failed."""
        self._jobs.labels(status).inc()
        start = moment((job.get("status") or {}).get("startTime"))
        if start is not None:
            end = moment((job.get("status") or {}).get("completionTime")) or now
            self._job_seconds.observe(max(end - start, 0.0))

    def extracted(self, source: str, seconds: float) -> None:
        """A result was looked for; the source is empty where there was none."""
        self._extractions.labels(source or "none", "found" if source else "missing").inc()
        self._extraction_seconds.observe(seconds)
