"""One round from its beginning to its end, step by step; each step ends in one write of the status.

A step that was not written is done again, by whoever leads then, and comes out the same: which
updates count is written before they are aggregated, and the model of a set of updates is one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field

from corral.families.federated.aggregation import AggregationImpossible
from corral.families.federated.learning import LearningSettings
from corral.families.federated.metrics import LearningMetrics
from corral.families.federated.models import NoRegistry
from corral.families.federated.rounds import conclusion, state
from corral.families.federated.rounds.caches import Caches
from corral.families.federated.rounds.closing import Closer
from corral.families.federated.rounds.starting import Starter
from corral.families.federated.rounds.state import Decision, Rejection, Step
from corral.families.federated.seeds import NoSeed
from corral.families.federated.view import RoundView, phase_of, round_view, status_of
from corral.kube.types import Obj
from corral.oci import InvalidReference, RegistryError
from corral.runtime import EventRecorder, Result, find_condition, is_condition_true, uid_of
from corral.runtime.family.statuses import StatusController
from corral.runtime.pods.states import moment
from corral.runtime.sightings import Sightings

__all__ = ["RoundController"]

logger = logging.getLogger(__name__)
_TIMES = 8
"""Steps of one look; more are left to the next."""


@dataclass(slots=True)
class RoundController:
    """For all rounds of one operator."""

    caches: Caches
    starter: Starter
    closer: Closer
    statuses: StatusController
    recorder: EventRecorder
    settings: LearningSettings
    wall: Callable[[], float]
    metrics: LearningMetrics | None = None
    sightings: Sightings = field(default_factory=Sightings)
    _tries: dict[str, int] = field(default_factory=dict)
    """How often a registry has failed a round, by UID."""

    async def sync(self, round_: Obj) -> Result | None:
        """Take a round as far as it goes."""
        for _ in range(_TIMES):
            job = self.caches.job_of(round_)
            view = round_view(round_, job)
            match phase_of(round_):
                case "":
                    round_ = await self._begin(round_, view)
                case "Pending":
                    following = await self._start(round_, view)
                    # The next look waits until the cache has the tasks that were just made.
                    return following if isinstance(following, Result) else Result(0.01)
                case "Running":
                    following = await self._run(round_, view)
                    if isinstance(following, Result):
                        return following
                    round_ = following
                case "Aggregating":
                    following = await self._aggregate(round_, view, job)
                    if isinstance(following, Result):
                        return following
                    round_ = following
                case _:
                    return await self._clean(round_, view)
        return Result(0.01)

    def forget(self, uid: str) -> None:
        self._tries.pop(uid, None)

    # --- beginning -------------------------------------------------------------------------------

    async def _begin(self, round_: Obj, view: RoundView) -> Obj:
        now = self.wall()
        status = state.begin(view, now)
        if view.needed <= 0:
            said = "kOfN must be greater than 0"
            conclusion.fail(view, status, "InvalidSpec", said, now=now)
        written = await self._write(round_, view, status)
        if self.metrics:
            self.metrics.required(view.round_id, view.needed)
        return written

    async def _start(self, round_: Obj, view: RoundView) -> Obj | Result:
        now, status = self.wall(), deepcopy(status_of(round_))
        try:
            base = await self.starter.base(round_, view)
        except RegistryError as error:
            return await self._registry_trouble(round_, view, error)
        status["baseModelRef"] = base
        status = await self.starter.tasks(round_, view, status)
        status["phase"] = "Running"
        self._registry_is_back(status)
        count = len(view.participants)
        told = f"{count} participants train, {view.needed} updates are needed"
        conclusion.condition(
            status, conclusion.READY, holds=False, reason="Running", message=told, now=now
        )
        written = await self._write(round_, view, status)
        self.recorder.normal(round_, "RoundStarted", told)
        return written

    # --- collecting ------------------------------------------------------------------------------

    async def _run(self, round_: Obj, view: RoundView) -> Obj | Result:
        now = self.wall()
        tasks = self.caches.tasks_named(round_, status_of(round_))
        status, rejections = state.observe(view, status_of(round_), tasks, now)
        decision = state.decide(view, status, now, sightings=self.sightings)
        match decision.step:
            case Step.AGGREGATE:
                state.choose(status, now)
                round_ = await self.closer.keep(round_, view, status)
            case Step.EXTEND:
                state.extend(view, status, now)
            case Step.FAIL:
                conclusion.fail(view, status, decision.reason, decision.message, now=now)
        written = await self._write(round_, view, status, rejections)
        if decision.step is Step.WAIT:
            return Result(decision.wait)
        self._tell(written, decision)
        return written

    def _tell(self, round_: Obj, decision: Decision) -> None:
        if decision.step is Step.FAIL:
            self.recorder.warning(round_, decision.reason, decision.message)
        else:
            self.recorder.normal(round_, decision.reason, decision.message)

    # --- aggregating -----------------------------------------------------------------------------

    async def _aggregate(self, round_: Obj, view: RoundView, job: Obj | None) -> Obj | Result:
        status = deepcopy(status_of(round_))
        found = self.closer.collect(round_, view, status)
        try:
            outcome = await self.closer.aggregate(round_, view, status, found=found, job=job)
        except (NoRegistry, InvalidReference) as error:
            return await self._failed(round_, view, "NoRegistry", str(error))
        except RegistryError as error:
            return await self._registry_trouble(round_, view, error)
        except (AggregationImpossible, NoSeed) as error:
            return await self._failed(round_, view, "AggregationFailed", str(error))
        rejections = [*found.lost, *outcome.rejections]
        state.reject(status, rejections)
        self._registry_is_back(status)
        if outcome.made is None:
            state.reopen(status)
            return await self._write(round_, view, status, rejections)
        round_ = await self.closer.publish(round_, view, outcome.made, job)
        state.note(status, outcome.bounded)
        conclusion.complete(view, status, outcome.made, self.wall())
        written = await self._write(round_, view, status, rejections)
        self._tries.pop(uid_of(round_), None)
        if self.metrics:
            self.metrics.aggregated(outcome.made.algorithm, outcome.made.seconds)
        for note in outcome.bounded:
            self.recorder.warning(
                written, "SamplesBounded", f"the update of {note.participant}: {note.reason}"
            )
        count = len(outcome.made.clients)
        told = f"Round completed and aggregated {count} updates: {outcome.made.reference}"
        self.recorder.normal(written, "RoundCompleted", told)
        return written

    async def _failed(self, round_: Obj, view: RoundView, reason: str, message: str) -> Obj:
        status = deepcopy(status_of(round_))
        conclusion.fail(view, status, reason, message, now=self.wall())
        written = await self._write(round_, view, status)
        self.recorder.warning(written, reason, message)
        return written

    # --- registries ------------------------------------------------------------------------------

    async def _registry_trouble(
        self, round_: Obj, view: RoundView, error: RegistryError
    ) -> Obj | Result:
        """Say so, and try again until the deadline of the round."""
        now, status = self.wall(), deepcopy(status_of(round_))
        message = f"the registry cannot be used: {error}"
        if now >= self._patience_ends(view, status, now):
            return await self._failed(round_, view, "RegistryUnavailable", message)
        before = is_condition_true(status.get("conditions"), conclusion.REGISTRY)
        known = find_condition(status.get("conditions"), conclusion.REGISTRY)
        conclusion.condition(
            status,
            conclusion.REGISTRY,
            holds=False,
            reason="RegistryUnavailable",
            message=message,
            now=now,
        )
        written = await self._write(round_, view, status)
        if known is None or before:
            self.recorder.warning(written, "RegistryUnavailable", message)
        return Result(self._wait(uid_of(round_)))

    def _patience_ends(self, view: RoundView, status: Obj, now: float) -> float:
        deadline = moment(status.get("deadline"))
        if deadline is None:
            return float("inf")
        end = state.end_of(view, deadline, now, self.sightings)
        chosen = moment(status.get("aggregationTime"))
        if chosen is None:
            return end
        return max(end, self.sightings.since(chosen, now=now) + self.settings.grace)

    def _wait(self, uid: str) -> float:
        count = self._tries.get(uid, 0)
        self._tries[uid] = count + 1
        return min(self.settings.retry * 2.0 ** min(count, 20), self.settings.retry_cap)

    def _registry_is_back(self, status: Obj) -> None:
        if find_condition(status.get("conditions"), conclusion.REGISTRY) is None:
            return
        conclusion.condition(
            status,
            conclusion.REGISTRY,
            holds=True,
            reason="Reachable",
            message="the registry can be used",
            now=self.wall(),
        )

    # --- afterwards ------------------------------------------------------------------------------

    async def _clean(self, round_: Obj, view: RoundView) -> Result | None:
        """Remove what the round has used, once."""
        status = deepcopy(status_of(round_))
        if is_condition_true(status.get("conditions"), conclusion.CLEANED):
            return None
        if not view.parallel or phase_of(round_) == "Failed":
            await self.closer.cancel(round_, view)
        said, reason = "what was left over is gone", "Done"
        try:
            await self.closer.discard(round_, view)
        except (NoRegistry, InvalidReference):
            said, reason = "there is no registry to clean", "NoRegistry"
        except RegistryError as error:
            wait = self._wait(uid_of(round_))
            if self._tries[uid_of(round_)] < self.settings.clean_tries:
                return Result(wait)
            said, reason = f"updates are left in the registry: {error}", "RegistryUnavailable"
        conclusion.condition(
            status, conclusion.CLEANED, holds=True, reason=reason, message=said, now=self.wall()
        )
        await self.statuses.write(round_, status)
        self.forget(uid_of(round_))
        return None

    # --- writing ---------------------------------------------------------------------------------

    async def _write(
        self, round_: Obj, view: RoundView, status: Obj, rejections: Sequence[Rejection] = ()
    ) -> Obj:
        """Write a status, and then tell what is new in it."""
        old = status_of(round_)
        status["observedGeneration"] = round_["metadata"].get("generation", 0)
        written = await self.statuses.write(round_, status)
        for rejection in rejections:
            told = f"the update of {rejection.participant} does not count: {rejection.reason}"
            self.recorder.warning(round_, "UpdateRejected", told)
        self._measure(view, old, status, len(rejections))
        return written

    def _measure(self, view: RoundView, old: Obj, new: Obj, rejected: int) -> None:
        if not self.metrics:
            return
        if old.get("phase") != new.get("phase"):
            self.metrics.phase(view.job, str(new["phase"]))
        more = int(new.get("updatesReceived") or 0) - int(old.get("updatesReceived") or 0)
        self.metrics.collected(view.round_id, more)
        self.metrics.rejected(view.job, rejected)
        if new.get("endTime") and not old.get("endTime"):
            self.metrics.ended(view.job, conclusion.duration(new))
