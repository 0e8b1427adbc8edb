"""Checkpoints of spot jobs in object stores: URLs, commits, and what a start may begin with.

Each copy has a folder of its own in the job's folder, so copies do not fence each other, and starts
of one copy do. A start is offered the newest checkpoints of all copies. Nothing is remembered
between two calls; all that counts is in the store.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from typing import Final

from corral.checkpoints.collect import collect, prune
from corral.checkpoints.errors import CheckpointError, NotFound, PermissionDenied
from corral.checkpoints.findings import Damaged, Finding, Reason
from corral.checkpoints.manifest import Manifest
from corral.checkpoints.paths import checkpoint_id, step_of
from corral.checkpoints.places import PlaceRefused
from corral.checkpoints.repository import Repository
from corral.checkpoints.retention import Retention
from corral.checkpoints.signing.base import UrlSigner
from corral.checkpoints.writer import CheckpointWriter
from corral.families.spot.jobs.places import copy_folder, spot_place
from corral.families.trainingjob.checkpoints.credentials import CredentialsMissing
from corral.families.trainingjob.checkpoints.stores import Opened, Stores
from corral.kube.types import Obj
from corral.operator.reports.bodies import Commit, Rejection, UploadRequest
from corral.operator.reports.errors import NotHere, Refused
from corral.operator.reports.restores import MOST, Candidates
from corral.operator.reports.transfers import Transfers, UploadSettings, candidate
from corral.operator.reports.uploads import store_error

__all__ = ["SpotStores"]

READING: Final = 3600.0
"""Seconds for which the data of a checkpoint that was replaced stays for those who read it."""


class SpotStores:
    """The calls of copies whose checkpoints are in object stores."""

    def __init__(
        self,
        stores: Stores,
        *,
        settings: UploadSettings | None = None,
        nonce: Callable[[], str],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._stores = stores
        self._settings = settings or UploadSettings()
        self._nonce = nonce
        self._clock = clock

    async def begin(self, job: Obj, replica: int, attempt: int, request: UploadRequest) -> Obj:
        """URLs for the files of a checkpoint.

        Raises:
            ReportError: they cannot be had.
        """
        async with self._opened(job) as (opened, signer):
            repository = self._repository(opened, replica)
            await self._stores.call(repository.claim, attempt)
            identifier = checkpoint_id(request.step, self._nonce())
            manifest = self._manifest(job, identifier, attempt)
            writer = CheckpointWriter(repository, manifest)
            sign = partial(Transfers(repository, signer, self._settings).signed, writer)
            files = await self._stores.call(lambda: [sign(file) for file in request.files])
            return {"id": identifier, "name": identifier, "files": files}

    async def commit(
        self, job: Obj, replica: int, attempt: int, identifier: str, commit: Commit
    ) -> Manifest:
        """Publish a checkpoint whose files are stored; repeated, it is the same one.

        Raises:
            ReportError: files are missing, or a newer start of the copy has begun.
        """
        if step_of(identifier) is None:
            raise NotHere(f"{identifier!r} is not the name of a checkpoint")
        async with self._opened(job) as (opened, signer):
            repository = self._repository(opened, replica)
            with contextlib.suppress(NotFound, Damaged):
                return await self._stores.call(repository.get, identifier)
            began = self._clock() - (commit.duration or 0.0)
            manifest = self._manifest(job, identifier, attempt, began=began)
            writer = CheckpointWriter(repository, manifest)
            transfers = Transfers(repository, signer, self._settings)
            done = await self._stores.call(transfers.publish, writer, commit)
            assert done is not None  # there are no shards
            return done

    async def retain(self, job: Obj, replica: int) -> None:
        """Remove what newer checkpoints of a copy have replaced.

        Raises:
            ReportError: the store does not let us.
        """
        keep = int(job["spec"]["checkpointConfig"].get("keep") or 3)
        async with self._opened(job) as (opened, _):
            repository = self._repository(opened, replica)
            await self._stores.call(prune, repository, Retention(keep_last=keep), grace=READING)
            await self._stores.call(collect, repository, grace=READING)

    async def find(self, job: Obj, source: str) -> Candidates:
        """What a start may begin with: of all copies, the highest step first.

        Raises:
            ReportError: nobody can tell.
        """
        if source.lower() == "none":
            return Candidates({"candidates": []})
        only = None if source.lower() == "latest" else source
        if only is not None and step_of(only) is None:
            raise Refused(f"{source}: a copy starts from latest, none, or the id of a checkpoint")
        async with self._opened(job) as (opened, signer):
            return await self._stores.call(self._look, opened, signer, only)

    async def mark(self, job: Obj, rejections: list[Rejection]) -> None:
        """Have nobody read what a copy found to be damaged.

        Raises:
            ReportError: the store does not let us.
        """
        if spot_place(job, self._stores.rules) is None:
            return  # copies mark what lies on their volume
        async with self._opened(job) as (opened, _):
            for rejection in rejections:
                if step_of(rejection.id) is not None:
                    finding = Finding(rejection.id, Reason.CORRUPT, rejection.message)
                    await self._stores.call(_quarantine, opened, finding)

    @contextlib.asynccontextmanager
    async def _opened(self, job: Obj) -> AsyncIterator[tuple[Opened, UrlSigner]]:
        """The store, with its errors as answers to the pod."""
        try:
            place = spot_place(job, self._stores.rules)
            if place is None:
                raise Refused("this job keeps its checkpoints on a volume")
            opened = await self._stores.open(job["metadata"]["namespace"], place)
            if opened.signer is None:
                raise Refused("this job keeps its checkpoints in a folder")
            yield opened, opened.signer
        except (PlaceRefused, CredentialsMissing, PermissionDenied) as error:
            raise Refused(str(error)) from error
        except CheckpointError as error:
            raise store_error(error) from error

    def _repository(self, opened: Opened, replica: int) -> Repository:
        store, room = opened.repository.store, opened.repository.room
        prefix = copy_folder(replica)
        return Repository(store, prefix=prefix, workers=4, clock=self._clock, room=room)

    def _manifest(
        self, job: Obj, identifier: str, attempt: int, *, began: float | None = None
    ) -> Manifest:
        return Manifest(
            id=identifier,
            step=step_of(identifier) or 0,
            time=self._clock() if began is None else began,
            files=(),
            attempt=attempt,
            job_uid=job["metadata"]["uid"],
        )

    def _look(self, opened: Opened, signer: UrlSigner, only: str | None) -> Candidates:
        """In a thread."""
        findings: list[Finding] = []
        found: list[tuple[Repository, Manifest]] = []
        for repository in _copies(opened):
            scan = repository.scan()
            findings += [finding for finding in scan.findings if finding.is_damage]
            found += [(repository, each) for each in scan.manifests if only in (None, each.id)]
        found.sort(key=lambda item: (item[1].step, item[1].time, item[1].id), reverse=True)
        candidates: list[Obj] = []
        for repository, manifest in found:
            if len(candidates) == MOST:
                break
            wrong = repository.check_sizes(manifest)
            if wrong is None:
                ttl = self._settings.url_ttl
                candidates.append(candidate(repository, signer, manifest, ttl))
            else:
                repository.quarantine(wrong)
                findings.append(wrong)
        return Candidates({"candidates": candidates}, tuple(findings))


def _copies(opened: Opened) -> Iterator[Repository]:
    store = opened.repository.store
    folders, _ = store.entries("")
    for folder in sorted(folders):
        if folder.startswith("replica-"):
            yield Repository(store, prefix=folder, workers=4, room=opened.repository.room)


def _quarantine(opened: Opened, finding: Finding) -> None:
    """Only what is there: a mark must not make a folder of a checkpoint that was deleted."""
    for repository in _copies(opened):
        _, names = repository.store.entries(repository.folder(finding.checkpoint))
        if names:
            repository.quarantine(finding)
