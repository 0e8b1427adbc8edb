"""Moving the files of one checkpoint: URLs for them, and their publication when all are stored.

What kind of job it is, and where its checkpoints are, is the caller's.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from corral.checkpoints.errors import AlreadyExists, CheckpointError, NotFound
from corral.checkpoints.manifest import Manifest
from corral.checkpoints.paths import join
from corral.checkpoints.repository import Repository
from corral.checkpoints.signing.base import SignedRequest, Upload, UrlSigner
from corral.checkpoints.writer import CheckpointWriter
from corral.kube.types import Obj
from corral.operator.reports.bodies import Commit, CommitFile, UploadFile

__all__ = ["Transfers", "UploadSettings", "candidate"]


@dataclass(frozen=True, slots=True)
class UploadSettings:
    """Bytes and seconds."""

    part_size: int = 64 << 20
    """Files that are longer are stored in parts of this size."""
    max_parts: int = 1000
    """Parts of one file; those of larger files are longer."""
    url_ttl: float = 3600.0
    """How long a URL works."""


class Transfers:
    """The files of checkpoints in one repository; for a thread, as stores are slow."""

    def __init__(self, repository: Repository, signer: UrlSigner, settings: UploadSettings) -> None:
        self._repository = repository
        self._signer = signer
        self._settings = settings

    def signed(self, writer: CheckpointWriter, file: UploadFile) -> Obj:
        """The requests that store one file."""
        path = self._repository.folder(join(writer.id, writer.stored_path(file.path)))
        ttl = self._settings.url_ttl
        part = self._part_size(file.size)
        if part is None:
            request = self._signer.put(path, ttl=ttl)
            requests = [_wire(request) | {"start": 0, "size": file.size}]
            return {"path": file.path, "requests": requests, "upload": None}
        count = math.ceil(file.size / part)
        upload = self._signer.start(path, parts=count, ttl=ttl)
        requests = [
            _wire(request) | {"start": n * part, "size": min(part, file.size - n * part)}
            for n, request in enumerate(upload.parts)
        ]
        return {"path": file.path, "requests": requests, "upload": upload.id}

    def publish(self, writer: CheckpointWriter, commit: Commit) -> Manifest | None:
        """Finish the files, look at them, write the record or the manifest.

        Raises:
            CheckpointError: files are missing, or it is fenced.
        """
        folder = self._repository.folder(writer.id)
        for file in commit.files:
            self._finish(join(folder, writer.stored_path(file.path)), file)
        sizes = {stat.path: stat.size for stat in self._repository.store.walk(folder)}
        for file in commit.files:
            actual = sizes.get(join(folder, writer.stored_path(file.path)))
            if actual != file.size:
                found = "is not there" if actual is None else f"has {actual} bytes"
                raise _Incomplete(f"{file.path} {found}, not {file.size}: send it again")
            writer.adopt(
                file.path,
                size=file.size,
                sha256=file.sha256,
                part_size=self._part_size(file.size),
            )
        metrics = None if commit.metrics is None else dict(commit.metrics)
        return writer.commit(metrics=metrics)

    def _part_size(self, size: int) -> int | None:
        """None for files that are stored in one piece; the commit finds the same answer."""
        settings = self._settings
        if size <= settings.part_size:
            return None
        return max(settings.part_size, math.ceil(size / settings.max_parts))

    def _finish(self, path: str, file: CommitFile) -> None:
        """Make one object of the parts; a commit that is repeated finds that done."""
        if file.upload is None:
            return
        try:
            self._signer.complete(Upload(path, file.upload, ()), file.etags)
        except (NotFound, AlreadyExists):
            if self._repository.store.stat(path).size != file.size:
                raise


class _Incomplete(CheckpointError):
    """Not all files are stored as they should be."""


def candidate(repository: Repository, signer: UrlSigner, manifest: Manifest, ttl: float) -> Obj:
    """A checkpoint to start from, with a URL for every file."""
    folder = repository.folder(manifest.id)
    files = []
    for entry in manifest.files:
        wire = _wire(signer.get(join(folder, entry.path), ttl=ttl))
        files.append({**entry.document(), "request": wire})
    return {
        "id": manifest.id,
        "step": manifest.step,
        "attempt": manifest.attempt,
        "metrics": dict(manifest.metrics),
        "files": files,
    }


def _wire(request: SignedRequest) -> Obj:
    return {"method": request.method, "url": request.url, "headers": dict(request.headers)}
