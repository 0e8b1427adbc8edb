"""Run: carries out what `state.decide` says about one MPIJob.

Objects, workers and launcher come first and the status last, in one write; only where pods are
deleted because something failed or ended does the status come first, so that why is never lost. The
status is written even if something was refused. What the server refuses for good reason is told
once and tried again with growing waits; what fails for a passing reason is raised, and the queue
tries again. Writes that only count running pods are bundled.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Final

from corral.api.mpi.kinds import LAUNCHER, MPIJOBS
from corral.families.mpijob import names
from corral.families.mpijob.caches import Caches
from corral.families.mpijob.lifecycle.decision import Decision, Launcher, Observation
from corral.families.mpijob.lifecycle.diagnosis import blamed, named_failure
from corral.families.mpijob.lifecycle.endings import is_finished, is_suspended
from corral.families.mpijob.lifecycle.limits import MPISettings
from corral.families.mpijob.lifecycle.memory import Memory
from corral.families.mpijob.lifecycle.reporting import Teller
from corral.families.mpijob.lifecycle.state import decide
from corral.families.mpijob.lifecycle.status import only_counts_differ
from corral.families.mpijob.objects.problems import ResourceExists, StillThere
from corral.families.mpijob.objects.resources import ResourceController
from corral.families.mpijob.settings import ObjectSettings
from corral.families.mpijob.view import JobView
from corral.kube import errors
from corral.kube.client import KubeClient
from corral.kube.types import Obj
from corral.runtime import (
    ConsistencyStore,
    Result,
    add_finalizer,
    has_finalizer,
    key_of,
    uid_of,
    version_of,
)
from corral.runtime.family.refusals import is_passing, namespace_is_going
from corral.runtime.pods.failures import log_lines, trimmed
from corral.runtime.sightings import Sightings

__all__ = ["Run", "Tools"]

logger = logging.getLogger(__name__)

_STILL_THERE: Final = 1.0
"""Seconds after which to look whether something that is going has gone; its end wakes us too."""


@dataclass(frozen=True, slots=True)
class Tools:
    """What every look at a job needs."""

    client: KubeClient
    caches: Caches
    resources: ResourceController
    teller: Teller
    written: ConsistencyStore
    """Is told of every write of a job itself."""
    settings: MPISettings
    wall: Callable[[], float]
    sightings: Sightings = field(default_factory=Sightings)


class Run:
    """One look at one job."""

    def __init__(self, tools: Tools, job: Obj, view: JobView, memory: Memory) -> None:
        self._tools = tools
        self._resources = tools.resources
        self._settings = tools.settings
        self._job, self._view, self._memory = job, view, memory
        self._now = tools.wall()
        memory.set_right(self._now, longest=tools.settings.refusal_delay_cap)
        caches = tools.caches
        self._launcher = self._resources.launcher_of(view) or caches.last_launcher(job)
        launcher = self._launcher
        self._workers = caches.controlled(job)
        pods = caches.controlled(launcher) if launcher is not None else []
        waits = launcher is None or (is_suspended(launcher) and not is_finished(launcher))
        self._anew = waits and not (view.suspended or self._workers or pods)
        """Whether it begins, for the first time or again, and nothing is left of before."""
        self._made: ObjectSettings = self._resources.settings_for(view, anew=self._anew)
        silent, gone = caches.dead_nodes(self._workers)
        self._seen = Observation(
            view,
            job,
            launcher,
            pods,
            self._workers,
            self._now,
            replaced=memory.replaced,
            silent=silent,
            gone=gone,
            explained=memory.explained,
            sightings=tools.sightings,
        )

    async def carry_out(self) -> Result | None:
        """Decide, act, and write the status; when to look again."""
        decision = decide(self._seen, self._settings)
        if self._launcher is not None:
            self._tools.teller.launched(key_of(self._job))
        await self._explain(decision)
        try:
            if decision.status_first:
                await self._write(decision)
            again = await self._act(decision)
        except errors.NotFound as error:
            if self._is_gone(error):
                return None
            raise
        if decision.expired:
            return None
        times = [time for time in (again, decision.requeue_after) if time > 0]
        return Result(min(times, default=0.0))

    def _is_gone(self, error: errors.NotFound) -> bool:
        """Whether it was the job itself that is not there any more."""
        return error.details.get("kind") in (MPIJOBS.plural, MPIJOBS.kind)

    async def _explain(self, decision: Decision) -> None:
        """Add what logs say to a failure that is new."""
        trouble, failure = decision.trouble, decision.status.get("failure")
        if trouble is None or failure is None:
            return
        lines = await log_lines(
            self._tools.client,
            trouble.pod,
            trouble.container,
            self._settings,
            previous=trouble.previous,
        )
        if failure.get("replica") == LAUNCHER:
            found = blamed(self._view.name, lines)
            if found is not None:
                self._memory.explained = dict(failure)
                failure = named_failure(self._view.name, found, self._workers, failure)
        tail = trimmed(lines, self._settings)
        decision.status["failure"] = {**failure, "logTail": tail} if tail else failure

    async def _write(self, decision: Decision) -> None:
        written = await self._tools.teller.write(self._job, decision.status)
        if written is not self._job:
            self._memory.wrote_at = self._now
        self._memory.held_at = 0.0
        self._job = written

    # --- acting ----------------------------------------------------------------------------------

    async def _act(self, decision: Decision) -> float:
        """Do what the decision says; when to look again, in seconds (0: no need to)."""
        memory = self._memory
        wait = self._patience(decision)
        lazy = wait > 0
        left = 0.0
        problem: Exception | None = None
        try:
            if self._now < memory.retry_at:
                left = memory.retry_at - self._now
            else:
                late = lazy and not decision.complete
                left = wait if await self._carry(decision, lazy=late) else 0.0
                memory.refusals = 0
        except (errors.ApiError, ResourceExists, StillThere) as error:
            problem = error
        if not decision.status_first:
            if not lazy:
                await self._write(decision)
            elif decision.status != (self._job.get("status") or {}):
                left = max(left, wait)
            if not left:
                memory.held_at = 0.0
        return left if problem is None else self._refused(problem)

    def _patience(self, decision: Decision) -> float:
        """For how many seconds figures need not be written; 0: there is more to tell."""
        memory, settings = self._memory, self._settings
        old = self._job.get("status") or {}
        if decision.acts or not only_counts_differ(old, decision.status):
            return 0.0
        if decision.settles:
            memory.held_at = memory.held_at or self._now
            return max(0.0, memory.held_at + settings.settle_interval - self._now)
        return max(0.0, memory.wrote_at + settings.progress_interval - self._now)

    async def _carry(self, decision: Decision, *, lazy: bool) -> bool:
        """Everything but the status; whether something was left for later."""
        view, resources = self._view, self._resources
        left = False
        if self._anew and decision.objects:
            await resources.drop_launcher(view, self._made)
        await resources.delete_pods(view, decision.force, grace_seconds=0)
        await resources.delete_pods(view, decision.replace)
        self._count_replaced(decision)
        if decision.objects:
            left = await self._keep_objects(decision, lazy=lazy)
        else:
            await resources.keep_rights(view, self._made, leaving=decision.delete)
        if decision.pod_group is not None:
            await resources.keep_group(view, wanted=decision.pod_group)
        if decision.create:
            await self._create("worker", self._create_workers(decision))
        await self._move_launcher(decision)
        await resources.delete_pods(view, decision.delete)
        if decision.expired:
            await self._expire()
        return left

    def _count_replaced(self, decision: Decision) -> None:
        for pod in decision.replace:
            index = names.worker_index(self._view.name, pod["metadata"]["name"])
            if index is not None:
                self._memory.replaced[index] = self._memory.replaced.get(index, 0) + 1

    async def _keep_objects(self, decision: Decision, *, lazy: bool) -> bool:
        """Objects and the finalizer, at the same time."""
        keeping = self._resources.keep(
            self._view,
            self._made,
            running=decision.running,
            pods=bool(decision.create) or decision.launcher in (Launcher.CREATE, Launcher.RESUME),
            grows=bool(decision.create),
            lazy=lazy,
        )
        if has_finalizer(self._job, names.FINALIZER):
            return await keeping
        left, finalized = await asyncio.gather(
            keeping, self._add_finalizer(), return_exceptions=True
        )
        for problem in (finalized, left):
            if isinstance(problem, BaseException):
                raise problem
        return bool(left)

    async def _add_finalizer(self) -> None:
        job = self._job
        self._job = await add_finalizer(
            self._tools.client,
            MPIJOBS,
            job,
            finalizer=names.FINALIZER,
            field_manager=self._settings.field_manager,
        )
        self._tools.written.wrote_at(key_of(job), uid_of(job), MPIJOBS, version_of(self._job))

    async def _create_workers(self, decision: Decision) -> None:
        await self._resources.create_workers(self._view, self._made, decision.create)

    async def _move_launcher(self, decision: Decision) -> None:
        view, resources = self._view, self._resources
        if decision.launcher is Launcher.CREATE:
            if view.launcher["template"]["spec"].get("restartPolicy"):
                self._warn(
                    "SetPodTemplateRestartPolicy",
                    "Restart policy in pod template overridden by restart policy in replica spec",
                )
            await self._create("launcher", resources.create_launcher(view, self._made))
            decision.status.setdefault("replicaStatuses", {}).setdefault(LAUNCHER, {})
        elif decision.launcher is Launcher.SUSPEND:
            await resources.suspend_launcher(view)
        elif decision.launcher is Launcher.RESUME and self._launcher is not None:
            await resources.resume_launcher(view, self._made, self._launcher)

    async def _create(self, what: str, work: Coroutine[None, None, None]) -> None:
        try:
            await work
        except errors.ApiError as error:
            if not namespace_is_going(error):
                self._warn("MPIJobFailed", f"{what} pod created failed: {error.message}")
            raise

    async def _expire(self) -> None:
        """The time to live is over."""
        metadata = self._job["metadata"]
        try:
            await self._tools.client.delete(
                MPIJOBS,
                metadata["name"],
                namespace=metadata["namespace"],
                uid=uid_of(self._job),
                propagation="Background",
            )
        except (errors.NotFound, errors.Conflict):
            logger.debug("the job is gone already")

    # --- refusals --------------------------------------------------------------------------------

    def _warn(self, reason: str, message: str) -> None:
        self._tools.teller.warn(self._job, self._memory, reason, message)

    def _refused(self, error: Exception) -> float:
        """When to try again; raises what may pass by itself."""
        if isinstance(error, StillThere):
            return _STILL_THERE
        if isinstance(error, errors.ApiError):
            if namespace_is_going(error):
                return 0.0
            if is_passing(error):
                raise error
        if isinstance(error, ResourceExists):
            self._warn("ErrResourceExists", str(error))
        self._memory.refusals += 1
        wait = self._settings.refusal_wait(self._memory.refusals)
        self._memory.retry_at = self._now + wait
        logger.info("what the job needs was refused: %s", error)
        return wait
