"""Deletes finished jobs when their ttlSecondsAfterFinished is over, pods first."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from corral.cluster.workloads.job.ttl import time_to_live
from corral.kube.errors import Conflict, NotFound
from corral.kube.resources import JOBS
from corral.runtime import Change, Manager, Result, split_key, uid_of

__all__ = ["TtlController", "register"]

_WORKERS: Final = 5


class TtlController:
    """Looks at finished jobs that have a time to live."""

    def __init__(self, manager: Manager, *, now: Callable[[], datetime]) -> None:
        self._client = manager.client
        self._now = now
        jobs = manager.informer(JOBS)
        self._jobs = jobs.store
        controller = manager.controller(
            "ttl-after-finished", self.reconcile, workers=_WORKERS, timeout=60
        )
        controller.watch(jobs, when=self._has_time_to_live)

    def _has_time_to_live(self, change: Change) -> bool:
        return change.new is not None and time_to_live(change.new, self._now()) is not None

    async def reconcile(self, key: str) -> Result | None:
        """Delete a job whose time is over; else come again when it is."""
        job = self._jobs.get(key)
        left = None if job is None else time_to_live(job, self._now())
        if left is None:
            return None
        if left > 0:
            return Result(requeue_after=left)
        # The copy at hand may be old, and the time to live have been made longer.
        namespace, name = split_key(key)
        try:
            fresh = await self._client.get(JOBS, name, namespace=namespace)
            left = time_to_live(fresh, self._now())
            if left is None:
                return None
            if left > 0:
                return Result(requeue_after=left)
            await self._client.delete(
                JOBS, name, namespace=namespace, propagation="Foreground", uid=uid_of(fresh)
            )
        except NotFound:
            return None
        except Conflict:
            return Result(requeue_after=1.0)  # another job has the name now
        return None


def register(manager: Manager, *, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
    """Run the controller in a manager."""
    TtlController(manager, now=now)
