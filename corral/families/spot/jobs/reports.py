"""What copies have told about themselves, as the job's status shows it. Pure.

What a copy has saved stays known when it is gone: times and steps in the status only grow.
"""

from __future__ import annotations

from corral.api.spot.kinds import BACKUP_JOB_LABEL
from corral.families.spot.backups.restores import image_time, images_of
from corral.families.spot.jobs import reported
from corral.families.spot.jobs.view import World
from corral.kube.types import Obj
from corral.runtime.keys import format_time
from corral.runtime.pods.states import moment

__all__ = ["measured_save", "note_reports"]


def _pods(world: World) -> list[Obj]:
    return [pod for some in world.pods.values() for pod in some]


def note_reports(status: Obj, world: World) -> None:
    """Progress of the copy that is ahead, and the newest checkpoint of any, in place."""
    told: Obj = dict(status.get("progress") or {})
    for pod in _pods(world):
        progress = reported.progress(pod)
        if progress is not None and progress.step is not None:
            if progress.step >= int(told.get("step") or 0):
                told["step"] = progress.step
                told["updatedAt"] = format_time(progress.time)
                if progress.total:
                    told["totalSteps"] = progress.total
        saved = reported.last_checkpoint(pod)
        if saved is not None:
            known = moment(status.get("lastCheckpointTime"))
            if known is None or int(saved.time) > known:
                status["lastCheckpointTime"] = format_time(saved.time)
            if told.get("totalSteps"):
                percent = round(100 * saved.step / told["totalSteps"], 2)
                told["savedPercent"] = max(percent, float(told.get("savedPercent") or 0.0))
    if told.get("totalSteps") and told.get("step") is not None:
        told["percent"] = round(min(100 * told["step"] / told["totalSteps"], 100.0), 2)
    if told:
        status["progress"] = told
    _note_images(status, world)


def _note_images(status: Obj, world: World) -> None:
    """The newest image, and that of each copy."""
    images = images_of(world.job, world.backups)
    if not images:
        return
    status["lastCheckpointImage"] = images[0]
    times = [image_time(backup) for backup in world.backups]
    newest = max((each for each in times if each is not None), default=None)
    known = moment(status.get("lastCheckpointTime"))
    if newest is not None and (known is None or newest > known):
        status["lastCheckpointTime"] = format_time(newest)
    for entry in status.get("jobStatuses") or ():
        own = [
            backup
            for backup in world.backups
            if (backup["metadata"].get("labels") or {}).get(BACKUP_JOB_LABEL) == entry["name"]
        ]
        of_copy = images_of(world.job, own)
        if of_copy:
            entry["lastCheckpointImage"] = of_copy[0]


def measured_save(world: World) -> float | None:
    """How long checkpoints took, at most; None where none was made yet."""
    found = [reported.last_checkpoint(pod) for pod in _pods(world)]
    took = [each.seconds for each in found if each is not None and each.seconds is not None]
    return max(took, default=None)
