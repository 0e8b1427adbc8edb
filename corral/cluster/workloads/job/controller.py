"""The job controller: `sync_job` run over every job whenever it, or one of its pods, changes.

Guarantees: no pod is created while the caches lack an earlier write for the same job; no finished
pod is counted twice, whenever the process is killed; a status is written only at the version it was
made from. A change of the spec is acted on at once. Changes of pods are gathered: the first after
a quiet time is acted on after a moment, the following ones once a second.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from corral.cluster.workloads.job import names
from corral.cluster.workloads.job.backoff import NO_FAILURES, Backoff
from corral.cluster.workloads.job.driver import JobDriver, Outcome
from corral.cluster.workloads.job.orphan_controller import OrphanController
from corral.cluster.workloads.job.orphans import FREE_POD, claim_pods
from corral.cluster.workloads.job.selection import JobPods, matters
from corral.cluster.workloads.job.state import finished_condition, has_finalizer, managed_by_other
from corral.cluster.workloads.job.sync import sync_job
from corral.cluster.workloads.pods import is_deleting, uid
from corral.kube.errors import Invalid, NotFound
from corral.kube.resources import JOBS, PODS
from corral.kube.types import Obj
from corral.runtime import (
    LOW_PRIORITY,
    Change,
    ConsistencyStore,
    ExponentialLimiter,
    Manager,
    NotYetConsistent,
    Result,
    uid_of,
    version_of,
)

__all__ = ["JobController", "JobSettings", "register"]

COMPONENT: Final = "job-controller"


@dataclass(frozen=True, slots=True)
class JobSettings:
    """Seconds, where nothing else is said."""

    batch: float = names.BATCH_PERIOD_S
    """Changes of pods lead to one pass in this time at most."""
    moment: float = 0.05
    """How long the first change after a quiet time waits for its companions."""
    stale_retry: float = 0.02
    """When to look again whether the caches have seen our own writes."""
    retry: float = 1.0
    """First wait after a failure; doubles each time."""
    max_retry: float = 60.0
    workers: int = 5
    """Jobs that are passed over at the same time."""
    timeout: float = 300.0
    """For one pass."""


@dataclass(slots=True)
class _Memory:
    """What is kept about one job between passes. Losing it costs time, never correctness."""

    uid: str
    last_change: float = -math.inf
    """When a pass last wrote something."""
    backoff: Backoff = NO_FAILURES
    freed: set[str] = field(default_factory=set)
    """Pods that lost their finalizer; kept until the cache shows it."""
    doubtful: bool = False
    """A creation was not answered: ask the server before the next pass."""


class JobController:
    """Runs passes over jobs."""

    def __init__(
        self,
        manager: Manager,
        *,
        settings: JobSettings | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings or JobSettings()
        self._now, self._clock = now, clock
        self._client = manager.client
        self._jobs, self._pods = manager.informer(JOBS), manager.informer(PODS)
        self.index = JobPods(self._jobs, self._pods)
        self._consistency = ConsistencyStore({JOBS: self._jobs, PODS: self._pods})
        recorder = manager.recorder(COMPONENT)
        self._driver = JobDriver(self._client, recorder, self._consistency)
        self._memories: dict[str, _Memory] = {}
        self._controller = manager.controller(
            "job",
            self.reconcile,
            workers=self._settings.workers,
            timeout=self._settings.timeout,
            limiter=ExponentialLimiter(self._settings.retry, self._settings.max_retry),
        )
        self._controller.informers += [self._jobs, self._pods]
        self._jobs.add_handler(self._job_changed)
        self._pods.add_handler(self._pod_changed)

    # --- what wakes a job --------------------------------------------------------------------

    def _job_changed(self, change: Change) -> None:
        old, new = change.old, change.new
        if old is None or new is None:
            self._controller.queue.add(change.key, LOW_PRIORITY if change.is_initial else 0)
        elif finished_condition(new) is not None:
            self._forget(change.key)
        elif old["metadata"].get("generation") != new["metadata"].get("generation"):
            self._controller.queue.add(change.key)
        else:
            self._wake(change.key)

    def _pod_changed(self, change: Change) -> None:
        if not change.is_initial and matters(change):
            for key in self.index.concerned(change):
                self._wake(key)

    def _wake(self, key: str) -> None:
        """Pass over a job soon, but not sooner than a batch after the last that did anything."""
        memory = self._memories.get(key)
        earliest = memory.last_change + self._settings.batch if memory else -math.inf
        delay = max(self._settings.moment, earliest - self._clock())
        self._controller.queue.add_after(key, delay)

    # --- one pass ----------------------------------------------------------------------------

    async def reconcile(self, key: str) -> Result | None:
        """One pass over a job, once the caches have seen what the last one wrote."""
        try:
            self._consistency.ensure_ready(key)
        except NotYetConsistent:
            return Result(requeue_after=self._settings.stale_retry)
        job = self._jobs.store.get(key)
        if job is None or finished_condition(job) is not None:
            self._forget(key)
            return None
        if managed_by_other(job):
            return None
        memory = self._remember(key, job)
        if memory.doubtful and not await self._resolve_doubt(key, job, memory):
            return Result(requeue_after=self._settings.stale_retry)
        pods = await self._claim(job)
        memory.freed &= {uid(pod) for pod in pods if has_finalizer(pod)}
        return await self._pass(key, job, memory, pods)

    async def _pass(self, key: str, job: Obj, memory: _Memory, pods: list[Obj]) -> Result | None:
        began = self._clock()
        outcome = Outcome()
        passing = sync_job(
            job, pods, now=self._now(), backoff=memory.backoff, removed=frozenset(memory.freed)
        )
        try:
            await self._driver.run(job, passing, outcome)
        finally:
            if outcome.steps:
                memory.last_change = began
            memory.freed |= outcome.freed
            memory.doubtful |= outcome.doubtful
            memory.backoff = outcome.backoff or memory.backoff
        if outcome.closed:
            await self._let_go(job, pods)
        if outcome.problem is not None:
            raise outcome.problem
        if outcome.verdict.finished:
            self._memories.pop(key, None)
        after = outcome.verdict.requeue_after
        return Result(requeue_after=after) if after else None

    async def _let_go(self, job: Obj, pods: list[Obj]) -> None:
        """Free pods that are to go with their namespace.

        Else a failed pod that is kept until it is replaced would keep the namespace from going.
        """
        for pod in pods:
            if is_deleting(pod) and has_finalizer(pod):
                await self._driver.pods.patch(job, pod, FREE_POD)

    async def _claim(self, job: Obj) -> list[Obj]:
        """The job's pods; adopts and releases where labels say so."""
        claims = claim_pods(job, self.index.candidates(job))
        pods = list(claims.owned)
        for pod, patch in claims.release:
            try:
                await self._driver.pods.patch(job, pod, patch)
            except Invalid:
                continue  # it has other owners now, or none
        if claims.adopt and await self._still_there(job):
            for pod, patch in claims.adopt:
                taken = await self._driver.pods.patch(job, pod, patch)
                if taken is not None:
                    pods.append(taken)
        return pods

    async def _still_there(self, job: Obj) -> bool:
        """Whether the server has this very job and it is not being deleted."""
        meta = job["metadata"]
        try:
            fresh = await self._client.get(JOBS, meta["name"], namespace=meta["namespace"])
        except NotFound:
            return False
        return uid_of(fresh) == uid_of(job) and not is_deleting(fresh)

    async def _resolve_doubt(self, key: str, job: Obj, memory: _Memory) -> bool:
        """Ask the server for the job's pods, and whether the cache has them all."""
        labels = job["spec"]["template"].get("metadata", {}).get("labels") or {}
        selector = ",".join(f"{k}={v}" for k, v in sorted(labels.items()))
        listed = await self._client.list_all(
            PODS, job["metadata"]["namespace"], label_selector=selector
        )
        for pod in listed["items"]:
            self._consistency.wrote_at(key, uid_of(job), PODS, version_of(pod))
        memory.doubtful = False
        try:
            self._consistency.ensure_ready(key)
        except NotYetConsistent:
            return False
        return True

    # --- memory ------------------------------------------------------------------------------

    def _remember(self, key: str, job: Obj) -> _Memory:
        memory = self._memories.get(key)
        if memory is None or memory.uid != uid_of(job):
            memory = self._memories[key] = _Memory(uid_of(job))
        return memory

    def _forget(self, key: str) -> None:
        self._memories.pop(key, None)
        self._consistency.clear(key)


def register(
    manager: Manager,
    *,
    settings: JobSettings | None = None,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Run the job controller, and the one that frees abandoned pods, in a manager."""
    controller = JobController(manager, settings=settings, now=now, clock=clock)
    OrphanController(manager, controller.index)
