"""Teller: writes statuses, and says in events and figures what has changed."""

from __future__ import annotations

from corral.families.mpijob.lifecycle.events import transitions
from corral.families.mpijob.lifecycle.memory import Memory
from corral.families.mpijob.metrics import MPIMetrics
from corral.kube.types import Obj
from corral.runtime import EventRecorder
from corral.runtime.family.events import record
from corral.runtime.family.statuses import StatusController

__all__ = ["Teller"]


class Teller:
    """For all jobs of one operator."""

    def __init__(
        self, statuses: StatusController, recorder: EventRecorder, metrics: MPIMetrics | None
    ) -> None:
        self._statuses = statuses
        self._recorder = recorder
        self._metrics = metrics

    async def write(self, job: Obj, status: Obj) -> Obj:
        """Give the job this status and say what has changed; the job as it is afterwards.

        Raises:
            Conflict: the job has changed since it was read.
            NotFound: it is gone.
        """
        old = job.get("status") or {}
        written = await self._statuses.write(job, status)
        if written is not job:
            record(self._recorder, job, transitions(old, status))
            if self._metrics is not None:
                self._metrics.changed(old, status)
        return written

    def warn(self, job: Obj, memory: Memory, reason: str, message: str) -> None:
        """Record a warning unless it was the last one of its kind."""
        if memory.said.get(reason) != message:
            memory.said[reason] = message
            self._recorder.warning(job, reason, message)

    def deleted(self, job: Obj, memory: Memory) -> None:
        """Somebody deletes the job; told once."""
        metadata = job["metadata"]
        if "MPIJobDeleted" not in memory.said:
            message = f"MPIJob {metadata['namespace']}/{metadata['name']} is deleted."
            memory.said["MPIJobDeleted"] = message
            self._recorder.normal(job, "MPIJobDeleted", message)

    def launched(self, key: str) -> None:
        """The job of this key has a launcher."""
        if self._metrics is not None:
            self._metrics.launched(key)

    def gone(self, key: str) -> None:
        """The job of this key is no more."""
        if self._metrics is not None:
            self._metrics.gone(key)
