"""Errors of this package: one tree, each message says what to do.

`StoreUnavailable` and `Conflict` are worth another try; everything else is final until somebody
changes the configuration, the credentials or the data.
"""

from __future__ import annotations


class CheckpointError(Exception):
    """Base of all errors of this package."""


class InvalidManifest(CheckpointError):
    """A manifest that is torn, altered, or not one of ours."""


class InvalidPath(CheckpointError):
    """A path that would leave its checkpoint or that a store cannot hold."""


class CorruptCheckpoint(CheckpointError):
    """Stored bytes are not the ones that the manifest describes."""


class NoCheckpoint(CheckpointError):
    """Nothing to restore from: no checkpoint is complete and intact."""


class Fenced(CheckpointError):
    """A newer attempt of the job owns the prefix; this writer must stop."""


class SaveFailed(CheckpointError):
    """A save in the background failed; the cause is chained."""


class InvalidLocation(CheckpointError):
    """A storage address or its settings cannot be understood."""


class StoreError(CheckpointError):
    """A store refused or failed."""


class NotFound(StoreError):
    """No object has that name."""


class AlreadyExists(StoreError):
    """A create-only write met an object that is there already."""


class Conflict(StoreError):
    """The object changed since it was read: read again and decide again."""


class PermissionDenied(StoreError):
    """The credentials are missing, wrong, expired, or not allowed to do this."""


class StoreUnavailable(StoreError):
    """The store did not answer properly after all retries."""


class SigningUnsupported(StoreError):
    """The credentials at hand cannot sign such a URL."""


class InvalidSignature(CheckpointError):
    """A signed URL was tampered with, or signed with an unknown key."""


class SignatureExpired(InvalidSignature):
    """A signed URL whose time is over."""
