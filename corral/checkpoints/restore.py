"""Restoring: the newest checkpoint that proves intact, byte by byte.

Damaged ones are reported, quarantined and passed over. Only damage counts: an unreachable store
or missing rights raise, because they say nothing about the checkpoint. Before a checkpoint is
given up its files are read once more, so that a flaw on the way does not condemn good data.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Generic, TypeVar

from corral.checkpoints import transfer
from corral.checkpoints.errors import NoCheckpoint
from corral.checkpoints.findings import Damaged, Finding
from corral.checkpoints.manifest import FileEntry, Manifest
from corral.checkpoints.repository import Repository

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Restored(Generic[T]):
    """What was restored, and what had to be passed over on the way."""

    manifest: Manifest
    value: T
    findings: tuple[Finding, ...]


def newest_good(
    repository: Repository,
    read: Callable[[Manifest], T],
    *,
    identifier: str | None = None,
    quarantine: bool = True,
) -> Restored[T]:
    """Reads the newest checkpoint for which `read` succeeds.

    Args:
        repository: where to look.
        read: reads one checkpoint; raises `Damaged` if it is not intact.
        identifier: only this one.
        quarantine: mark damaged ones in the store, so that nobody reads them again.

    Raises:
        NoCheckpoint: if there is none; the message lists what was wrong with each.
    """
    findings: list[Finding] = []
    for manifest in _candidates(repository, identifier, findings):
        try:
            return Restored(manifest, _twice(read, manifest), tuple(findings))
        except Damaged as damage:
            findings.append(damage.finding)
            if quarantine:
                repository.quarantine(damage.finding)
    details = "; ".join(f"{finding.checkpoint}: {finding.message}" for finding in findings)
    raise NoCheckpoint(
        f"no intact checkpoint in {repository.store.url}" + (f" ({details})" if details else "")
    )


def restore_files(
    repository: Repository,
    target: Path,
    *,
    identifier: str | None = None,
    shard: int | None = None,
    quarantine: bool = True,
) -> Restored[Path]:
    """Writes a checkpoint's files into a folder that appears only when all are verified.

    Args:
        repository: where to look.
        target: the folder; it must not exist, or be empty.
        identifier: the checkpoint; the newest intact one if None.
        shard: only the files of this writer, without its folder's name.
        quarantine: see `newest_good`.
    """
    target.parent.mkdir(parents=True, exist_ok=True)

    def read(manifest: Manifest) -> Path:
        partial = target.parent / f".{target.name}.{uuid.uuid4().hex[:8]}"
        try:
            _download(repository, manifest, partial, shard)
            os.replace(partial, target)  # fails if the target has anything in it
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise
        return target

    return newest_good(repository, read, identifier=identifier, quarantine=quarantine)


def _download(repository: Repository, manifest: Manifest, into: Path, shard: int | None) -> None:
    into.mkdir()
    entries = [e for e in manifest.files if shard is None or e.shard == shard]
    tasks = [
        partial(download_file, repository, manifest, entry, into / _local_name(entry, shard))
        for entry in entries
    ]
    transfer.in_parallel(tasks, workers=repository.workers)


def download_file(
    repository: Repository, manifest: Manifest, entry: FileEntry, target: Path
) -> None:
    """Writes one verified file of a checkpoint to this machine, holding one chunk in memory."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("xb", buffering=0) as file:
        transfer.read_verified(
            repository.store,
            repository.folder(manifest.id),
            entry,
            lambda offset, chunk: _write_at(file.fileno(), chunk, offset),
        )


def _write_at(descriptor: int, chunk: memoryview, offset: int) -> None:
    while chunk:
        count = os.pwrite(descriptor, chunk, offset)
        chunk, offset = chunk[count:], offset + count


def _local_name(entry: FileEntry, shard: int | None) -> str:
    return entry.path if shard is None else entry.path.partition("/")[2]


def _candidates(
    repository: Repository, identifier: str | None, findings: list[Finding]
) -> Iterator[Manifest]:
    if identifier is not None:
        try:
            yield repository.get(identifier)
        except Damaged as damage:
            findings.append(damage.finding)
        return
    scan = repository.scan()
    findings.extend(finding for finding in scan.findings if finding.is_damage)
    yield from scan.manifests


def _twice(read: Callable[[Manifest], T], manifest: Manifest) -> T:
    try:
        return read(manifest)
    except Damaged:
        return read(manifest)
