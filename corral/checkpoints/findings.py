"""What is wrong with a checkpoint, in a form that fits an Event: who, why, and a sentence."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from corral.checkpoints.errors import CorruptCheckpoint


class Reason(StrEnum):
    """Why a checkpoint was passed over."""

    INCOMPLETE = "CheckpointIncomplete"
    """No manifest: still being written, or its writer died."""
    TORN = "CheckpointManifestInvalid"
    """The manifest is truncated, altered, or not ours."""
    MISSING = "CheckpointFileMissing"
    TRUNCATED = "CheckpointFileTruncated"
    """A file has another size than the manifest says."""
    CORRUPT = "CheckpointDigestMismatch"
    """A file has the right size and the wrong bytes."""
    QUARANTINED = "CheckpointQuarantined"
    """The checkpoint was found corrupt earlier and marked."""
    DELETED = "CheckpointDeleted"
    """The deletion of the checkpoint has begun."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One reason to pass over one checkpoint."""

    checkpoint: str
    reason: Reason
    message: str
    path: str = ""

    @property
    def is_damage(self) -> bool:
        """Whether somebody should look; False for what happens in normal operation."""
        return self.reason not in (Reason.INCOMPLETE, Reason.DELETED)


class Damaged(CorruptCheckpoint):
    """A checkpoint that cannot be restored, with the finding that says why."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(f"checkpoint {finding.checkpoint}: {finding.message}")
        self.finding = finding
