"""Figures about MPIJobs for Prometheus, under Kubeflow's names."""

from __future__ import annotations

import asyncio

from prometheus_client import CollectorRegistry, Counter, Gauge

from corral.api.mpi.status import CREATED, FAILED, SUCCEEDED
from corral.families.mpijob import names
from corral.kube.types import Obj
from corral.runtime.family.events import became
from corral.runtime.keys import split_key

__all__ = ["MPIMetrics"]


class MPIMetrics:
    """In the registry that is passed in; once a process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._created = Counter(
            "mpi_operator_jobs_created", "MPIJobs that were taken on", registry=registry
        )
        self._succeeded = Counter(
            "mpi_operator_jobs_successful", "MPIJobs that have succeeded", registry=registry
        )
        self._failed = Counter(
            "mpi_operator_jobs_failed", "MPIJobs that have failed for good", registry=registry
        )
        self._info = Gauge(
            "mpi_operator_job_info",
            "1 for every MPIJob that has a launcher",
            ["launcher", "namespace"],
            registry=registry,
        )
        self._leads = Gauge(
            "mpi_operator_is_leader", "1 while MPIJobs are looked after here", registry=registry
        )
        self._known: set[tuple[str, str]] = set()

    def changed(self, old: Obj, new: Obj) -> None:
        """A status was written."""
        if became(old, new, CREATED, "True"):
            self._created.inc()
        if new.get("completionTime") and not old.get("completionTime"):
            if became(old, new, SUCCEEDED, "True"):
                self._succeeded.inc()
            if became(old, new, FAILED, "True"):
                self._failed.inc()

    def launched(self, key: str) -> None:
        """The job of this key has a launcher."""
        labels = _labels(key)
        if labels not in self._known:
            self._known.add(labels)
            self._info.labels(*labels).set(1)

    def gone(self, key: str) -> None:
        """The job of this key is no more."""
        labels = _labels(key)
        if labels in self._known:
            self._known.remove(labels)
            self._info.remove(*labels)

    async def lead(self) -> None:
        """Say that we lead, until cancelled."""
        self._leads.set(1)
        try:
            await asyncio.Event().wait()
        finally:
            self._leads.set(0)


def _labels(key: str) -> tuple[str, str]:
    namespace, name = split_key(key)
    return names.launcher_name(name), namespace
