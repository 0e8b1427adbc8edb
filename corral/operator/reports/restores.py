"""What a pod can start from: checkpoints in object stores, newest first, with URLs for their files.

Those whose manifest is torn, or whose files are missing or too short, are passed over here, marked
in the store and told of; a flipped bit is for the pod to find, which reads the bytes. Stores that
do not answer are an error: they say nothing about checkpoints.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from corral.checkpoints.errors import CheckpointError
from corral.checkpoints.findings import Damaged, Finding, Reason
from corral.checkpoints.paths import step_of
from corral.checkpoints.places import Place, PlaceRefused
from corral.checkpoints.signing.base import UrlSigner
from corral.families.trainingjob.checkpoints.credentials import CredentialsMissing
from corral.families.trainingjob.checkpoints.places import (
    address_place,
    checkpoint_place,
    job_place,
)
from corral.families.trainingjob.checkpoints.stores import Opened, Stores
from corral.families.trainingjob.checkpoints.summaries import belongs_to, id_of, phase_of
from corral.kube.types import Obj
from corral.operator.reports.bodies import Rejection
from corral.operator.reports.errors import NotHere, Refused
from corral.operator.reports.transfers import candidate
from corral.operator.reports.uploads import store_error
from corral.operator.reports.views import Views

__all__ = ["Candidates", "Restores"]

logger = logging.getLogger(__name__)

MOST = 8
"""Candidates in one answer; each has a URL for every file."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """The answer, and what was passed over."""

    answer: Obj
    findings: tuple[Finding, ...] = ()


class Restores:
    """Finds candidates."""

    def __init__(self, stores: Stores, views: Views, *, url_ttl: float = 3600.0) -> None:
        self._stores = stores
        self._views = views
        self._ttl = url_ttl

    async def find(self, job: Obj, source: str) -> Candidates:
        """What ``CORRAL_RESTORE_FROM`` stands for.

        Raises:
            ReportError: it cannot be had.
        """
        if source.lower() == "none":
            return Candidates({"candidates": []})
        try:
            place, identifier = await self._resolve(job, source)
            opened = await self._stores.open(job["metadata"]["namespace"], place)
            if opened.signer is None:
                raise Refused("pods find checkpoints in folders themselves")
            known_bad = await self._failed(job)
            own = place == job_place(job, self._stores.rules)
            look = partial(self._look, opened, opened.signer, identifier, known_bad, own)
            return await self._stores.call(look)
        except (PlaceRefused, CredentialsMissing) as error:
            raise Refused(str(error)) from error
        except CheckpointError as error:
            raise store_error(error) from error

    async def mark(self, job: Obj, rejections: Sequence[Rejection]) -> None:
        """Have nobody read what a pod found to be damaged; in the job's own folder only."""
        try:
            place = job_place(job, self._stores.rules)
            if place is None or place.location.scheme == "file":
                return  # pods mark what lies in their own folders
            opened = await self._stores.open(job["metadata"]["namespace"], place)
            for rejection in rejections:
                if step_of(rejection.id) is not None:
                    finding = Finding(rejection.id, Reason.CORRUPT, rejection.message)
                    await self._stores.call(_quarantine, opened, finding)
        except (PlaceRefused, CredentialsMissing, CheckpointError) as error:
            # The Checkpoint object says so as well, and candidates are chosen by it.
            logger.warning("a damaged checkpoint was not marked in the store: %s", error)

    async def _resolve(self, job: Obj, source: str) -> tuple[Place, str | None]:
        """The place to look at, and the only checkpoint to look for."""
        rules = self._stores.rules
        if "://" in source:
            return address_place(job, source, rules)
        if source.lower() != "latest" and step_of(source) is None:
            return await self._named(job, source)
        place = job_place(job, rules)
        if place is None:
            raise Refused("pods find checkpoints on volumes themselves")
        return place, source if step_of(source) is not None else None

    async def _named(self, job: Obj, name: str) -> tuple[Place, str]:
        """A Checkpoint of the job's namespace, whichever job made it."""
        found = await self._views.checkpoint(job["metadata"]["namespace"], name)
        if found is None:
            raise NotHere(f"there is no Checkpoint {name} in this namespace")
        place, identifier = checkpoint_place(found, self._stores.rules)
        if place is None:
            raise Refused(f"Checkpoint {name} is on the volume of job {found['spec']['jobRef']}")
        return place, identifier

    async def _failed(self, job: Obj) -> frozenset[str]:
        metadata = job["metadata"]
        found = await self._views.checkpoints(metadata["namespace"], metadata["name"])
        bad = (c for c in found if phase_of(c) == "Failed" and belongs_to(c, job))
        return frozenset(map(id_of, bad))

    def _look(
        self,
        opened: Opened,
        signer: UrlSigner,
        only: str | None,
        known_bad: frozenset[str],
        own: bool,
    ) -> Candidates:
        """In a thread. What is not the job's ``own`` is read only, never marked."""
        repository = opened.repository
        findings: list[Finding] = []
        if only is not None:
            try:
                manifests = [repository.get(only)]
            except Damaged as damage:
                findings.append(damage.finding)
                manifests = []
        else:
            scan = repository.scan()
            findings += [finding for finding in scan.findings if finding.is_damage]
            manifests = [found for found in scan.manifests if found.id not in known_bad]
        candidates: list[Obj] = []
        for manifest in manifests:
            if len(candidates) == MOST:
                break
            wrong = repository.check_sizes(manifest)
            if wrong is None:
                candidates.append(candidate(repository, signer, manifest, self._ttl))
            else:
                if own:
                    repository.quarantine(wrong)
                findings.append(wrong)
        return Candidates({"candidates": candidates}, tuple(findings))


def _quarantine(opened: Opened, finding: Finding) -> None:
    """Only what is there: a mark must not make a folder of a checkpoint that was deleted."""
    _, names = opened.repository.store.entries(opened.repository.folder(finding.checkpoint))
    if names:
        opened.repository.quarantine(finding)
