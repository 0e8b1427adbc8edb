"""What to do about a TrainingJob that should run. No I/O; see `state` for the rules."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from corral.api.training.status import (
    CONDITION_FAILED,
    CONDITION_SUCCEEDED,
    CONDITION_SUSPENDED,
)
from corral.families.trainingjob.lifecycle import elastic
from corral.families.trainingjob.lifecycle.attempts import (
    add_completed,
    claim_replicas,
    claim_set,
    completed_replicas,
    highest_attempt,
    wanted_attempt,
)
from corral.families.trainingjob.lifecycle.decision import Decision, Launch, Observation
from corral.families.trainingjob.lifecycle.description import describe, stuck_pod
from corral.families.trainingjob.lifecycle.diagnosis import culprit, diagnose, lost_failure
from corral.families.trainingjob.lifecycle.limits import RunLimits
from corral.families.trainingjob.lifecycle.plan import Plan
from corral.families.trainingjob.lifecycle.replicas import Replicas, is_placeholder
from corral.families.trainingjob.lifecycle.status import Draft, is_suspended, running_since
from corral.families.trainingjob.names import attempt_of, replica_of
from corral.kube.types import Obj
from corral.runtime.conditions import find_condition
from corral.runtime.pods.failures import stuck_reason
from corral.runtime.pods.states import PodState, is_deleting, moment, pod_state

__all__ = ["Run", "removals"]

_PLACEHOLDER_PAUSE = 30.0
"""Seconds between two creations of placeholders: those that are preempted come back slowly."""


def removals(
    seen: Observation, pods: Iterable[Obj], limits: RunLimits
) -> tuple[tuple[Obj, ...], tuple[Obj, ...], float | None]:
    """Pods to delete, pods to remove by force, and when another one may have to be."""
    delete: list[Obj] = []
    kill: list[Obj] = []
    times: list[float] = []
    for pod in pods:
        deadline = moment(pod["metadata"].get("deletionTimestamp"))
        if deadline is None:
            delete.append(pod)
            continue
        grace = float(pod["metadata"].get("deletionGracePeriodSeconds") or 0.0)
        patience_ends = seen.since(deadline - grace) + grace + limits.force_after
        if seen.now >= patience_ends:
            kill.append(pod)
        else:
            times.append(patience_ends)
    return tuple(delete), tuple(kill), min(times, default=None)


class Run:
    """One decision about one job."""

    def __init__(self, seen: Observation, draft: Draft, plan: Plan, *, limits: RunLimits) -> None:
        self._seen = seen
        self._draft = draft
        self._plan = plan
        self._limits = limits
        self._status = draft.status
        self._floor = highest_attempt(draft.old)
        """Numbers above this are claimed by the write of this very decision."""
        self._times: list[float] = []
        self._culprit: Obj | None = None
        self._view = Replicas.sort(self._status, seen.pods)

    def decide(self) -> Decision:
        self._begin()
        self._look()
        if self._is_over():
            return self._finish()
        self._answer_troubles()
        if not self._status.get("completionTime"):
            self._follow_capacity()
            self._reclaim()
        return self._finish()

    # --- the steps, in order ---------------------------------------------------------------------

    def _begin(self) -> None:
        """The first attempt, the one after a suspension, or one of another size."""
        status, plan, draft = self._status, self._plan, self._draft
        status.setdefault("startTime", draft.stamp)
        asked, draft.counts["desired"] = draft.counts["desired"], plan.replicas
        if is_suspended(status):
            self._resume()
        elif not status.get("attempt"):
            claim_set(status, world=plan.replicas, keep_completed=False)
        elif asked != plan.replicas:
            claim_set(status, world=plan.replicas, keep_completed=plan.alone)
            said = f"scaled from {asked} to {plan.replicas} replicas"
            draft.restarting("Scaled", said)

    def _resume(self) -> None:
        status, draft = self._status, self._draft
        condition = find_condition(status.get("conditions"), CONDITION_SUSPENDED) or {}
        since = moment(condition.get("lastTransitionTime"))
        if self._draft.old.get("startTime") and since is not None:
            # The clock of the deadline stood still.
            pause = max(int(draft.now - since), 0)
            status["suspendedSeconds"] = (status.get("suspendedSeconds") or 0) + pause
        claim_set(status, world=self._plan.replicas, keep_completed=self._plan.alone)
        draft.condition(CONDITION_SUSPENDED, holds=False, reason="Resumed")

    def _look(self) -> None:
        """Sort the pods by the attempts there are now, and note who is done."""
        self._view = Replicas.sort(self._status, self._seen.pods)
        add_completed(self._status, self._view.within(PodState.SUCCEEDED))

    def _is_over(self) -> bool:
        """Whether the job has ended by success or by time."""
        if len(self._done()) == self._world:
            message = f"all {self._world} replicas have succeeded"
            self._draft.end(CONDITION_SUCCEEDED, reason="AllReplicasSucceeded", message=message)
            return True
        end = self._deadline()
        if end is not None and self._seen.now >= end:
            self._exceed()
            return True
        if end is not None:
            self._times.append(end)
        return False

    def _deadline(self) -> float | None:
        start = moment(self._status.get("startTime"))
        if self._plan.deadline is None or start is None:
            return None
        suspended = float(self._status.get("suspendedSeconds") or 0)
        return self._seen.since(start) + self._plan.deadline + suspended

    def _exceed(self) -> None:
        message = f"the job was active for longer than {self._plan.deadline} s"
        stuck = stuck_pod(self._view)
        if stuck is not None:
            reason, said = stuck_reason(stuck)
            message = f"{message}; pod {stuck['metadata']['name']}: {reason}: {said}"
        failure = {"reason": "DeadlineExceeded", "message": message}
        self._status["failure"] = ({} if stuck is None else diagnose(stuck)) | failure
        self._draft.end(CONDITION_FAILED, reason="DeadlineExceeded", message=message)

    # --- troubles --------------------------------------------------------------------------------

    def _answer_troubles(self) -> None:
        """Restart what has failed or was lost, or end the job."""
        failed, lost = self._view.within(PodState.FAILED), self._view.within(PodState.LOST)
        gone = self._gone()
        if not (failed or lost or gone):
            return
        # In a set that restarts as a whole, replicas fail for want of the one that was lost.
        is_failure = bool(failed) and (self._plan.alone or not (lost or gone))
        self._explain(failed if is_failure else lost, gone)
        if is_failure:
            wait = self._count_failures(len(failed) if self._plan.alone else 1)
        else:
            wait = self._count_disruption()
        if wait is not None:
            self._restart([*failed, *lost, *gone], wait, is_failure=is_failure)

    def _gone(self) -> list[int]:
        """Replicas whose pods were there and are not any more."""
        launched = (self._status.get("launchedAttempt") or 0) >= highest_attempt(self._status)
        return [
            index
            for index in self._missing()
            if launched or (index, wanted_attempt(self._status, index)) in self._seen.known
        ]

    def _explain(self, indexes: Sequence[int], gone: Sequence[int]) -> None:
        """Put the cause into the status."""
        cause = culprit(self._view.current[index] for index in indexes)
        if cause is not None:
            self._status["failure"] = diagnose(cause)
            self._culprit = cause if pod_state(cause) is PodState.FAILED else None
        else:
            self._status["failure"] = lost_failure(self._draft.job, gone[0])

    def _count_failures(self, number: int) -> float | None:
        """The wait before the restart; None when the job has failed."""
        counts, limit = self._draft.counts, self._plan.backoff_limit
        if counts["restarts"] + number > limit:
            said = f"{self._cause()}; the backoff limit of {limit} restarts is reached"
            self._draft.end(CONDITION_FAILED, reason="BackoffLimitExceeded", message=said)
            return None
        counts["restarts"] += number
        return self._limits.restart_wait(counts["restarts"])

    def _count_disruption(self) -> float | None:
        counts, limit = self._draft.counts, self._limits.disruption_limit
        since = self._running_since()
        stable = since is not None and self._seen.now - since >= self._limits.stable_after
        number = 1 if stable else counts["disruptions"] + 1
        if number > limit:
            said = f"{self._cause()}; pods were lost {limit} times in a row"
            self._draft.end(CONDITION_FAILED, reason="DisruptionLimitExceeded", message=said)
            return None
        counts["disruptions"] = number
        return self._limits.restart_wait(number)

    def _restart(self, indexes: Sequence[int], wait: float, *, is_failure: bool) -> None:
        status = self._status
        if self._plan.alone:
            attempt = claim_replicas(status, indexes)
        else:
            attempt = claim_set(status, world=self._world, keep_completed=False)
        self._draft.wait_until(self._seen.now + wait)
        reason = "ReplicaFailed" if is_failure else "PodLost"
        self._draft.restarting(reason, f"{self._cause()}; attempt {attempt} follows")
        self._view = Replicas.sort(status, self._seen.pods)

    def _cause(self) -> str:
        failure = self._status.get("failure") or {}
        what = f"replica {failure.get('replica')} failed: {failure.get('reason')}"
        code = failure.get("exitCode")
        return what if code is None else f"{what} (exit code {code})"

    # --- size, and pods that nobody made ---------------------------------------------------------

    def _follow_capacity(self) -> None:
        if highest_attempt(self._status) > self._floor:
            return  # what is seen is not of the attempt that begins
        refusal, now, world = self._seen.refusal, self._seen.now, self._world
        resize = elastic.shrunken_world(
            self._plan,
            self._view,
            world=world,
            missing=self._missing(),
            refused_since=refusal.since if refusal else None,
            now=now,
            limits=self._limits,
            sightings=self._seen.sightings,
        )
        if resize == elastic.Resize():
            resize = elastic.grown_world(
                self._plan,
                self._view,
                world=world,
                running_since=self._running_since(),
                now=now,
                limits=self._limits,
                sightings=self._seen.sightings,
            )
        if resize.look_again is not None:
            self._times.append(resize.look_again)
        if resize.world is None:
            return
        claim_set(self._status, world=resize.world, keep_completed=self._plan.alone)
        how = "Shrunk" if resize.world < world else "Grown"
        self._draft.restarting(how, f"goes on with {resize.world} instead of {world} replicas")
        self._view = Replicas.sort(self._status, self._seen.pods)

    def _reclaim(self) -> None:
        """Claim pods anew that another process may or may not have created."""
        unknown = [
            index
            for index in self._missing()
            if (number := wanted_attempt(self._status, index)) <= self._floor
            and number not in self._seen.claimed
        ]
        if not unknown:
            return
        if self._plan.alone:
            claim_replicas(self._status, unknown)
        else:
            # The replicas of a set are of one attempt: what they write together is fenced by it.
            claim_set(self._status, world=self._world, keep_completed=False)
            if self._view.current:
                said = f"an operator ended while it made the pods of attempt {self._floor}"
                self._draft.restarting("Interrupted", said)
        self._view = Replicas.sort(self._status, self._seen.pods)

    # --- the outcome -----------------------------------------------------------------------------

    def _finish(self) -> Decision:
        """Describe the outcome, and say what to do."""
        if self._status.get("completionTime"):
            self._draft.count(self._view)
            return Decision(
                self._status, culprit=self._culprit, clean_pods=self._plan.clean_pods,
                delete=tuple(p for p in self._view.placeholders if not is_deleting(p)),
                requeue_after=0.001,
            )  # fmt: skip
        describe(self._draft, self._view, missing=self._missing(), refusal=self._seen.refusal)
        delete, kill, look_again = removals(self._seen, self._view.stale, self._limits)
        if look_again is not None:
            self._times.append(look_again)
        launches = self._launches()
        placeholders = self._placeholders()
        later = min(self._times, default=None)
        return Decision(
            self._status,
            claimed=frozenset(range(self._floor + 1, highest_attempt(self._status) + 1)),
            culprit=self._culprit,
            delete=delete,
            kill=kill,
            launches=launches,
            placeholders=placeholders,
            upkeep=True,
            requeue_after=0.0 if later is None else max(later - self._seen.now, 0.001),
            known=frozenset((i, attempt_of(pod) or 0) for i, pod in self._view.current.items()),
        )

    def _next_attempt(self) -> float | None:
        """When the next attempt may begin; a time beyond any delay was written by a wrong clock."""
        at = moment(self._status.get("nextAttemptTime"))
        latest = self._seen.now + self._limits.restart_delay_cap + 1  # times are in whole seconds
        return at if at is not None and at <= latest else None

    def _launches(self) -> tuple[Launch, ...]:
        """The pods to create now."""
        missing, refusal, now = self._missing(), self._seen.refusal, self._seen.now
        waits = [self._next_attempt(), refusal.until if refusal else None]
        later = max((wait for wait in waits if wait is not None), default=now)
        if missing and later > now:
            self._times.append(later)
            return ()
        set_attempt = self._status["attempt"]
        training = [pod for pod in self._view.stale if not is_placeholder(pod)]
        if any((attempt_of(pod) or 0) < set_attempt for pod in self._view.stale):
            return ()  # a set begins when all of the one before have gone
        taken = {replica_of(pod) for pod in training}
        groups: dict[int, list[int]] = defaultdict(list)
        for index in missing:
            if index not in taken:
                groups[wanted_attempt(self._status, index)].append(index)
        return tuple(Launch(n, self._world, tuple(group)) for n, group in sorted(groups.items()))

    def _placeholders(self) -> tuple[int, ...]:
        running = running_since(self._status) is not None
        wanted = elastic.wanted_placeholders(self._plan, world=self._world, running=running)
        lacking = len(wanted) - len(self._view.placeholders)
        if lacking <= 0:
            return ()
        due = self._seen.placed_at + _PLACEHOLDER_PAUSE
        if self._seen.now < due:
            self._times.append(due)
            return ()
        held = {_number(pod) for pod in self._seen.pods if is_placeholder(pod)}
        return tuple(number for number in wanted if number not in held)

    # --- what is read often ----------------------------------------------------------------------

    @property
    def _world(self) -> int:
        return int(self._status["worldSize"])

    def _done(self) -> set[int]:
        return completed_replicas(self._status)

    def _running_since(self) -> float | None:
        since = running_since(self._status)
        return None if since is None else self._seen.since(since)

    def _missing(self) -> list[int]:
        done = self._done()
        return [i for i in range(self._world) if i not in self._view.current and i not in done]


def _number(pod: Obj) -> int:
    return int(pod["metadata"]["name"].rpartition("-")[2])
