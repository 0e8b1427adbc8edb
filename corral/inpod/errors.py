"""What can go wrong in this package; everything that it raises on purpose is a `CorralError`."""

from __future__ import annotations


class CorralError(RuntimeError):
    """The base of them all."""


class CheckpointError(CorralError):
    """A checkpoint could not be written."""


class Fenced(CheckpointError):
    """A newer attempt of the job has begun: this one must not write any more."""


class InvalidManifest(CorralError):
    """A manifest is torn, altered, or not ours."""


class InvalidPath(CheckpointError):
    """A name that a checkpoint must not contain."""


class RestoreError(CorralError):
    """The checkpoint that was asked for cannot be had."""


class Damaged(RestoreError):
    """A checkpoint is not intact."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(f"checkpoint {finding.checkpoint}: {finding.message}")
        self.finding = finding


class Unavailable(CorralError):
    """Nobody answered, or the answer was to come back later."""


class Refused(CorralError):
    """The answer was no, and asking again will not change it."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{message} (HTTP {status})")
        self.status = status


class Finding:
    """One reason to pass over one checkpoint; the reasons are those of the operator's Events."""

    INCOMPLETE = "CheckpointIncomplete"
    TORN = "CheckpointManifestInvalid"
    MISSING = "CheckpointFileMissing"
    TRUNCATED = "CheckpointFileTruncated"
    CORRUPT = "CheckpointDigestMismatch"
    QUARANTINED = "CheckpointQuarantined"
    DELETED = "CheckpointDeleted"

    def __init__(self, checkpoint: str, reason: str, message: str, path: str = "") -> None:
        self.checkpoint = checkpoint
        self.reason = reason
        self.message = message
        self.path = path

    def __repr__(self) -> str:
        return f"Finding({self.checkpoint!r}, {self.reason!r}, {self.message!r})"

    @property
    def is_news(self) -> bool:
        """Whether it is damage that nobody has reported yet."""
        return self.reason in (self.TORN, self.MISSING, self.TRUNCATED, self.CORRUPT)
