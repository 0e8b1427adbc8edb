"""Storing and finding checkpoints: a leaf package, with no Kubernetes in it.

Guarantees:

- A checkpoint is there completely or not at all, on every store, whatever dies when.
- What is restored is byte for byte what was saved, or it is not restored: a torn, truncated or
  altered checkpoint is reported, quarantined and passed over for the one before.
- A writer of an earlier attempt cannot publish after a later attempt has begun.
- Retention keeps exactly what the policy says, and always the newest intact checkpoint.
- Nothing that is read is ever executed: manifests and indexes are JSON, data is raw bytes.

Read next: `manifest` for the format and layout, `store` for what stores promise, `location` for
addresses and credentials, `saver` for use in a training loop, `signing` for pre-signed URLs.
"""

from corral.checkpoints.collect import Pruned, collect, delete, prune
from corral.checkpoints.errors import (
    AlreadyExists,
    CheckpointError,
    Conflict,
    CorruptCheckpoint,
    Fenced,
    InvalidLocation,
    InvalidManifest,
    InvalidPath,
    InvalidSignature,
    NoCheckpoint,
    NotFound,
    PermissionDenied,
    SaveFailed,
    SignatureExpired,
    SigningUnsupported,
    StoreError,
    StoreUnavailable,
)
from corral.checkpoints.findings import Damaged, Finding, Reason
from corral.checkpoints.local import LocalStore
from corral.checkpoints.location import Location, from_storage, open_store, parse
from corral.checkpoints.manifest import FileEntry, Manifest, decode
from corral.checkpoints.repository import Repository, Scan
from corral.checkpoints.restore import Restored, newest_good, restore_files
from corral.checkpoints.retention import Best, Plan, Retention, select
from corral.checkpoints.saver import Saver, Timing
from corral.checkpoints.state import load_state
from corral.checkpoints.store import Store
from corral.checkpoints.writer import About, CheckpointWriter, Shard

__all__ = [
    "About",
    "AlreadyExists",
    "Best",
    "CheckpointError",
    "CheckpointWriter",
    "Conflict",
    "CorruptCheckpoint",
    "Damaged",
    "Fenced",
    "FileEntry",
    "Finding",
    "InvalidLocation",
    "InvalidManifest",
    "InvalidPath",
    "InvalidSignature",
    "LocalStore",
    "Location",
    "Manifest",
    "NoCheckpoint",
    "NotFound",
    "PermissionDenied",
    "Plan",
    "Pruned",
    "Reason",
    "Repository",
    "Restored",
    "Retention",
    "SaveFailed",
    "Saver",
    "Scan",
    "Shard",
    "SignatureExpired",
    "SigningUnsupported",
    "Store",
    "StoreError",
    "StoreUnavailable",
    "Timing",
    "collect",
    "decode",
    "delete",
    "from_storage",
    "load_state",
    "newest_good",
    "open_store",
    "parse",
    "prune",
    "restore_files",
    "select",
]
