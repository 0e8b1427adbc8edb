"""Writing Checkpoint objects: Writing, then Ready or Failed, then Deleted.

A Checkpoint stands for one folder in one store: its address. It is announced any number of times
by pods and operator processes that know nothing of each other, and is made once: whoever asks for
the next number first gets it, and the others find the address taken when they look again.

Checkpoints on a claim belong to their job and go with it, as the claim does. Those in object stores
and in folders of the machine outlive the job, and another job may start from them by name.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from corral.api.training.kinds import CHECKPOINTS, TRAININGJOBS
from corral.checkpoints.manifest import FileEntry, Manifest
from corral.checkpoints.places import Place
from corral.families.trainingjob.checkpoints.places import checkpoint_uri
from corral.families.trainingjob.checkpoints.summaries import (
    ATTEMPT,
    FINALIZER,
    JOB_UID,
    PARENT,
    REQUEST,
    SEQUENCE,
    STORAGE,
    TIME,
    checkpoint_name,
    phase_of,
    sequence_of,
    storage_kind,
)
from corral.families.trainingjob.names import job_labels, selector_of
from corral.kube.client import KubeClient
from corral.kube.errors import AlreadyExists, NotFound
from corral.kube.types import Obj
from corral.runtime.owners import set_owner

__all__ = ["MAX_FILES", "CheckpointObjects", "Facts"]

MAX_FILES = 1000
"""Files that an object lists; of more, only the manifest in the store tells."""
MAX_MESSAGE = 1024
_TRIES = 20


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known when a checkpoint is begun."""

    id: str
    step: int
    attempt: int = 0
    time: float = 0.0
    """Seconds since the epoch."""
    metrics: Mapping[str, float | None] = field(default_factory=dict)
    request: str = ""
    """The request that it answers."""
    parent: str = ""


class CheckpointObjects:
    """The Checkpoints of all jobs."""

    def __init__(
        self,
        client: KubeClient,
        *,
        field_manager: str = "corral-checkpoints",
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._client = client
        self._manager = field_manager
        self._clock = clock

    async def of_job(self, namespace: str, job: str) -> list[Obj]:
        """All of a job of that name, earlier jobs of the name included; read afresh."""
        found = await self._client.list_all(CHECKPOINTS, namespace, label_selector=selector_of(job))
        items: list[Obj] = found["items"]
        return [CHECKPOINTS.stamp(item) for item in items]

    async def begin(self, job: Obj, place: Place | None, facts: Facts) -> Obj:
        """The Checkpoint of this address, made if there is none; its phase is Writing then."""
        uri = checkpoint_uri(job, place, facts.id)
        metadata = job["metadata"]
        for _ in range(_TRIES):
            present = await self.of_job(metadata["namespace"], metadata["name"])
            known = [found for found in present if found["spec"]["uri"] == uri]
            if known:
                return known[0]
            number = 1 + max(map(sequence_of, present), default=0)
            try:
                made = await self._client.create(
                    CHECKPOINTS, _built(job, uri, facts, number), field_manager=self._manager
                )
            except AlreadyExists:
                continue  # another took the number, perhaps for this very address
            return await self._status(made, {"phase": "Writing"})
        raise RuntimeError(f"no free number for a Checkpoint of {metadata['name']}")

    async def ready(
        self,
        checkpoint: Obj,
        manifest: Manifest,
        *,
        duration: float | None = None,
        request: str = "",
    ) -> Obj:
        """It is complete; one that is Ready, Failed or going stays as it is."""
        if phase_of(checkpoint) != "Writing" or checkpoint["metadata"].get("deletionTimestamp"):
            return checkpoint
        notes = {ATTEMPT: str(manifest.attempt), TIME: repr(manifest.time)}
        if manifest.parent:
            notes[PARENT] = manifest.parent
        if request:
            notes[REQUEST] = request
        patch: Obj = {
            "metadata": {"annotations": notes},
            "spec": {"metrics": _finite(manifest.metrics)},
        }
        if len(manifest.files) <= MAX_FILES:
            patch["spec"]["files"] = [_file(entry) for entry in manifest.files]
        written = await self._patch(checkpoint, patch)
        status: Obj = {"phase": "Ready", "bytes": manifest.total_size}
        if duration is not None:
            status["durationSeconds"] = duration
        return await self._status(written, status)

    async def fail(self, checkpoint: Obj, message: str) -> Obj:
        """It must not be restored from."""
        return await self._status(checkpoint, {"phase": "Failed", "message": message[:MAX_MESSAGE]})

    async def data_gone(self, checkpoint: Obj) -> Obj:
        """Its data is deleted; the object follows."""
        return await self._status(checkpoint, {"phase": "Deleted"})

    async def delete(self, checkpoint: Obj) -> None:
        """Ask for this very one to go, data first; one that is gone already is no error."""
        metadata = checkpoint["metadata"]
        try:
            await self._client.delete(
                CHECKPOINTS,
                metadata["name"],
                namespace=metadata["namespace"],
                uid=metadata["uid"],
            )
        except NotFound:
            return

    async def _status(self, checkpoint: Obj, status: Obj) -> Obj:
        return await self._patch(checkpoint, {"status": status}, subresource="status")

    async def _patch(self, checkpoint: Obj, patch: Obj, *, subresource: str = "") -> Obj:
        metadata = checkpoint["metadata"]
        return await self._client.patch(
            CHECKPOINTS,
            metadata["name"],
            namespace=metadata["namespace"],
            patch=patch,
            subresource=subresource,
            field_manager=self._manager,
        )


def _built(job: Obj, uri: str, facts: Facts, number: int) -> Obj:
    metadata = job["metadata"]
    name, storage = metadata["name"], job["spec"]["checkpoint"]["storage"]
    notes = {
        ATTEMPT: str(facts.attempt),
        SEQUENCE: str(number),
        TIME: repr(facts.time),
        JOB_UID: metadata["uid"],
        STORAGE: json.dumps(storage, sort_keys=True, separators=(",", ":")),
    }
    if facts.request:
        notes[REQUEST] = facts.request
    if facts.parent:
        notes[PARENT] = facts.parent
    made: Obj = {
        "metadata": {
            "name": checkpoint_name(name, number),
            "namespace": metadata["namespace"],
            "labels": job_labels(name),
            "annotations": notes,
            "finalizers": [FINALIZER],
        },
        "spec": {
            "jobRef": {"name": name},
            "step": facts.step,
            "uri": uri,
            "metrics": _finite(facts.metrics),
        },
    }
    if storage_kind(job) == "pvc":
        set_owner(made, TRAININGJOBS.stamp(job))
    return made


def _finite(metrics: Mapping[str, float | None]) -> dict[str, float]:
    """JSON knows no NaN and no infinity."""
    return {
        name: value for name, value in metrics.items() if value is not None and value - value == 0
    }


def _file(entry: FileEntry) -> Obj:
    return {"path": entry.path, "size": entry.size, "sha256": entry.sha256}
