"""Deleting checkpoints in an order that is safe to be interrupted anywhere.

First a tombstone, then the manifest (from here on nobody starts to read it), then the data, the
tombstone last. A run that dies is finished by the next one. With a grace period the data stays
for readers that have begun. The newest checkpoint whose files are all there is never deleted.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection
from dataclasses import dataclass
from functools import partial

from corral.checkpoints import transfer
from corral.checkpoints.errors import AlreadyExists, StoreError
from corral.checkpoints.findings import Finding, Reason
from corral.checkpoints.manifest import Manifest
from corral.checkpoints.paths import DELETED, LATEST, MANIFEST, QUARANTINED, join
from corral.checkpoints.repository import Repository
from corral.checkpoints.retention import Plan, Retention, select

ORPHAN_GRACE = 24 * 3600.0
"""Seconds without a write after which a checkpoint without a manifest counts as abandoned."""
QUARANTINE_GRACE = 7 * 24 * 3600.0
"""Seconds that a damaged checkpoint stays for those who want to look at it."""


@dataclass(frozen=True, slots=True)
class Pruned:
    """What a retention run did."""

    plan: Plan
    findings: tuple[Finding, ...]
    """Damaged ones, which no rule counts and no rule deletes."""


def prune(
    repository: Repository,
    policy: Retention,
    *,
    pinned: Collection[str] = (),
    grace: float = 0.0,
) -> Pruned:
    """Applies a policy: deletes what it does not keep.

    Args:
        repository: whose checkpoints.
        policy: what to keep.
        pinned: checkpoints that are in use.
        grace: seconds that data outlives its manifest; `collect` removes it afterwards.
    """
    scan = repository.scan()
    checks = transfer.in_parallel(
        [partial(repository.check_sizes, manifest) for manifest in scan.manifests],
        workers=repository.workers,
    )
    intact = [m for m, finding in zip(scan.manifests, checks, strict=True) if finding is None]
    plan = select(intact, policy, now=repository.clock(), pinned=pinned)
    for manifest in plan.delete:
        delete(repository, manifest, keep_data=grace > 0)
    damage = [finding for finding in (*scan.findings, *checks) if finding and finding.is_damage]
    return Pruned(plan, tuple(damage))


def delete(repository: Repository, manifest: Manifest, *, keep_data: bool = False) -> None:
    """Deletes one checkpoint, whatever the policy says; doing it twice is no error."""
    folder = repository.folder(manifest.id)
    with contextlib.suppress(AlreadyExists):
        repository.store.create(join(folder, DELETED), b"{}")
    repository.store.delete([join(folder, MANIFEST)])
    if not keep_data:
        _remove_data(repository, manifest.id)


def collect(
    repository: Repository,
    *,
    grace: float = 0.0,
    orphan_grace: float = ORPHAN_GRACE,
    quarantine_grace: float = QUARANTINE_GRACE,
) -> list[str]:
    """Removes what deletions and dead writers left; returns the checkpoints that vanished."""
    now = repository.clock()
    patience = {
        Reason.DELETED: grace,
        Reason.INCOMPLETE: orphan_grace,
        Reason.QUARANTINED: quarantine_grace,
        Reason.TORN: quarantine_grace,
    }
    removed = []
    for finding in repository.scan().findings:
        limit = patience.get(finding.reason)
        if limit is not None and now - _last_write(repository, finding) >= limit:
            _remove_data(repository, finding.checkpoint)
            removed.append(finding.checkpoint)
    repository.store.sweep(repository.folder(""), before=now - orphan_grace)
    return removed


def _last_write(repository: Repository, finding: Finding) -> float:
    """Of the object that started the waiting: the mark if there is one, else the newest."""
    folder = repository.folder(finding.checkpoint)
    times = {stat.path: stat.modified for stat in repository.store.walk(folder)}
    for mark in (DELETED, QUARANTINED):
        if (path := join(folder, mark)) in times:
            return times[path]
    return max(times.values(), default=0.0)


def _remove_data(repository: Repository, identifier: str) -> None:
    folder = repository.folder(identifier)
    last = join(folder, DELETED)
    manifest = join(folder, MANIFEST)
    paths = [stat.path for stat in repository.store.walk(folder)]
    repository.store.delete([path for path in paths if path == manifest])
    repository.store.delete([path for path in paths if path not in (last, manifest)])
    repository.store.delete([last])
    _forget_hint(repository, identifier)


def _forget_hint(repository: Repository, identifier: str) -> None:
    path = repository.folder(LATEST)
    with contextlib.suppress(StoreError):  # only a hint
        if repository.store.read(path, limit=200).data == identifier.encode():
            repository.store.delete([path])
