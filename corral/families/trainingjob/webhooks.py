"""What the API server asks us before a TrainingJob or a Checkpoint is written.

Defaults, every mistake at once with its field, what may not change, and warnings come from the
kinds themselves (`corral.api.training`): the reconciler judges by the same rules where webhooks are
not installed. Warned about here is what depends on the change alone.
"""

from __future__ import annotations

from collections.abc import Iterator

from corral.api.training.kinds import Checkpoint, TrainingJob
from corral.kube.types import Obj
from corral.runtime.webhooks.hooks import Hooks

__all__ = ["change_remarks", "register_hooks"]

_FINISHED = ("Succeeded", "Failed")


def register_hooks(hooks: Hooks) -> None:
    """Default and validate both kinds."""
    hooks.kind(TrainingJob, remarks=change_remarks, early=True)
    hooks.kind(Checkpoint, early=True)


def change_remarks(new: Obj, old: Obj) -> Iterator[str]:
    """What somebody who changes a job should know; the new one may be wrong."""
    phase = (old.get("status") or {}).get("phase")
    if phase in _FINISHED:
        yield f"spec: the job has {phase.lower()} already; nothing comes of this change"
        return
    spec, before = _spec(new), _spec(old)
    if _suspended(spec) and not _suspended(before) and not spec.get("checkpoint"):
        yield (
            "spec.runPolicy.suspend: without spec.checkpoint, training begins anew when the job "
            "is resumed"
        )
    if spec.get("replicas") != before.get("replicas") and not _suspended(spec):
        yield "spec.replicas: all replicas are restarted with the new number of them"


def _spec(obj: Obj) -> Obj:
    found = obj.get("spec")
    return found if isinstance(found, dict) else {}


def _suspended(spec: Obj) -> bool:
    policy = spec.get("runPolicy")
    return isinstance(policy, dict) and policy.get("suspend") is True
