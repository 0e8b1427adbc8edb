"""The life of a TrainingJob as a pure function: what is seen goes in, what to do comes out.

Nothing here does I/O or looks at a clock, and a decision is repeatable: the same observation gives
the same decision, and once it is carried out the next one asks for nothing more. What must survive
a crash is in the status, so an operator may die between any two actions:

- First the status says which attempt begins (bound to the version read, so only one operator can).
- Then pods of earlier attempts are deleted; when they are gone, those of the new one are created.
- Only the process that claimed an attempt creates its pods, once per replica. Another one that
  finds pods missing which may or may not have been created claims a new attempt. So no (replica,
  attempt) is ever created twice.

Failures count against ``backoffLimit``. Pods that were deleted, evicted or lost with their node are
disruptions: they do not, but too many in a row end the job as well (`RunLimits`). In a set that is
restarted as a whole, a disruption explains the failures beside it. Containers that cannot start
(images, configuration) are shown and waited for: restarting them would not help.
"""

from __future__ import annotations

from corral.api.training.kinds import TrainingJob
from corral.api.training.status import (
    CONDITION_RESTARTING,
    CONDITION_RUNNING,
    CONDITION_SUSPENDED,
    CONDITION_VALID,
)
from corral.families.trainingjob.lifecycle.attempts import add_completed, completed_replicas
from corral.families.trainingjob.lifecycle.decision import Decision, Observation
from corral.families.trainingjob.lifecycle.limits import RunLimits
from corral.families.trainingjob.lifecycle.plan import Plan
from corral.families.trainingjob.lifecycle.replicas import Replicas
from corral.families.trainingjob.lifecycle.running import Run, removals
from corral.families.trainingjob.lifecycle.status import Draft, is_finished, is_suspended
from corral.kube.problems import FieldError
from corral.runtime.conditions import find_condition
from corral.runtime.pods.states import PodState, is_deleting, is_terminal, moment

__all__ = ["decide"]


def decide(seen: Observation, limits: RunLimits) -> Decision:
    """What to do about a job now."""
    draft = Draft(seen.job, seen.now)
    draft.summarise(seen.checkpoints)
    if is_finished(draft.old):
        return _after_end(seen, draft, limits)
    problems = _problems(draft)
    if problems:
        return _held(draft, problems)
    draft.valid()
    plan = Plan.of(seen.job)
    if plan.suspend and not _has_succeeded(seen, draft):
        return _suspended(seen, draft, limits)
    return Run(seen, draft, plan, limits=limits).decide()


def _problems(draft: Draft) -> list[FieldError]:
    """What is wrong with the spec; a generation that was found valid is not checked again."""
    valid = find_condition(draft.old.get("conditions"), CONDITION_VALID) or {}
    if valid.get("status") == "True" and valid.get("observedGeneration") == draft.generation:
        return []
    return TrainingJob.validate(draft.job)


def _held(draft: Draft, problems: list[FieldError]) -> Decision:
    """Show what is wrong and do nothing until the spec changes; what runs is left alone."""
    draft.invalid("; ".join(map(str, problems)))
    return Decision(draft.status)


def _has_succeeded(seen: Observation, draft: Draft) -> bool:
    """Whether nothing is left to suspend."""
    world = draft.status.get("worldSize") or 0
    done = completed_replicas(draft.status)
    view = Replicas.sort(draft.status, seen.pods)
    return bool(world) and len(done | set(view.within(PodState.SUCCEEDED))) == world


def _suspended(seen: Observation, draft: Draft, limits: RunLimits) -> Decision:
    """No pods; what has been reached is kept."""
    view = Replicas.sort(draft.status, seen.pods)
    add_completed(draft.status, view.within(PodState.SUCCEEDED))
    draft.count(view)
    draft.counts["desired"] = Plan.of(draft.job).replicas
    draft.status["phase"] = "Pending"
    draft.status.pop("nextAttemptTime", None)
    message = "the job is suspended"
    if not is_suspended(draft.old):
        draft.condition(CONDITION_SUSPENDED, holds=True, reason="Suspended", message=message)
    draft.condition(CONDITION_RUNNING, holds=False, reason="Suspended", message=message)
    draft.end_condition(CONDITION_RESTARTING, reason="Suspended")
    delete, kill, look_again = removals(seen, seen.pods, limits)
    return Decision(
        draft.status,
        delete=delete,
        kill=kill,
        requeue_after=max(look_again - seen.now, 0.0) if look_again else 0.0,
    )


def _after_end(seen: Observation, draft: Draft, limits: RunLimits) -> Decision:
    """Clean up, and delete the job when its time has come. What ended it is not looked at again."""
    view = Replicas.sort(draft.status, seen.pods)
    active = [p for p in view.current.values() if not is_terminal(p) and not is_deleting(p)]
    draft.counts["active"] = len(active)
    draft.counts["ready"] = min(draft.counts["ready"], len(active))
    plan = Plan.of(draft.job)
    useless = [pod for pod in (*view.placeholders, *view.stale) if not is_terminal(pod)]
    delete, kill, look_again = removals(seen, useless, limits)
    _, stuck, again = removals(
        seen, [pod for pod in view.current.values() if is_deleting(pod)], limits
    )
    times = [time for time in (look_again, again) if time]
    expired = False
    if plan.ttl is not None:
        end = seen.since(moment(draft.status.get("completionTime")) or seen.now) + plan.ttl
        expired = seen.now >= end
        times += [] if expired else [end]
    return Decision(
        draft.status,
        delete=delete,
        kill=(*kill, *stuck),
        clean_pods=plan.clean_pods,
        expired=expired,
        requeue_after=max(min(times) - seen.now, 0.001) if times else 0.0,
    )
