"""Figures about spot jobs for Prometheus."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from corral.families.spot.jobs.changes import News
from corral.kube.types import Obj

__all__ = ["JobMetrics"]

_RECOVERY: Final = (1.0, 2.0, 3.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0)
_LABELS: Final = ("namespace", "job")


class JobMetrics:
    """In the registry that is passed in; once a process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        place = ("cloud", "zone", "machine_type", "model")
        self._machines = Counter(
            "corral_spot_machine_events_total",
            "Machines of spot jobs, by what has become of them",
            [*place, "event"],
            registry=registry,
        )
        self._recovery = Histogram(
            "corral_spot_recovery_seconds",
            "From the loss of a copy's machine until the copy runs again",
            buckets=_RECOVERY,
            registry=registry,
        )
        self._copies = Gauge(
            "corral_spot_active_copies", "Copies that run", _LABELS, registry=registry
        )
        self._cost = Gauge(
            "corral_spot_cost", "What a job has cost so far", _LABELS, registry=registry
        )
        self._saving = Gauge(
            "corral_spot_saving_percent",
            "What was saved against one copy on demand",
            _LABELS,
            registry=registry,
        )
        self._lost_work = Gauge(
            "corral_spot_lost_work_seconds",
            "Work that had to be done again",
            _LABELS,
            registry=registry,
        )
        self._lost: dict[tuple[str, int], float] = {}
        """(UID of the job, copy) → when its machine was lost."""

    def told(self, job: Obj, news: Iterable[News], *, now: float) -> None:
        """These things have happened to a job."""
        for each in news:
            if each.placement is not None and each.kind in ("Wished", "Given", "Refused", "Lost"):
                where = each.placement
                self._machines.labels(
                    str(where.get("cloud")),
                    str(where.get("zone")),
                    str(where.get("machineType")),
                    str(where.get("provisioningModel")),
                    each.kind.lower(),
                ).inc()
            if each.replica is None:
                continue
            key = (str(job["metadata"]["uid"]), each.replica)
            if each.kind == "Lost":
                self._lost.setdefault(key, now)
            elif each.kind == "Running" and key in self._lost:
                self._recovery.observe(max(now - self._lost.pop(key), 0.0))

    def shown(self, job: Obj, status: Obj) -> None:
        """A job has this status now."""
        metadata = job["metadata"]
        labels = (metadata["namespace"], metadata["name"])
        cost = status.get("cost") or {}
        self._copies.labels(*labels).set(int(status.get("activeReplicas") or 0))
        self._cost.labels(*labels).set(float(cost.get("total") or 0.0))
        self._saving.labels(*labels).set(float(cost.get("savingPercent") or 0.0))
        self._lost_work.labels(*labels).set(float(cost.get("lostWorkSeconds") or 0.0))

    def gone(self, namespace: str, name: str) -> None:
        """A job is there no more."""
        for gauge in (self._copies, self._cost, self._saving, self._lost_work):
            try:
                gauge.remove(namespace, name)
            except KeyError:
                continue  # it was never shown
