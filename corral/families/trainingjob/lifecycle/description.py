"""How a TrainingJob that should run is doing: its conditions, phase and counts. No I/O."""

from __future__ import annotations

from collections.abc import Sequence

from corral.api.training.status import CONDITION_RESTARTING, CONDITION_RUNNING
from corral.families.trainingjob.lifecycle.attempts import highest_attempt
from corral.families.trainingjob.lifecycle.decision import Refusal
from corral.families.trainingjob.lifecycle.diagnosis import diagnose
from corral.families.trainingjob.lifecycle.replicas import Replicas
from corral.families.trainingjob.lifecycle.status import Draft
from corral.kube.types import Obj
from corral.runtime.conditions import is_condition_true
from corral.runtime.pods.failures import STUCK_REASONS, UNSCHEDULABLE, stuck_reason
from corral.runtime.pods.states import PodState

__all__ = ["describe", "stuck_pod"]


def describe(
    draft: Draft, view: Replicas, *, missing: Sequence[int], refusal: Refusal | None
) -> None:
    """Put into a draft what its pods say; ``missing`` have none yet."""
    draft.count(view)
    _show_stuck(draft, view)
    status = draft.status
    if not missing:
        status["launchedAttempt"] = highest_attempt(status)
    if not missing and not view.within(PodState.PENDING, PodState.FAILED, PodState.LOST):
        _all_run(draft)
        return
    reason, message = _why_not(draft, view, missing, refusal)
    draft.condition(CONDITION_RUNNING, holds=False, reason=reason, message=message)
    # A job that is restarted goes on; the condition says that it does not train just now.
    if not is_condition_true(status.get("conditions"), CONDITION_RESTARTING):
        status["phase"] = "Pending"


def _all_run(draft: Draft) -> None:
    draft.status["phase"] = "Running"
    draft.status.pop("nextAttemptTime", None)
    said = f"all {draft.status['worldSize']} replicas run or have succeeded"
    draft.condition(CONDITION_RUNNING, holds=True, reason="AllReplicasRunning", message=said)
    draft.end_condition(CONDITION_RESTARTING, reason="AllReplicasRunning")


def _why_not(
    draft: Draft, view: Replicas, missing: Sequence[int], refusal: Refusal | None
) -> tuple[str, str]:
    """Why not all replicas run, as a reason and a message."""
    stuck = stuck_pod(view)
    if missing and refusal is not None:
        return refusal.reason, refusal.message
    if stuck is not None:
        reason, message = stuck_reason(stuck)
        return reason, f"pod {stuck['metadata']['name']}: {message}"
    if missing and view.stale:
        return "PodsEnding", "pods of an earlier attempt have yet to end"
    if missing and is_condition_true(draft.status.get("conditions"), CONDITION_RESTARTING):
        return "Restarting", "pods are about to be made anew"
    pending = len(missing) + len(view.within(PodState.PENDING))
    return "PodsPending", f"{pending} of {draft.status['worldSize']} replicas do not run yet"


def stuck_pod(view: Replicas) -> Obj | None:
    """A pod that cannot start by itself; one with a container that cannot, rather than a node."""
    found = [pod for pod in view.current.values() if stuck_reason(pod)[0]]
    return min(found, key=lambda pod: stuck_reason(pod)[0] == UNSCHEDULABLE, default=None)


def _show_stuck(draft: Draft, view: Replicas) -> None:
    """A pod that cannot start is a failure to show, until it starts."""
    status, stuck = draft.status, stuck_pod(view)
    shown = status.get("failure") or {}
    waits = shown.get("reason") in STUCK_REASONS or shown.get("reason") == UNSCHEDULABLE
    if stuck is None:
        if waits:
            del status["failure"]
    elif not shown or waits or stuck_reason(stuck)[0] != UNSCHEDULABLE:
        status["failure"] = diagnose(stuck)
