"""The scheduler at work: takes pods whose turn it is, decides, and has the decision carried out.

Deciding needs no waiting and is done pod by pod; what was decided counts at once (it is assumed),
and is written by workers beside it. So a pod that fits is on its way to its node in the same turn
of the event loop in which its watch event was handled, and many bindings are under way at a time.

Nothing is kept but what the API server has: after a crash everything is read again. A binding
whose answer was lost is seen by the watch, or refused when it is tried again.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from random import Random

from corral.cluster.scheduler.binding import Binder
from corral.cluster.scheduler.claims import ClaimBinder, ClaimError
from corral.cluster.scheduler.evictions import Evictions, Preemptor
from corral.cluster.scheduler.gangcycle import GangCycle
from corral.cluster.scheduler.gangs import Gangs
from corral.cluster.scheduler.placement import (
    Action,
    BackoffPolicy,
    ClusterState,
    Cycle,
    FitError,
    GroupKey,
    Placement,
    PodEvent,
    PodInfo,
    Preemption,
    SchedulingQueue,
    VolumePlan,
    queue_order,
    schedule,
)
from corral.cluster.scheduler.statuses import PodStatuses
from corral.cluster.scheduler.workers import Workers
from corral.kube.client import KubeClient
from corral.kube.errors import ApiError, NotFound
from corral.kube.types import Obj
from corral.runtime import EventRecorder

__all__ = ["Scheduler", "SchedulerSettings"]

logger = logging.getLogger(__name__)

_NO_VOLUMES = VolumePlan()


@dataclass(frozen=True, slots=True)
class SchedulerSettings:
    """How a scheduler works."""

    name: str = "default-scheduler"
    """The ``spec.schedulerName`` of the pods that it places."""
    bindings: int = 24
    """Bindings at the same time."""
    writes: int = 8
    """Other writes at the same time: conditions and evictions."""
    slice: float = 0.005
    """Seconds of deciding after which the writes get a turn."""
    backoff: BackoffPolicy = field(default_factory=BackoffPolicy)


class Scheduler:
    """Places the pods of one scheduler name. Feed it through its ``state`` and ``queue``."""

    def __init__(
        self,
        client: KubeClient,
        recorder: EventRecorder,
        *,
        settings: SchedulerSettings | None = None,
        group_changed: Callable[[GroupKey], None] = lambda key: None,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        rng: Random | None = None,
    ) -> None:
        self.settings = settings or SchedulerSettings()
        self.state = ClusterState()
        self.queue = SchedulingQueue(self.state, clock, backoff=self.settings.backoff)
        self.gangs = Gangs(group_changed)
        self.rng = rng or Random()
        self.budgets: Sequence[Obj] = ()
        """The PodDisruptionBudgets."""
        self._clock = clock
        self._wake = asyncio.Event()
        self._binds = Workers("bind", self.settings.bindings)
        self._writes = Workers("write", self.settings.writes)
        self.statuses = PodStatuses(client, recorder, self._writes, wall=wall)
        self.evictions = Evictions(
            client, recorder, self._writes, scheduler_name=self.settings.name, wall=wall
        )
        self.claims = ClaimBinder(client, self.state)
        self._binder = Binder(
            client,
            recorder,
            self._binds,
            statuses=self.statuses,
            claims=self.claims,
            finished=self._bound,
        )
        self._gang_cycle = GangCycle(
            self.state,
            self.queue,
            self.gangs,
            self.statuses,
            self.evictions,
            self.rng,
            budgets=lambda: self.budgets,
            take_up=self._take_up,
            try_pod=self._try_pod,
            withdraw=self._withdraw,
            wake=self.wake,
        )

    def wake(self) -> None:
        """There may be a pod to try."""
        self._wake.set()

    async def run(self) -> None:
        """Schedule until cancelled. The state must be complete: every first list is in it."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._binds.run())
                tasks.create_task(self._writes.run())
                tasks.create_task(self._loop())
        finally:
            await self._binder.close()

    async def _loop(self) -> None:
        self._finish_halves()
        while True:
            self._wake.clear()
            until = self._clock() + self.settings.slice
            while (pod := self.queue.pop()) is not None:
                self._try(pod)
                if self._clock() >= until:
                    await asyncio.sleep(0)
                    until = self._clock() + self.settings.slice
            try:
                async with asyncio.timeout(self.queue.next_ready()):
                    await self._wake.wait()
            except TimeoutError:
                continue  # somebody's back-off is over

    def _finish_halves(self) -> None:
        """After a start: gangs that were being bound when the process ended go first."""
        for gang in self.gangs:
            placed = any(self.state.node_of(pod) for pod in gang.pods.values())
            if placed and (members := self.queue.pop_group(gang.key)):
                self._gang_cycle.attempt(gang, members)

    def _try(self, pod: PodInfo) -> None:
        """One attempt. What goes wrong here is a bug; it must not stop the other pods."""
        members: list[PodInfo] = []
        try:
            if pod.group is not None:
                members = sorted([pod, *self.queue.pop_group(pod.group)], key=queue_order)
                self._gang_cycle.attempt(self.gangs.get(pod.group), members)
            else:
                self._try_pod(pod)
        except Exception:
            logger.exception("pod %s could not be tried", pod.full_name)
            for tried in (pod, *members):
                if not self.state.is_assumed(tried):
                    self.queue.retry(tried)

    def _try_pod(self, pod: PodInfo) -> None:
        result = schedule(self.state, pod, self.rng, budgets=self.budgets)
        if isinstance(result, Placement):
            self._take_up(result)
        elif isinstance(result, Preemption):
            self._preempt(result)
        else:
            self._reject(pod, result)

    # What decisions lead to

    def _take_up(self, placement: Placement) -> None:
        """Count a pod on its node, and have it bound."""
        pod, node = placement.pod, placement.node
        plan = Cycle(self.state, pod).volume_plan(node) if pod.claims else _NO_VOLUMES
        self.state.assume(pod, node)
        self.queue.follow(pod)
        if plan:
            self.state.storage.assume(node, provisions=plan.provisions, bindings=plan.bindings)
        self._binder.bind(pod, node, plan)

    def _reject(self, pod: PodInfo, error: FitError) -> None:
        """No node will do: say so, and let the pod wait."""
        # Room that was being made for it is of no use, unless it is only not there yet.
        keeps = not error.nodes or bool(error.prefilter) or "not eligible" in error.postfilter
        if not keeps:
            self.state.nominate(pod, "")
        text = str(error)
        news = self.statuses.unschedulable(pod, text, nominated=None if keeps else "")
        self.queue.park(pod, error.plugins)
        if news:
            for other in self.queue.waiting_like(pod):
                self.statuses.unschedulable(other, text)

    def _preempt(self, result: Preemption) -> None:
        pod, node = result.pod, result.victims.node
        for other in result.displaced:
            self._withdraw(other)
        self.state.nominate(pod, node)
        self.statuses.unschedulable(pod, str(result.error), nominated=node)
        self.queue.follow(pod)

        def done(success: bool) -> None:
            if success:
                self.queue.park(pod, result.error.plugins)
            else:
                self.queue.retry(pod)
            self.wake()

        preemptor = Preemptor("pod", pod.key, done)
        self.evictions.evict(preemptor, [(victim, node) for victim in result.victims.pods])

    def _withdraw(self, pod: PodInfo) -> None:
        """Make no more room for a pod: one of higher priority needs it."""
        self.state.nominate(pod, "")
        self.statuses.withdraw_nomination(pod)
        self.queue.activate(pod)

    def _bound(self, pod: PodInfo, node: str, error: Exception | None) -> None:
        """A binding has succeeded or failed."""
        if error is None:
            self.queue.remove(pod)
            return
        known = self.state.known(pod)
        self.state.forget(pod)
        if known is None or known.node_name or isinstance(error, NotFound):
            self.queue.remove(pod)  # gone, or bound after all
        else:
            if isinstance(error, (ApiError, ClaimError)):
                text = error.message if isinstance(error, ApiError) else str(error)
                self.statuses.unschedulable(
                    known, f"binding rejected: {text}", reason="SchedulerError"
                )
            self.queue.retry(pod)
        # What it held is free again.
        self.queue.notify(PodEvent(Action.DELETE, replace(pod, node_name=node), None))
        self.wake()
