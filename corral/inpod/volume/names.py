"""Names inside a folder of checkpoints, and which names are refused.

The layout is that of `corral.checkpoints`; this package repeats it so that it can be copied into
an image alone. Paths that were read from a manifest are checked before they are used.
"""

from __future__ import annotations

import hashlib
import re

from ..errors import InvalidPath

MANIFEST = "MANIFEST.json"
"""Written last and only once: its presence makes a checkpoint."""
DELETED = "DELETED.json"
"""Written before a checkpoint is deleted, removed last."""
QUARANTINED = "QUARANTINED.json"
"""Written when a checkpoint was found corrupt; readers skip it."""
LATEST = "LATEST"
"""A hint beside the checkpoints, never the truth."""
TEMPORARY = ".tmp-"
"""Files with this beginning are unfinished and belong to nobody."""
SAVING = ".saving-"
"""Folders with this beginning are checkpoints in the making."""

_IDENTIFIER = re.compile(r"step-(\d{1,18})\.([0-9A-Za-z][0-9A-Za-z-]{0,63})")
_SHARD = re.compile(r"SHARD-(\d{5})-of-(\d{5})\.json")
_SHARD_FOLDER = re.compile(r"shard-(\d{5})-[0-9A-Za-z-]+")
_CLAIM = re.compile(r"ATTEMPT-(\d{1,12})")
_SAVING = re.compile(r"\.saving-(\d+)-[0-9a-f]+")
_LONGEST = 900


def checkpoint_id(step: int, nonce: str) -> str:
    """The folder of a checkpoint: padded so that names sort as steps do."""
    name = f"step-{step:012d}.{nonce}"
    if step < 0 or not _IDENTIFIER.fullmatch(name):
        raise InvalidPath(f"no checkpoint can be named {name!r}: use a step >= 0")
    return name


def shared_nonce(job_uid: str, attempt: int, step: int) -> str:
    """The nonce that all replicas of one attempt derive alike, without talking to each other."""
    return hashlib.sha256(f"{job_uid}\n{attempt}\n{step}".encode()).hexdigest()[:32]


def step_of(identifier: str) -> int | None:
    """The step in a checkpoint's name; None if it is not such a name."""
    match = _IDENTIFIER.fullmatch(identifier)
    return int(match.group(1)) if match else None


def shard_record(index: int, count: int) -> str:
    return f"SHARD-{index:05d}-of-{count:05d}.json"


def shard_of(name: str) -> tuple[int, int] | None:
    """Index and count in the name of a shard's record."""
    match = _SHARD.fullmatch(name)
    return (int(match.group(1)), int(match.group(2))) if match else None


def shard_folder(index: int, nonce: str) -> str:
    return f"shard-{index:05d}-{nonce}"


def is_shard_folder(name: str) -> bool:
    return _SHARD_FOLDER.fullmatch(name) is not None


def claim(attempt: int) -> str:
    return f"ATTEMPT-{attempt:06d}"


def claimed_attempt(name: str) -> int | None:
    match = _CLAIM.fullmatch(name)
    return int(match.group(1)) if match else None


def saving_folder(attempt: int, nonce: str) -> str:
    return f"{SAVING}{attempt}-{nonce}"


def saving_attempt(name: str) -> int | None:
    match = _SAVING.fullmatch(name)
    return int(match.group(1)) if match else None


def is_reserved(path: str) -> bool:
    """Whether a name at the top of a checkpoint belongs to the protocol."""
    return path in (MANIFEST, DELETED, QUARANTINED) or shard_of(path) is not None


def check_data_path(path: str) -> str:
    """The path itself, if it stays inside its checkpoint and is not one of the records.

    Raises:
        InvalidPath: for anything else.
    """
    parts = path.split("/")
    if not path or any(part in ("", ".", "..") for part in parts):
        raise InvalidPath(f"path {path!r} must be relative and without empty, '.' or '..' parts")
    if "\\" in path or any(ord(char) < 32 or ord(char) == 127 for char in path):
        raise InvalidPath(f"path {path!r} holds a backslash or a control character")
    if any(0xD800 <= ord(char) <= 0xDFFF for char in path):
        raise InvalidPath(f"path {path!r} is not valid Unicode")
    if len(path.encode()) > _LONGEST or any(len(part.encode()) > 255 for part in parts):
        raise InvalidPath(f"path {path[:60]!r}... is too long: {_LONGEST} bytes, 255 a part")
    if is_reserved(path):
        raise InvalidPath(f"path {path!r} is reserved for the checkpoint's own records")
    return path
