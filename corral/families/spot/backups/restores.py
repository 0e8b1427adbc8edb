"""Which images a copy of a spot job may start from, which are to be made, and which may go. Pure.

Copies do the same work, so it is enough to save one of them, and any can go on from it. What is
asked of `corral.families.spot.backups.snapshots` is decided here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from corral.api.spot.kinds import BACKUP_FINALIZER, BACKUP_JOB_LABEL, JOB_LABEL, REPLICA_LABEL
from corral.api.spot.rules import duration_seconds
from corral.api.spot.status import BACKUP_ENDS
from corral.families.spot.jobs.storage import DEFAULT_INTERVAL
from corral.kube.types import Obj
from corral.runtime.conditions import is_condition_true
from corral.runtime.owners import is_controlled_by
from corral.runtime.pods.states import is_terminal, moment
from corral.runtime.sightings import Sightings

__all__ = [
    "Due",
    "backup_for",
    "backup_name",
    "due",
    "expendable",
    "image_time",
    "images_of",
    "interval_of",
    "next_number",
]

_GOOD: Final = ("Completed", "CompletedPodDeleted")
REQUEST_NOTE: Final = "training.dcnlab.com/checkpoint-request"
"""On a backup: the request that it answers."""
FAILURES_KEPT: Final = 3
"""Backups that failed and stay, so that it can be read why."""


@dataclass(frozen=True, slots=True)
class Due:
    """What is to be done for a job: a pod to save now, or how long to wait."""

    pod: Obj | None = None
    request: str = ""
    """The request that it answers."""
    wait: float | None = None


def images_of(job: Obj, backups: Iterable[Obj]) -> list[str]:
    """Images of a job's copies, newest first; by what was begun last, not by what ended last."""
    good = [backup for backup in _of(job, backups) if _image(backup)]
    good.sort(key=lambda backup: image_time(backup) or 0.0, reverse=True)
    return list(dict.fromkeys(_image(backup) for backup in good))


def image_time(backup: Obj) -> float | None:
    """When the state that a backup holds was saved; None while it holds none."""
    status = backup.get("status") or {}
    return moment(status.get("lastCheckpointTime") or status.get("completionTime"))


def interval_of(job: Obj) -> float:
    """Seconds between two checkpoints."""
    fixed = duration_seconds(job["spec"]["checkpointConfig"].get("checkpointInterval") or "")
    chosen = (job.get("status") or {}).get("checkpointIntervalSeconds")
    return fixed if fixed is not None else float(chosen or DEFAULT_INTERVAL)


def due(
    job: Obj,
    pods: Iterable[Obj],
    backups: Sequence[Obj],
    now: float,
    *,
    sightings: Sightings | None = None,
) -> Due:
    """Which pod is to be saved now.

    A copy is saved by one backup at a time; one that is stuck does not hold up the others, nor one
    that was asked for. ``sightings`` say since when times are known that a wrong clock wrote.
    """
    sightings = sightings or Sightings()
    if (job["spec"]["checkpointConfig"].get("engine") or "Application") == "Application":
        return Due()
    live = sorted(filter(_is_running, pods), key=_replica)
    own = list(_of(job, backups))
    asked = (job.get("status") or {}).get("checkpointRequest") or {}
    if asked.get("id") and all(_request(backup) != asked["id"] for backup in own):
        wanted = [pod for pod in live if asked.get("replica") in (None, _replica(pod))]
        if wanted:
            return Due(wanted[0], request=str(asked["id"]))
    busy = {each["spec"].get("podName") for each in own if _phase(each) not in BACKUP_ENDS}
    free = [pod for pod in live if pod["metadata"]["name"] not in busy]
    if not free:
        return Due()
    began = [_begun(backup) for backup in own]
    began.append(min(filter(None, map(_ready_since, live)), default=now))
    past = [sightings.since(each, now=now) for each in began if each]
    wait = max(past, default=now) + interval_of(job) - now
    return Due(free[0]) if wait <= 0 else Due(wait=wait)


def backup_for(job: Obj, pod: Obj, number: int, *, request: str = "") -> Obj:
    """The CheckpointBackup that saves a copy's pod; its owner is set by its writer."""
    config, metadata = job["spec"]["checkpointConfig"], job["metadata"]
    labels = {
        JOB_LABEL: metadata["name"],
        BACKUP_JOB_LABEL: (pod["metadata"].get("labels") or {}).get("batch.kubernetes.io/job-name"),
    }
    made: Obj = {
        "metadata": {
            "name": backup_name(job, number),
            "namespace": metadata["namespace"],
            "labels": {key: value for key, value in labels.items() if value},
            "finalizers": [BACKUP_FINALIZER],
        },
        "spec": {
            "podName": pod["metadata"]["name"],
            "nodeName": pod["spec"].get("nodeName"),
            "imageRepo": config["checkpointImageRepo"],
            "engine": config["engine"],
            "timeoutSeconds": config.get("timeoutSeconds") or 600,
        },
    }
    if request:
        made["metadata"]["annotations"] = {REQUEST_NOTE: request}
        made["spec"]["immediate"] = True
    if config.get("directory"):
        made["spec"]["directory"] = config["directory"]
    if config.get("checkpointRepoCredentialRef"):
        made["spec"]["imageRepoCredentials"] = dict(config["checkpointRepoCredentialRef"])
    return made


def backup_name(job: Obj, number: int) -> str:
    """At most 63 characters, as pods are named after it."""
    suffix = f"-backup-{number}"
    return f"{job['metadata']['name'][: 63 - len(suffix)].rstrip('.-')}{suffix}"


def expendable(job: Obj, backups: Iterable[Obj]) -> list[Obj]:
    """Backups that newer ones have replaced, and failures that nobody needs to read any more."""
    keep = int(job["spec"]["checkpointConfig"].get("keep") or 3)
    own = sorted(_of(job, backups), key=_number, reverse=True)
    good = [backup for backup in own if _image(backup)]
    bad = [each for each in own if _phase(each) in BACKUP_ENDS and not _image(each)]
    return [*good[keep:], *bad[FAILURES_KEPT:]]


def next_number(job: Obj, backups: Iterable[Obj]) -> int:
    """For the name of the next backup: whoever makes it a second time meets the first one."""
    return 1 + max(map(_number, _of(job, backups)), default=0)


def _of(job: Obj, backups: Iterable[Obj]) -> Iterable[Obj]:
    return (backup for backup in backups if is_controlled_by(backup, job))


def _image(backup: Obj) -> str:
    status = backup.get("status") or {}
    if _phase(backup) not in _GOOD:
        return ""
    return str(status.get("checkpointImage") or "")


def _begun(backup: Obj) -> float | None:
    started = (backup.get("status") or {}).get("startTime")
    return moment(started or backup["metadata"].get("creationTimestamp"))


def _phase(backup: Obj) -> str:
    return str((backup.get("status") or {}).get("phase") or "")


def _request(backup: Obj) -> str:
    return str((backup["metadata"].get("annotations") or {}).get(REQUEST_NOTE) or "")


def _number(backup: Obj) -> int:
    tail = backup["metadata"]["name"].rpartition("-")[2]
    return int(tail) if tail.isdigit() else 0


def _replica(pod: Obj) -> int:
    text = (pod["metadata"].get("labels") or {}).get(REPLICA_LABEL) or ""
    return int(text) if text.isdigit() else 0


def _is_running(pod: Obj) -> bool:
    status = pod.get("status") or {}
    alive = not is_terminal(pod) and not pod["metadata"].get("deletionTimestamp")
    return alive and status.get("phase") == "Running"


def _ready_since(pod: Obj) -> float | None:
    status = pod.get("status") or {}
    if not is_condition_true(status.get("conditions"), "Ready"):
        return None
    return moment(status.get("startTime"))
