"""What the API server asks us before a spot job, a machine or a backup is written.

Defaults, every mistake with its field, what may not change, and warnings come from the kinds
themselves (`corral.api.spot.kinds`): the controllers judge by the same rules where webhooks are not
installed. Warned about here is what depends on the change alone.
"""

from __future__ import annotations

from collections.abc import Iterator

from corral.api.spot.kinds import CheckpointBackup, SpotInstanceJob, SpotInstanceVM
from corral.api.spot.status import BACKUP_ENDS, FAILED, SUCCEEDED
from corral.kube.types import Obj
from corral.runtime.webhooks.hooks import Hooks

__all__ = ["backup_remarks", "job_remarks", "register_hooks", "vm_remarks"]


def register_hooks(hooks: Hooks) -> None:
    """Default and validate the three kinds."""
    hooks.kind(SpotInstanceJob, remarks=job_remarks, early=True)
    hooks.kind(SpotInstanceVM, remarks=vm_remarks, early=True)
    hooks.kind(CheckpointBackup, remarks=backup_remarks, early=True)


def job_remarks(new: Obj, old: Obj) -> Iterator[str]:
    """What somebody who changes a job should know; the new one may be wrong."""
    phase = _phase(old)
    if phase in (SUCCEEDED, FAILED):
        yield f"spec: the job has {phase.lower()} already; nothing comes of this change"
    elif _spec(new).get("jobTemplate") != _spec(old).get("jobTemplate"):
        yield "spec.jobTemplate: copies that run keep the old one until they are placed anew"


def vm_remarks(new: Obj, old: Obj) -> Iterator[str]:
    """What somebody who changes machines should know."""
    status = old.get("status")
    made = status.get("provisionedInstances") if isinstance(status, dict) else None
    if made and _spec(new) != _spec(old):
        yield "spec: machines that are there stay as they are; new ones are made by the change"


def backup_remarks(new: Obj, old: Obj) -> Iterator[str]:
    """What somebody who changes a backup should know."""
    phase = _phase(old)
    if phase in BACKUP_ENDS and _spec(new) != _spec(old):
        yield f"spec: the backup is {phase} already; make a new one"


def _spec(obj: Obj) -> Obj:
    found = obj.get("spec")
    return found if isinstance(found, dict) else {}


def _phase(obj: Obj) -> str:
    status = obj.get("status")
    found = status.get("phase") if isinstance(status, dict) else None
    return found if isinstance(found, str) else ""
