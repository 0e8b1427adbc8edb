"""What Checkpoint objects say: summaries, order, and what a run of a job starts from. No I/O.

A Checkpoint object holds everything that decisions need; stores are asked for data only. What the
schema has no field for is in annotations:

- `ATTEMPT`: the attempt of the job that wrote it; a later one wins over a higher step,
- `SEQUENCE`: counts the checkpoints of the job; what `keepEvery` counts by,
- `TIME`: when its writing began, in seconds since the epoch,
- `JOB_UID`: which job of that name,
- `PARENT`: the checkpoint that this one builds upon, if it is incremental,
- `REQUEST`: the request that it answers,
- `STORAGE`: where its data is kept, as in the job; the job may be gone when the data goes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Final

from corral.checkpoints.errors import InvalidLocation
from corral.checkpoints.location import parse
from corral.checkpoints.manifest import Manifest
from corral.checkpoints.paths import step_of
from corral.egress.reading import load_json
from corral.kube.types import Obj
from corral.runtime.keys import format_time, join_key, uid_of

__all__ = [
    "ATTEMPT",
    "FINALIZER",
    "JOB_INDEX",
    "JOB_UID",
    "PARENT",
    "REQUEST",
    "SEQUENCE",
    "STORAGE",
    "TIME",
    "VOLUMES",
    "attempt_of",
    "belongs_to",
    "checkpoint_name",
    "facts",
    "id_of",
    "index_by_job",
    "is_ready",
    "job_uid_of",
    "newest_first",
    "phase_of",
    "restore_source",
    "sequence_of",
    "storage_kind",
    "storage_of",
    "summarise",
    "time_of",
    "unanswered_request",
]

_PREFIX = "training.corral.dev/"
FINALIZER: Final = f"{_PREFIX}checkpoint-data"
"""On every Checkpoint: the object goes only after its data."""
ATTEMPT: Final = f"{_PREFIX}attempt"
SEQUENCE: Final = f"{_PREFIX}sequence"
TIME: Final = f"{_PREFIX}time"
JOB_UID: Final = f"{_PREFIX}job-uid"
PARENT: Final = f"{_PREFIX}parent"
REQUEST: Final = f"{_PREFIX}checkpoint-requested"
"""On a job: any text that was not there before asks for a checkpoint. On a Checkpoint: the text
that it answers."""
STORAGE: Final = f"{_PREFIX}storage"

VOLUMES: Final = ("pvc", "local")
"""Kinds of storage that pods read and write themselves; for the others URLs are signed."""


JOB_INDEX: Final = "job"
"""Checkpoints by ``namespace/job``."""


def index_by_job(checkpoint: Obj) -> tuple[str, ...]:
    """The values of `JOB_INDEX`."""
    name = ((checkpoint.get("spec") or {}).get("jobRef") or {}).get("name")
    return (join_key(checkpoint["metadata"].get("namespace"), name),) if name else ()


def checkpoint_name(job: str, sequence: int) -> str:
    """The name of the Checkpoint object."""
    return f"{job}-{sequence:06d}"


def summarise(checkpoints: Sequence[Obj]) -> Obj:
    """The fields of ``status.checkpoint`` that follow from the Checkpoints of a job."""
    ready = newest_first(checkpoint for checkpoint in checkpoints if is_ready(checkpoint))
    total = sum(int((found.get("status") or {}).get("bytes") or 0) for found in ready)
    summary: Obj = {"count": len(ready), "bytes": total}
    if ready:
        summary["last"] = ready[0]["metadata"]["name"]
        summary["lastStep"] = ready[0]["spec"]["step"]
        summary["lastTime"] = format_time(time_of(ready[0]))
    return summary


def restore_source(job: Obj, checkpoints: Sequence[Obj]) -> str:
    """What the pods of the next attempt start from: the value of ``CORRAL_RESTORE_FROM``.

    ``latest``: the newest intact one of this job; ``none``: nothing; else the id of one on the
    job's volume, or the address of one in a remote store. ``spec.checkpoint.restore`` is about the
    first start: as soon as the job has a checkpoint of its own, it goes on from there.

    ``checkpoints`` are those of the namespace; a name that is not among them is returned as it is.
    """
    spec = job["spec"].get("checkpoint")
    if spec is None:
        return "none"
    wanted: str = (spec.get("restore") or {}).get("from", "Latest")
    if wanted == "Latest" or any(is_ready(c) and belongs_to(c, job) for c in checkpoints):
        return "latest"
    if wanted == "None":
        return "none"
    for checkpoint in checkpoints:
        if checkpoint["metadata"]["name"] == wanted:
            uri: str = checkpoint["spec"]["uri"]
            return id_of(checkpoint) if storage_kind(job) in VOLUMES else uri
    return wanted


def storage_kind(job: Obj) -> str:
    """pvc, s3, gcs, azure or local; empty where the job makes no checkpoints."""
    storage = (job["spec"].get("checkpoint") or {}).get("storage") or {}
    return next((kind for kind, chosen in storage.items() if chosen is not None), "")


def unanswered_request(job: Obj, checkpoints: Iterable[Obj]) -> str | None:
    """The request for a checkpoint that none of these answers."""
    asked: str | None = (job["metadata"].get("annotations") or {}).get(REQUEST)
    if not asked or any(
        _annotation(found, REQUEST) == asked and belongs_to(found, job) for found in checkpoints
    ):
        return None
    return asked


# --- one Checkpoint --------------------------------------------------------------------------


def phase_of(checkpoint: Obj) -> str:
    """Writing where none is written yet."""
    return str((checkpoint.get("status") or {}).get("phase") or "Writing")


def is_ready(checkpoint: Obj) -> bool:
    """Whether it is complete and stays; one that is being deleted does not."""
    going = checkpoint["metadata"].get("deletionTimestamp")
    return phase_of(checkpoint) == "Ready" and not going


def belongs_to(checkpoint: Obj, job: Obj) -> bool:
    """Whether this very job made it, not an earlier one of the same name."""
    if checkpoint["spec"]["jobRef"]["name"] != job["metadata"]["name"]:
        return False
    return _annotation(checkpoint, JOB_UID) == uid_of(job)


def job_uid_of(checkpoint: Obj) -> str:
    """Of the job that made it, as the object says; empty if it does not."""
    return _annotation(checkpoint, JOB_UID)


def id_of(checkpoint: Obj) -> str:
    """The checkpoint's folder in its store; empty if the address has none."""
    try:
        last = parse(_comparable(checkpoint["spec"]["uri"])).prefix.rpartition("/")[2]
    except InvalidLocation:
        return ""
    return last if step_of(last) is not None else ""


def attempt_of(checkpoint: Obj) -> int:
    return _whole(_annotation(checkpoint, ATTEMPT))


def sequence_of(checkpoint: Obj) -> int:
    return _whole(_annotation(checkpoint, SEQUENCE))


def time_of(checkpoint: Obj) -> float:
    """When its writing began; when the object was made, if that is not known."""
    text = _annotation(checkpoint, TIME)
    try:
        return float(text)
    except ValueError:
        made = checkpoint["metadata"].get("creationTimestamp")
        return datetime.fromisoformat(made).timestamp() if made else 0.0


def storage_of(checkpoint: Obj) -> Obj:
    """As in the job that made it; empty if that is not known or not readable."""
    try:
        found: Any = load_json(_annotation(checkpoint, STORAGE) or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def newest_first(checkpoints: Iterable[Obj]) -> list[Obj]:
    """By attempt, step, and order of arrival."""
    return sorted(
        checkpoints,
        key=lambda c: (attempt_of(c), c["spec"]["step"], sequence_of(c), c["metadata"]["name"]),
        reverse=True,
    )


def facts(checkpoint: Obj) -> Manifest:
    """What retention decides by."""
    metrics = checkpoint["spec"].get("metrics") or {}
    return Manifest(
        id=id_of(checkpoint) or checkpoint["metadata"]["name"],
        step=checkpoint["spec"]["step"],
        time=time_of(checkpoint),
        files=(),
        attempt=attempt_of(checkpoint),
        sequence=sequence_of(checkpoint) or None,
        metrics={name: float(value) for name, value in metrics.items()},
        parent=_annotation(checkpoint, PARENT) or None,
    )


def _annotation(checkpoint: Obj, name: str) -> str:
    return str((checkpoint["metadata"].get("annotations") or {}).get(name) or "")


def _whole(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() else 0


def _comparable(uri: str) -> str:
    """Claims have addresses that no store can open; they look like folders."""
    return "/" + uri.removeprefix("pvc://") if uri.startswith("pvc://") else uri
