"""Checkpoints in object stores: URLs for a pod's files, and the commit when all are stored.

Nothing is remembered between the two calls: the checkpoint's name and the Checkpoint object say
which attempt, step and number it is, and the folder of a replica's files follows from their
digests. So the commit may reach another process than the one that signed the URLs, and may be
repeated. Before a manifest is written, every file is seen in its full length in the store, and the
attempt is checked against the job as it is now and against the store's own marks.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from functools import partial

from corral.checkpoints.errors import (
    CheckpointError,
    InvalidPath,
    NotFound,
    PermissionDenied,
    StoreUnavailable,
)
from corral.checkpoints.errors import Conflict as StoreConflict
from corral.checkpoints.errors import Fenced as StoreFenced
from corral.checkpoints.manifest import Manifest
from corral.checkpoints.paths import checkpoint_id, shared_nonce, step_of
from corral.checkpoints.places import Place, PlaceRefused
from corral.checkpoints.signing.base import UrlSigner
from corral.checkpoints.writer import CheckpointWriter, Shard
from corral.families.trainingjob.checkpoints.credentials import CredentialsMissing
from corral.families.trainingjob.checkpoints.objects import CheckpointObjects, Facts
from corral.families.trainingjob.checkpoints.places import job_place
from corral.families.trainingjob.checkpoints.stores import Opened, Stores
from corral.families.trainingjob.checkpoints.summaries import (
    attempt_of,
    id_of,
    is_ready,
    phase_of,
    sequence_of,
    time_of,
)
from corral.kube.types import Obj
from corral.operator.reports.bodies import Commit, UploadFile, UploadRequest
from corral.operator.reports.errors import (
    Fenced,
    Malformed,
    NotHere,
    Refused,
    ReportError,
    Unavailable,
)
from corral.operator.reports.transfers import Transfers, UploadSettings

__all__ = ["UploadSettings", "Uploads", "store_error"]


def store_error(error: Exception) -> ReportError:
    """What a pod is told of a problem with the store."""
    if isinstance(error, StoreFenced):
        return Fenced(str(error))
    if isinstance(error, StoreUnavailable | StoreConflict):
        return Unavailable(str(error))
    if isinstance(error, NotFound):
        return NotHere(str(error))
    if isinstance(error, InvalidPath):
        return Malformed(str(error))
    return Refused(str(error))


class Uploads:
    """The two calls."""

    def __init__(
        self,
        stores: Stores,
        objects: CheckpointObjects,
        *,
        settings: UploadSettings | None = None,
        nonce: Callable[[], str],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._stores = stores
        self._objects = objects
        self._settings = settings or UploadSettings()
        self._nonce = nonce
        self._clock = clock

    # --- URLs ------------------------------------------------------------------------------------

    async def begin(self, job: Obj, attempt: int, request: UploadRequest) -> Obj:
        """URLs for the files of one replica.

        Raises:
            ReportError: they cannot be had.
        """
        shard = _shard(request.replica, request.of)
        place, opened, signer = await self._open(job)
        uid = job["metadata"]["uid"]
        nonce = shared_nonce(uid, attempt, request.step) if shard else self._nonce()
        identifier = checkpoint_id(request.step, nonce)
        try:
            await self._stores.call(opened.repository.claim, attempt)
            facts = Facts(
                identifier,
                request.step,
                attempt=attempt,
                time=self._clock(),
                metrics=request.metrics,
                request=request.request or "",
            )
            checkpoint = await self._objects.begin(job, place, facts)
            writer = _writer(opened, job, checkpoint, shard, request.files)
            sign = partial(self._transfers(opened, signer).signed, writer)
            files = await self._stores.call(lambda: [sign(file) for file in request.files])
        except (CheckpointError, CredentialsMissing) as error:
            raise store_error(error) from error
        return {"id": identifier, "name": checkpoint["metadata"]["name"], "files": files}

    # --- commit ----------------------------------------------------------------------------------

    async def commit(self, job: Obj, attempt: int, identifier: str, commit: Commit) -> Obj:
        """Publish a checkpoint whose files are stored, or record the replica's part of it.

        Raises:
            ReportError: files are missing, or a newer attempt has begun.
        """
        checkpoint = await self._find(job, identifier)
        if is_ready(checkpoint):
            return _answer(checkpoint, complete=True)
        if phase_of(checkpoint) != "Writing" or checkpoint["metadata"].get("deletionTimestamp"):
            raise Refused(f"checkpoint {identifier} was given up; begin another")
        if attempt_of(checkpoint) != attempt:
            raise Fenced(f"checkpoint {identifier} is of attempt {attempt_of(checkpoint)}")
        shard = _shard(commit.replica, commit.of)
        _, opened, signer = await self._open(job)
        writer = _writer(opened, job, checkpoint, shard, commit.files)
        publish = partial(self._transfers(opened, signer).publish, writer, commit)
        try:
            manifest = await self._stores.call(publish)
        except (CheckpointError, CredentialsMissing) as error:
            raise store_error(error) from error
        if manifest is None:
            return _answer(checkpoint, complete=False)
        duration = commit.duration
        if duration is None:
            duration = max(0.0, self._clock() - manifest.time)
        ready = await self._objects.ready(
            checkpoint, manifest, duration=duration, request=commit.request or ""
        )
        return _answer(ready, complete=is_ready(ready))

    # --- both ------------------------------------------------------------------------------------

    def _transfers(self, opened: Opened, signer: UrlSigner) -> Transfers:
        return Transfers(opened.repository, signer, self._settings)

    async def _open(self, job: Obj) -> tuple[Place, Opened, UrlSigner]:
        try:
            place = job_place(job, self._stores.rules)
            if place is None:
                raise Refused("this job keeps its checkpoints on a volume")
            opened = await self._stores.open(job["metadata"]["namespace"], place)
        except (PlaceRefused, CredentialsMissing, PermissionDenied) as error:
            raise Refused(str(error)) from error
        except CheckpointError as error:
            raise store_error(error) from error
        if opened.signer is None:
            raise Refused("this job keeps its checkpoints in a folder")
        return place, opened, opened.signer

    async def _find(self, job: Obj, identifier: str) -> Obj:
        if step_of(identifier) is None:
            raise NotHere(f"{identifier!r} is not the name of a checkpoint")
        metadata = job["metadata"]
        for found in await self._objects.of_job(metadata["namespace"], metadata["name"]):
            if id_of(found) == identifier:
                return found
        raise NotHere(f"checkpoint {identifier} was not begun, or was given up")


def _shard(replica: int, of: int) -> Shard | None:
    if of == 1:
        return None
    try:
        return Shard(replica, of)
    except ValueError as error:
        raise Malformed(str(error)) from error


def _writer(
    opened: Opened, job: Obj, checkpoint: Obj, shard: Shard | None, files: Sequence[UploadFile]
) -> CheckpointWriter:
    """The writer of this replica; every process makes the same one of the same facts."""
    # Shards of one set agree in everything but their files: nothing here is a replica's own.
    manifest = Manifest(
        id=id_of(checkpoint),
        step=checkpoint["spec"]["step"],
        time=time_of(checkpoint),
        files=(),
        attempt=attempt_of(checkpoint),
        sequence=sequence_of(checkpoint),
        job_uid=job["metadata"]["uid"],
        framework=job["spec"].get("framework") or "",
        world_size=shard.count if shard else 1,
        metrics=checkpoint["spec"].get("metrics") or {},
    )
    text = "\n".join(f"{file.path}\0{file.size}\0{file.sha256}" for file in files)
    nonce = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:8]
    return CheckpointWriter(opened.repository, manifest, shard=shard, nonce=nonce)


def _answer(checkpoint: Obj, *, complete: bool) -> Obj:
    return {"complete": complete, "name": checkpoint["metadata"]["name"]}
