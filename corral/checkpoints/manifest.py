"""The manifest: what a checkpoint consists of, and the mark that it is complete.

Layout under a repository's prefix, the same on every store::

    LATEST                              a hint
    ATTEMPT-000002                      attempt 2 has begun: older attempts must not commit
    step-000000001200.<nonce>/          one checkpoint
        <data files>
        SHARD-00000-of-00002.json       several writers: one record each, create-if-absent
        MANIFEST.json                   create-if-absent, the last object of all

A manifest is canonical JSON (sorted keys, no spaces, UTF-8) with its own SHA-256 in `digest`,
taken over the same JSON without that member. So a torn or altered manifest is known for what it
is on every store, and a checkpoint stays valid when its folder is copied to another store.
Only JSON is ever parsed; nothing here can execute what it reads.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from corral.checkpoints.errors import InvalidManifest, InvalidPath
from corral.checkpoints.paths import check_data_path, step_of

SCHEMA = "corral.dev/checkpoint/v1"
PRODUCER = "corral/0.1.0"
MANIFEST_LIMIT = 64 << 20
"""Bytes; a larger manifest is refused before it is parsed."""

_MOST_NAMES = 10_000
"""Of metrics, and of axes of a mesh."""

_ODD = (LookupError, TypeError, ValueError, AttributeError, OverflowError, InvalidPath)
"""What members that are no such raise where they are used."""

_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class FileEntry:
    """One data file of a checkpoint."""

    path: str
    """Relative to the checkpoint's folder."""
    size: int
    """The size of the file in bytes."""
    sha256: str
    """Of the whole file, lower-case hex."""
    part_size: int | None = None
    """Bytes of each part, where the file was uploaded in parts."""
    shard: int | None = None
    """The replica that wrote it; None where there is one writer."""

    def document(self) -> dict[str, Any]:
        found: dict[str, Any] = {"path": self.path, "size": self.size, "sha256": self.sha256}
        if self.part_size is not None:
            found["partSize"] = self.part_size
        if self.shard is not None:
            found["shard"] = self.shard
        return found


@dataclass(frozen=True, slots=True)
class Manifest:
    """What is known of one complete checkpoint."""

    id: str
    step: int
    time: float
    """Seconds since the epoch when the write began."""
    files: tuple[FileEntry, ...]
    attempt: int = 0
    """Of the job; a higher one fences off the lower ones."""
    sequence: int | None = None
    """Counts the checkpoints of the repository; what `keepEvery` counts by."""
    job_uid: str = ""
    kind: str = "files"
    """files (as the user wrote them), state (arrays with an index), or an engine's own."""
    framework: str = ""
    world_size: int = 1
    mesh: Mapping[str, int] = field(default_factory=dict)
    metrics: Mapping[str, float | None] = field(default_factory=dict)
    position: Any = None
    """Where the data loader stood; any JSON."""
    rng: Any = None
    """State of the random generators; any JSON."""
    parent: str | None = None
    """The checkpoint that this one builds upon, if it is incremental."""
    producer: str = PRODUCER

    @property
    def total_size(self) -> int:
        """The size of all files in bytes."""
        return sum(entry.size for entry in self.files)

    @property
    def rank(self) -> tuple[int, int, float, str]:
        """Newest last: a later attempt wins over a higher step of an earlier one."""
        return (self.attempt, self.step, self.time, self.id)

    def encode(self) -> bytes:
        """The bytes of the manifest as they are stored."""
        return seal(self.document())

    def document(self) -> dict[str, Any]:
        return {
            "schema": SCHEMA,
            "id": self.id,
            "step": self.step,
            "time": format_time(self.time),
            "attempt": self.attempt,
            "sequence": self.sequence,
            "jobUID": self.job_uid,
            "kind": self.kind,
            "framework": self.framework,
            "worldSize": self.world_size,
            "mesh": dict(self.mesh),
            "metrics": {name: finite(value) for name, value in self.metrics.items()},
            "position": self.position,
            "rng": self.rng,
            "parent": self.parent,
            "producer": self.producer,
            "files": [entry.document() for entry in self.files],
        }


def finite(value: float | None) -> float | None:
    """JSON knows no NaN and no infinity: a metric that is either is unknown."""
    return value if value is not None and math.isfinite(value) else None


def format_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds")


def canonical(document: Mapping[str, Any]) -> bytes:
    text = json.dumps(
        document, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )
    return text.encode()


def seal(document: Mapping[str, Any]) -> bytes:
    """Canonical JSON with the digest of itself."""
    digest = hashlib.sha256(canonical(document)).hexdigest()
    return canonical({**document, "digest": f"sha256:{digest}"})


def unseal(data: bytes) -> dict[str, Any]:
    """The document of sealed bytes.

    Raises:
        InvalidManifest: if it is torn, altered, or of another schema.
    """
    if len(data) > MANIFEST_LIMIT:
        raise InvalidManifest(f"the manifest has {len(data)} bytes, more than {MANIFEST_LIMIT}")
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise InvalidManifest(f"the manifest is torn: {error}") from error
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise InvalidManifest(f"this is not a manifest of schema {SCHEMA}")
    digest = document.pop("digest", None)
    try:
        actual = hashlib.sha256(canonical(document)).hexdigest()
    except (ValueError, RecursionError) as error:
        raise InvalidManifest(f"the manifest is not canonical JSON: {error}") from error
    if digest != f"sha256:{actual}":
        raise InvalidManifest("the manifest was altered: its digest does not match")
    return document


def decode(data: bytes, *, expected_id: str | None = None) -> Manifest:
    """The manifest in these bytes, checked to the last member.

    Raises:
        InvalidManifest: if anything in it is wrong.
    """
    document = unseal(data)
    try:
        manifest = _manifest(document)
    except (
        LookupError,
        TypeError,
        ValueError,
        AttributeError,
        OverflowError,
        InvalidPath,
    ) as error:
        raise InvalidManifest(f"the manifest is not well formed: {error}") from error
    if expected_id is not None and manifest.id != expected_id:
        raise InvalidManifest(f"the manifest of {manifest.id!r} lies in {expected_id!r}")
    return manifest


def _manifest(document: Mapping[str, Any]) -> Manifest:
    files = tuple(file_entry(entry) for entry in document["files"])
    if len({entry.path for entry in files}) != len(files):
        raise ValueError("two files have the same path")
    identifier = _text(document["id"])
    step = _count(document["step"])
    if step_of(identifier) != step:
        raise ValueError(f"id {identifier!r} does not fit step {step}")
    sequence = document.get("sequence")
    parent = document.get("parent")
    if len(document.get("metrics", {})) + len(document.get("mesh", {})) > _MOST_NAMES:
        raise ValueError(f"it has more than {_MOST_NAMES} metrics")
    return Manifest(
        id=identifier,
        step=step,
        time=datetime.fromisoformat(_text(document["time"])).timestamp(),
        files=files,
        attempt=_count(document.get("attempt", 0)),
        sequence=None if sequence is None else _count(sequence),
        job_uid=_text(document.get("jobUID", "")),
        kind=_text(document.get("kind", "files")),
        framework=_text(document.get("framework", "")),
        world_size=_count(document.get("worldSize", 1)),
        mesh={_text(key): _count(value) for key, value in document.get("mesh", {}).items()},
        metrics={_text(key): _number(value) for key, value in document.get("metrics", {}).items()},
        position=document.get("position"),
        rng=document.get("rng"),
        parent=None if parent is None else _text(parent),
        producer=_text(document.get("producer", "")),
    )


def file_entry(document: Mapping[str, Any]) -> FileEntry:
    """One entry of `files`.

    Raises:
        ValueError, KeyError, TypeError, InvalidPath: if it is not well formed.
    """
    digest = _text(document["sha256"])
    if not _SHA256.fullmatch(digest):
        raise ValueError(f"{digest[:80]!r} is no SHA-256")
    part, shard = document.get("partSize"), document.get("shard")
    return FileEntry(
        path=check_data_path(_text(document["path"])),
        size=_count(document["size"]),
        sha256=digest,
        part_size=None if part is None else _count(part),
        shard=None if shard is None else _count(shard),
    )


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.80} is not a string")
    return value


def _count(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 63:
        raise ValueError(f"{value!r:.80} is not a whole number >= 0")
    return value


def _number(value: object) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{value!r:.80} is not a number")
    return float(value)
