"""FederatedJobs: which round is on, and what follows from how it ended.

The status names a round before it is made: whoever wrote that makes it, and a job whose round is
missing makes it again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Final

from corral.api.propeller.kinds import TRAININGROUNDS, WASMTASKS, FederatedJob
from corral.api.propeller.rules import round_name
from corral.api.propeller.status import FederatedJobStatus
from corral.families.federated.jobs import budget, state
from corral.families.federated.jobs.rounds import round_of, total_of
from corral.families.federated.learning import LearningSettings
from corral.families.federated.rounds.conclusion import condition
from corral.families.federated.view import JOB_LABEL, Privacy, is_over, phase_of, status_of
from corral.kube.types import Obj
from corral.runtime import Change, find_condition, is_being_deleted, is_controlled_by
from corral.runtime.family.caches import Caches
from corral.runtime.family.decision import Child, Decision, Deletion, Refusal
from corral.runtime.family.declaration import Family, Owned, Watched
from corral.runtime.family.events import Event, normal, warning
from corral.runtime.keys import format_time

__all__ = ["FederatedJobs", "JobObservation"]

_CALM: Final = 0.25
"""Seconds for which changes of a round that is on may gather."""
_STILL_THERE: Final = 1.0
"""Seconds between two looks at a round of an earlier job that is being deleted."""

Job = Decision[FederatedJobStatus]


def _patience(change: Change) -> float:
    """The end of a round is acted upon at once."""
    if change.old is None or change.new is None:
        return 0.0
    old, new = status_of(change.old), status_of(change.new)
    return _CALM if old.get("phase") == new.get("phase") else 0.0


@dataclass(frozen=True, slots=True)
class JobObservation:
    """A job, the rounds around the one that is on, and what they cost in privacy."""

    job: Obj
    named: Mapping[int, Obj]
    """By number: whatever has the name of such a round."""
    late: tuple[Obj, ...]
    """Tasks of the job that are not over: a later round may wait for them."""
    exhausted: Mapping[int, str]
    """By number: why there must not be so many rounds."""
    spent: Mapping[int, float | None]
    """By number: epsilon after so many rounds."""
    now: float

    @property
    def number(self) -> int:
        """Of the round that is on; 0 before the first."""
        return int(status_of(self.job).get("currentRound") or 0)

    def round(self, number: int) -> Obj | None:
        """The job's own round of this number."""
        found = self.named.get(number)
        return found if found is not None and is_controlled_by(found, self.job) else None


class FederatedJobs(Family[JobObservation, FederatedJobStatus]):
    """The family of FederatedJobs."""

    kind = FederatedJob
    component = "corral-federated"
    owns = (Owned(TRAININGROUNDS, after=_patience),)
    watches = (Watched(WASMTASKS),)

    def __init__(
        self, settings: LearningSettings, *, wall: Callable[[], float] = time.time
    ) -> None:
        self.settings: LearningSettings = settings
        self._wall = wall

    # --- observing -------------------------------------------------------------------------------

    async def observe(self, obj: Obj, caches: Caches) -> JobObservation:
        metadata = obj["metadata"]
        number = int(status_of(obj).get("currentRound") or 0)
        around = range(max(number - 1, 1), number + 2)
        named = {
            each: found
            for each in around
            if (
                found := caches.get(
                    TRAININGROUNDS, metadata["namespace"], round_name(metadata["name"], each)
                )
            )
        }
        privacy = Privacy.read(obj["spec"]["aggregator"])
        exhausted, spent = {}, {}
        if privacy is not None and not is_over(obj):
            exhausted = {each: await budget.exhausted(privacy, each) for each in around}
            own = Privacy.read((named.get(number) or obj)["spec"].get("aggregator") or {})
            spent = {number: await budget.spent(own, number) if own is not None else None}
        return JobObservation(obj, named, _late(obj, caches), exhausted, spent, self._wall())

    # --- deciding --------------------------------------------------------------------------------

    def decide(self, observed: JobObservation) -> Job:
        if is_over(observed.job):
            return Decision(delete=_cancelled(observed))
        status = deepcopy(status_of(observed.job))
        if phase_of(observed.job) == "":
            status |= {"phase": "Pending", "currentRound": 0, "completedRounds": 0}
        if status["phase"] == "Pending":
            state.follow(observed.job, status, None)
            decision = self._next(observed, status, 1)
        else:
            decision = self._go_on(observed, status)
        if decision.status is not None:
            decision.status.observed_generation = observed.job["metadata"].get("generation", 0)
            if decision.status.phase in ("Completed", "Failed"):
                return decision
        return replace(decision, requeue_after=decision.requeue_after or self.settings.resync)

    def _go_on(self, observed: JobObservation, status: Obj) -> Job:
        number = observed.number or 1
        round_ = observed.round(number)
        if round_ is None:
            return self._next(observed, status, number)
        match phase_of(round_):
            case "Completed":
                return self._completed(observed, status, round_, number)
            case "Failed":
                state.follow(observed.job, status, round_)
                ready = find_condition(status_of(round_).get("conditions"), "Ready") or {}
                why = f"{round_['metadata']['name']}: {ready.get('reason')}: {ready.get('message')}"
                message = "Training round failed"
                return _end(
                    observed,
                    status,
                    phase="Failed",
                    reason="RoundFailed",
                    message=message,
                    detail=why,
                )
            case _:
                state.follow(observed.job, status, round_)
                suspended = bool(observed.job["spec"].get("suspend"))
                state.set_suspended(status, suspended=suspended, now=observed.now)
                return _decision(status)

    def _completed(self, observed: JobObservation, status: Obj, round_: Obj, number: int) -> Job:
        privacy = Privacy.read(round_["spec"].get("aggregator") or {})
        epsilon = observed.spent.get(number) if privacy is not None else None
        state.record(observed.job, status, round_, number, epsilon=epsilon)
        if privacy is not None and epsilon is not None:
            status["privacy"] = {"epsilon": epsilon, "delta": privacy.delta, "rounds": number}
            if privacy.epsilon is not None:
                status["privacy"]["budget"] = privacy.epsilon
        if number >= total_of(observed.job):
            message = "All rounds completed"
            return _end(observed, status, phase="Completed", reason="Completed", message=message)
        return self._next(observed, status, number + 1)

    def _next(self, observed: JobObservation, status: Obj, number: int) -> Job:
        """Begin a round, unless something is against it."""
        job, now = observed.job, observed.now
        if job["spec"].get("suspend"):
            fresh = state.set_suspended(status, suspended=True, now=now)
            event = normal("Suspended", "no further round begins")
            return _decision(status, *((event,) if fresh else ()))
        why = state.problem(job)
        if why:
            return _end(observed, status, phase="Failed", reason="InvalidSpec", message=why)
        why = observed.exhausted.get(number, "")
        if why:
            message = f"stopped after {number - 1} of {total_of(job)} rounds: {why}"
            phase = "Completed" if number > 1 else "Failed"
            reason = "PrivacyBudgetExhausted"
            return _end(observed, status, phase=phase, reason=reason, message=message)
        known = observed.named.get(number)
        if known is not None and is_being_deleted(known):
            return Decision(requeue_after=_STILL_THERE)
        if known is not None and observed.round(number) is None:
            return _taken(observed, status, number)
        started = status.get("phase") != "Running"
        status |= {"phase": "Running", "currentRound": number}
        status.setdefault("startTime", format_time(now))
        state.set_suspended(status, suspended=False, now=now)
        condition(
            status, state.READY, holds=True, reason="Running", message="Job is running", now=now
        )
        state.follow(job, status, known)
        event = normal("Started", f"begins with {total_of(job)} rounds to do")
        decision = _decision(status, *((event,) if started else ()))
        if known is not None:
            return decision
        name = round_name(job["metadata"]["name"], number)
        return replace(decision, create=(Child(TRAININGROUNDS, name, detail=number),))

    def refused(self, decision: Job, refusal: Refusal, observed: JobObservation) -> Job:
        status = deepcopy(status_of(observed.job))
        if refusal.reason == "NameTaken":
            return _taken(observed, status, int(decision.create[0].detail))
        condition(
            status,
            state.READY,
            holds=False,
            reason=refusal.reason,
            message=refusal.message,
            now=observed.now,
        )
        return replace(decision, status=FederatedJobStatus.model_validate(status), events=())

    def build(self, child: Child, observed: JobObservation) -> Obj:
        number = int(child.detail)
        return round_of(observed.job, number, before=observed.round(number - 1))


# --- parts ---------------------------------------------------------------------------------------


def _late(job: Obj, caches: Caches) -> tuple[Obj, ...]:
    """The tasks of a job whose rounds overlap that are not over."""
    if (job["spec"].get("rounds") or {}).get("strategy") != "parallel":
        return ()
    rounds = caches.children(TRAININGROUNDS, job)
    return tuple(
        task
        for task in caches.neighbours(WASMTASKS, job)
        if (task["metadata"].get("labels") or {}).get(JOB_LABEL) == job["metadata"]["name"]
        and not is_over(task)
        and not is_being_deleted(task)
        and any(is_controlled_by(task, round_) for round_ in rounds)
    )


def _cancelled(observed: JobObservation) -> tuple[Deletion, ...]:
    """The tasks that no round waits for any more: there is no later round."""
    return tuple(Deletion(WASMTASKS, task) for task in observed.late)


def _decision(status: Obj, *events: Event) -> Job:
    return Decision(FederatedJobStatus.model_validate(status), events=events)


def _end(
    observed: JobObservation,
    status: Obj,
    *,
    phase: str,
    reason: str,
    message: str,
    detail: str = "",
) -> Job:
    state.end(status, phase=phase, reason=reason, message=message, now=observed.now, detail=detail)
    make = normal if phase == "Completed" else warning
    event = make(reason, f"{message}: {detail}" if detail else message)
    return replace(_decision(status, event), delete=_cancelled(observed))


def _taken(observed: JobObservation, status: Obj, number: int) -> Job:
    name = round_name(observed.job["metadata"]["name"], number)
    message = f"TrainingRound {name} exists already and is not of this job: remove it"
    return _end(observed, status, phase="Failed", reason="NameTaken", message=message)
