"""What `corral checkpoint list|restore|verify` does: plain functions that return plain rows.

They print nothing; whoever calls them chooses table, JSON or YAML. Looking never changes
anything: no checkpoint is quarantined by `list` or `verify`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from corral.checkpoints.errors import CheckpointError
from corral.checkpoints.findings import Damaged, Finding
from corral.checkpoints.location import open_store
from corral.checkpoints.manifest import Manifest, format_time
from corral.checkpoints.repository import Repository
from corral.checkpoints.restore import restore_files


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a list; the fields are the columns."""

    name: str
    status: str
    """Ready, or the reason why not."""
    step: int | None = None
    attempt: int | None = None
    time: str = ""
    files: int = 0
    bytes: int = 0
    metrics: Mapping[str, float | None] | None = None
    message: str = ""


def open_repository(url: str, credentials: Mapping[str, str] | None = None) -> Repository:
    """All checkpoints at an address."""
    return Repository(open_store(url, credentials))


def list_checkpoints(repository: Repository, *, broken: bool = True) -> list[Row]:
    """Complete checkpoints, newest first, then (with `broken`) what else lies there."""
    scan = repository.scan()
    rows = [_ready(manifest) for manifest in scan.manifests]
    return rows + ([_broken(finding) for finding in scan.findings] if broken else [])


def verify_checkpoints(repository: Repository, name: str | None = None) -> list[Row]:
    """Reads all data of one checkpoint, or of all; a row's message says all that is wrong."""
    if name is not None:
        try:
            return [_verified(repository, repository.get(name))]
        except Damaged as damage:
            return [_broken(damage.finding)]
    scan = repository.scan()
    rows = [_verified(repository, manifest) for manifest in scan.manifests]
    return rows + [_broken(finding) for finding in scan.findings]


def restore_checkpoint(
    repository: Repository, target: Path, name: str | None = None
) -> dict[str, Any]:
    """Writes the files of one checkpoint, or of the newest intact one, into a folder.

    Raises:
        NoCheckpoint: if nothing intact is there.
        NotFound: if there is no checkpoint of that name.
        CheckpointError: if the target is not an empty folder.
    """
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise CheckpointError(f"{target} is not an empty folder; choose another one")
    restored = restore_files(repository, target, identifier=name, quarantine=False)
    return {
        "name": restored.manifest.id,
        "step": restored.manifest.step,
        "folder": str(restored.value),
        "files": len(restored.manifest.files),
        "bytes": restored.manifest.total_size,
        "skipped": [f"{found.checkpoint}: {found.message}" for found in restored.findings],
    }


def _verified(repository: Repository, manifest: Manifest) -> Row:
    findings = repository.verify(manifest)
    if not findings:
        return _ready(manifest, status="Verified")
    message = "; ".join(finding.message for finding in findings)
    return _ready(manifest, status=findings[0].reason, message=message)


def _ready(manifest: Manifest, *, status: str = "Ready", message: str = "") -> Row:
    return Row(
        name=manifest.id,
        status=status,
        step=manifest.step,
        attempt=manifest.attempt,
        time=format_time(manifest.time),
        files=len(manifest.files),
        bytes=manifest.total_size,
        metrics=manifest.metrics,
        message=message,
    )


def _broken(finding: Finding) -> Row:
    return Row(name=finding.checkpoint, status=finding.reason, message=finding.message)
