"""JobController: carries out what `state.decide` says about one TrainingJob.

The order is that of `Decision`: first the status, bound to the version that was read; then pods are
deleted; then pods are created. What the server refuses for good reason (a quota, a policy, a taken
name) is shown in the status and tried again with growing waits; what fails for a passing reason is
raised, and the queue tries again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from corral.api.training.kinds import TRAININGJOBS
from corral.families.trainingjob.caches import Caches
from corral.families.trainingjob.checkpoints.summaries import belongs_to, restore_source, summarise
from corral.families.trainingjob.lifecycle.decision import Decision, Launch, Observation, Refusal
from corral.families.trainingjob.lifecycle.diagnosis import log_tail
from corral.families.trainingjob.lifecycle.events import transitions
from corral.families.trainingjob.lifecycle.generation import Generation
from corral.families.trainingjob.lifecycle.limits import RunLimits
from corral.families.trainingjob.lifecycle.replicas import is_placeholder
from corral.families.trainingjob.lifecycle.state import decide
from corral.families.trainingjob.metrics import TrainingMetrics
from corral.families.trainingjob.names import replica_of
from corral.families.trainingjob.objects.placeholders import as_placeholder
from corral.families.trainingjob.objects.podbuilder import PodBuilder
from corral.families.trainingjob.objects.problems import ResourceProblem, StillThere
from corral.families.trainingjob.objects.resources import ResourceController
from corral.families.trainingjob.settings import TrainingSettings
from corral.kube import errors
from corral.kube.client import KubeClient
from corral.kube.resources import PODS
from corral.kube.types import Obj
from corral.runtime import (
    ChildWriter,
    EventRecorder,
    Result,
    key_of,
    uid_of,
)
from corral.runtime.family.events import record
from corral.runtime.family.refusals import is_passing, namespace_is_going
from corral.runtime.family.statuses import StatusController
from corral.runtime.sightings import Sightings

__all__ = ["JobController"]

logger = logging.getLogger(__name__)

_SOON: Final = 0.001
_STILL_THERE: Final = 1.0
"""Seconds after which to look whether something that is going has gone; its end wakes us too."""


@dataclass(slots=True)
class _Memory:
    """What this process knows about a job beside what the cluster says; lost with the process."""

    claimed: set[int] = field(default_factory=set)
    known: set[tuple[int, int]] = field(default_factory=set)
    refusal: Refusal | None = None
    refusals: int = 0
    placed_at: float = 0.0

    def refused(self, error: Exception, now: float, limits: RunLimits) -> None:
        self.refusals += 1
        self.refusal = Refusal(
            _word_for(error),
            str(getattr(error, "message", "") or error),
            since=self.refusal.since if self.refusal else now,
            until=now + limits.refusal_wait(self.refusals),
        )

    def set_right(self, now: float, limits: RunLimits) -> None:
        """Forget a refusal of a clock that has been set back since: nobody waits for its time."""
        if self.refusal is not None and self.refusal.until > now + limits.refusal_delay_cap:
            self.refusal = None
        self.placed_at = min(self.placed_at, now)

    def allowed(self) -> None:
        self.refusal, self.refusals = None, 0


class JobController:
    """All jobs of one operator."""

    def __init__(
        self,
        client: KubeClient,
        caches: Caches,
        *,
        resources: ResourceController,
        statuses: StatusController,
        writer: ChildWriter,
        recorder: EventRecorder,
        settings: TrainingSettings,
        limits: RunLimits,
        metrics: TrainingMetrics | None,
        wall: Callable[[], float],
    ) -> None:
        self._client = client
        self._caches = caches
        self._resources = resources
        self._statuses = statuses
        self._writer = writer
        self._recorder = recorder
        self._settings = settings
        self._limits = limits
        self._metrics = metrics
        self._wall = wall
        self._sightings = Sightings()
        self._memories: dict[str, tuple[str, _Memory]] = {}
        """By key: the UID of the job, and what is known about it."""

    def forget(self, key: str) -> None:
        """The job is gone."""
        self._memories.pop(key, None)

    async def sync(self, job: Obj, checkpoints: Sequence[Obj]) -> Result | None:
        """Bring the job one step on; ``checkpoints``: its own, and the one it is to start from.

        Raises:
            Conflict: the job has changed since it was read.
            ApiError, KubeConnectionError: something that may pass.
        """
        memory, now = self._memory(job), self._wall()
        memory.set_right(now, self._limits)
        seen = Observation(
            job,
            self._caches.pods_of(job),
            summarise([found for found in checkpoints if belongs_to(found, job)]),
            now,
            claimed=frozenset(memory.claimed),
            known=frozenset(memory.known),
            refusal=memory.refusal,
            placed_at=memory.placed_at,
            sightings=self._sightings,
        )
        decision = decide(seen, self._limits)
        written = await self._write(job, decision, now)
        if written is None:
            return None
        memory.claimed |= decision.claimed
        attempt = (decision.status.get("attempt")) or 0
        memory.known = {pair for pair in memory.known if pair[1] >= attempt} | decision.known
        again = await self._carry_out(written, decision, seen, memory, checkpoints)
        times = [time for time in (again, decision.requeue_after) if time > 0]
        return Result(min(times, default=0.0))

    def _memory(self, job: Obj) -> _Memory:
        key, uid = key_of(job), uid_of(job)
        known = self._memories.get(key)
        if known is None or known[0] != uid:
            known = self._memories[key] = (uid, _Memory())
        return known[1]

    # --- the status -------------------------------------------------------------------------------

    async def _write(self, job: Obj, decision: Decision, now: float) -> Obj | None:
        """Write the status, and say what has changed; None where the job is gone."""
        status, old = decision.status, job.get("status") or {}
        if decision.culprit is not None and status.get("failure"):
            tail = await log_tail(self._client, decision.culprit, self._limits)
            if tail:
                status["failure"]["logTail"] = tail
        try:
            written = await self._statuses.write(job, status)
        except errors.NotFound:
            return None
        if written is not job:
            record(self._recorder, job, transitions(old, status))
            if self._metrics is not None:
                self._metrics.changed(old, status, now=now)
        return written

    # --- everything else --------------------------------------------------------------------------

    async def _carry_out(
        self,
        job: Obj,
        decision: Decision,
        seen: Observation,
        memory: _Memory,
        checkpoints: Sequence[Obj],
    ) -> float:
        """Do what the decision says; when to look again, in seconds (0: no need to)."""
        await self._resources.delete_pods(job, decision.kill, grace_seconds=0)
        await self._resources.delete_pods(job, decision.delete)
        if decision.clean_pods is not None:
            await self._end(job, decision, seen.pods)
        if not decision.upkeep:
            return 0.0
        if memory.refusal is not None and seen.now < memory.refusal.until:
            return memory.refusal.until - seen.now
        try:
            source = restore_source(job, checkpoints)
            status = decision.status
            await self._resources.ensure(
                job, Generation(status["attempt"], status["worldSize"], source)
            )
            for launch in decision.launches:
                await self._launch(job, launch, source, memory)
            await self._place(job, decision, memory)
        except StillThere:
            return _STILL_THERE
        except (ResourceProblem, errors.ApiError) as error:
            return self._refused(error, memory)
        memory.allowed()
        return 0.0

    async def _launch(self, job: Obj, launch: Launch, source: str, memory: _Memory) -> None:
        together = (job.get("status") or {}).get("attempt")
        generation = Generation(launch.attempt, launch.world, source, set_attempt=together)
        made = await self._resources.create_pods(job, generation, launch.indexes)
        memory.known |= {(replica_of(pod) or 0, launch.attempt) for pod in made}

    def _refused(self, error: Exception, memory: _Memory) -> float:
        """Note a refusal for the status to show; raise what may pass by itself."""
        if isinstance(error, errors.ApiError):
            if namespace_is_going(error):
                return 0.0
            if is_passing(error):
                raise error
        memory.refused(error, self._wall(), self._limits)
        logger.info("what the job needs was refused: %s", error)
        return _SOON

    async def _place(self, job: Obj, decision: Decision, memory: _Memory) -> None:
        """Create placeholders; those that are there already will do."""
        if not decision.placeholders:
            return
        memory.placed_at = self._wall()
        name, namespace = job["metadata"]["name"], job["metadata"]["namespace"]
        generation = Generation(decision.status["attempt"], decision.status["worldSize"])
        for number in decision.placeholders:
            pod = (
                PodBuilder(name, namespace, number)
                .with_spec(job["spec"])
                .with_identity(uid_of(job))
                .with_generation(generation)
                .with_settings(self._settings)
                .with_policy(self._caches.namespace_metadata(namespace))
                .with_nodes(self._caches.nodes.store)
                .build()
            )
            try:
                await self._writer.create(job, PODS, as_placeholder(pod, name, number))
            except errors.AlreadyExists:
                logger.debug("placeholder %d of %s is there already", number, name)
            except errors.Forbidden as error:
                logger.info("no placeholders for %s: %s", name, error)
                return

    async def _end(self, job: Obj, decision: Decision, pods: Sequence[Obj]) -> None:
        """The job has finished."""
        training = [pod for pod in pods if not is_placeholder(pod)]
        await self._resources.clean_up(job, decision.clean_pods or "None", training)
        if not decision.expired:
            return
        metadata = job["metadata"]
        try:
            await self._client.delete(
                TRAININGJOBS,
                metadata["name"],
                namespace=metadata["namespace"],
                uid=uid_of(job),
                propagation="Background",
            )
        except (errors.NotFound, errors.Conflict):
            logger.debug("the job is gone already")


def _word_for(error: Exception) -> str:
    """A word for a condition."""
    if isinstance(error, ResourceProblem):
        return error.reason
    if "exceeded quota" in str(error):
        return "QuotaExceeded"
    return "Forbidden" if isinstance(error, errors.Forbidden) else "Refused"
