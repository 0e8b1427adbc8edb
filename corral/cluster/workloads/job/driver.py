"""Does the steps of a pass over a job against the API.

Pods are created in slow-start batches and written to many at a time; every write is noted for
`ConsistencyStore`. The status is replaced at the version that was read, so that a pass on an old
copy of the job ends in a conflict before it counts anything. What could not be done is reported to
the pass, and the first cause is kept for the caller. The pass may be cut short at any point.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from corral.cluster.workloads.job.backoff import Backoff
from corral.cluster.workloads.job.orphans import FREE_POD
from corral.cluster.workloads.job.state import has_finalizer
from corral.cluster.workloads.job.steps import (
    DONE,
    CreatePods,
    DeletePods,
    Emit,
    Pass,
    RemoveFinalizers,
    Report,
    Step,
    Verdict,
    WriteStatus,
)
from corral.cluster.workloads.podcontrol import PodControl, namespace_terminating
from corral.cluster.workloads.pods import slow_start, uid
from corral.cluster.workloads.steps import emit
from corral.kube.client import KubeClient, KubeConnectionError
from corral.kube.errors import ApiError
from corral.kube.resources import JOBS
from corral.kube.types import Obj
from corral.runtime import ConsistencyStore, EventRecorder, key_of, uid_of, version_of

__all__ = ["FIELD_MANAGER", "JobDriver", "Outcome"]

FIELD_MANAGER: Final = "corral-job-controller"
_AT_ONCE: Final = 50
"""Writes to pods that one job has under way at a time."""


@dataclass(slots=True)
class Outcome:
    """What a pass came to."""

    verdict: Verdict = field(default_factory=Verdict)
    steps: int = 0
    """How many steps were asked for."""
    backoff: Backoff | None = None
    """To keep for the next pass, where a status was written."""
    freed: set[str] = field(default_factory=set)
    """Pods that have lost the tracking finalizer."""
    problem: Exception | None = None
    """The first cause of what could not be done."""
    closed: bool = False
    """The namespace is going: nothing can be created in it any more."""
    doubtful: bool = False
    """A creation was sent and not answered: the pod may or may not exist."""

    def note(self, error: Exception) -> None:
        if isinstance(error, ApiError) and namespace_terminating(error):
            self.closed = True  # no problem: the job will go with its namespace
        else:
            self.problem = self.problem or error


class JobDriver:
    """Drives passes; one for all jobs."""

    def __init__(
        self,
        client: KubeClient,
        recorder: EventRecorder,
        consistency: ConsistencyStore,
    ) -> None:
        self.pods = PodControl(client, recorder, consistency, field_manager=FIELD_MANAGER)
        self._client = client
        self._recorder = recorder
        self._consistency = consistency

    async def run(self, job: Obj, passing: Pass, outcome: Outcome) -> None:
        """Do all steps of a pass; ``outcome`` is filled as far as it comes.

        Raises:
            ApiError: the status could not be written; the pass ends there.
        """
        report: Report | None = None
        while True:
            try:
                step = next(passing) if report is None else passing.send(report)
            except StopIteration as stop:
                outcome.verdict = stop.value
                return
            outcome.steps += 1
            if isinstance(step, WriteStatus):
                job = await self._write_status(job, step, outcome)
                report = DONE
            else:
                report = await self._do(job, step, outcome)

    async def _do(self, job: Obj, step: Step, outcome: Outcome) -> Report:
        match step:
            case CreatePods(bodies):
                return await self._create(job, bodies, outcome)
            case DeletePods(pods, free_first):

                async def delete(pod: Obj) -> None:
                    if free_first and has_finalizer(pod):
                        await self._free(job, pod, outcome)
                    await self.pods.delete(job, pod)

                return await _for_all(pods, delete, outcome)
            case RemoveFinalizers(pods):
                return await _for_all(pods, lambda pod: self._free(job, pod, outcome), outcome)
            case Emit(events):
                emit(self._recorder, job, events)
        return DONE

    async def _create(self, job: Obj, bodies: Sequence[Obj], outcome: Outcome) -> Report:
        """A batch with a failure is the last one; what was not tried is reported as failed."""

        async def create(body: Obj) -> None:
            try:
                await self.pods.create(job, body)
            except (KubeConnectionError, TimeoutError):
                outcome.doubtful = True
                raise

        failed: set[int] = set()
        begin = 0
        for size in slow_start(len(bodies)):
            batch = bodies[begin : begin + size]
            report = await _for_all(batch, create, outcome)
            failed.update(begin + at for at in report.failed)
            begin += size
            if failed:
                break
        return Report(frozenset(failed.union(range(begin, len(bodies)))))

    async def _free(self, job: Obj, pod: Obj, outcome: Outcome) -> None:
        await self.pods.patch(job, pod, FREE_POD)
        outcome.freed.add(uid(pod))

    async def _write_status(self, job: Obj, step: WriteStatus, outcome: Outcome) -> Obj:
        written = await self._client.replace(
            JOBS,
            {**job, "status": step.status},
            subresource="status",
            field_manager=FIELD_MANAGER,
        )
        self._consistency.wrote_at(key_of(job), uid_of(job), JOBS, version_of(written))
        emit(self._recorder, job, step.events)
        if step.backoff is not None:
            outcome.backoff = step.backoff
        return written


async def _for_all(
    items: Sequence[Obj], action: Callable[[Obj], Awaitable[None]], outcome: Outcome
) -> Report:
    """Do the same with all of them, many at a time; report where it failed."""
    failed: set[int] = set()
    waiting = iter(enumerate(items))

    async def work() -> None:
        for at, item in waiting:
            try:
                await action(item)
            except (ApiError, KubeConnectionError, TimeoutError) as error:
                outcome.note(error)
                failed.add(at)

    async with asyncio.TaskGroup() as group:
        for _ in range(min(_AT_ONCE, len(items))):
            group.create_task(work())
    return Report(frozenset(failed))
