"""The manifest of a checkpoint, byte for byte as `corral.checkpoints` writes and reads it.

Canonical JSON (sorted keys, no spaces, UTF-8) with its own SHA-256 in `digest`. Whatever is read
is checked to the last member; a manifest that is torn or altered raises `InvalidManifest`.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import InvalidManifest, InvalidPath
from .names import check_data_path, is_shard_folder, step_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SCHEMA = "corral.dev/checkpoint/v1"
PRODUCER = "corral-inpod/0.1.0"
LIMIT = 64 << 20
"""Bytes; a larger manifest is refused before it is parsed."""

_SHA256 = re.compile(r"[0-9a-f]{64}")


class FileEntry(NamedTuple):
    """One data file of a checkpoint."""

    path: str
    """Relative to the checkpoint's folder."""
    size: int
    sha256: str
    part_size: int | None = None
    shard: int | None = None
    """The process that wrote it; None where there is one writer."""

    def document(self) -> dict[str, Any]:
        found: dict[str, Any] = {"path": self.path, "size": self.size, "sha256": self.sha256}
        if self.part_size is not None:
            found["partSize"] = self.part_size
        if self.shard is not None:
            found["shard"] = self.shard
        return found


class Manifest(NamedTuple):
    """What is known of one complete checkpoint."""

    id: str
    step: int
    time: float
    """Seconds since the epoch when the write began."""
    files: tuple[FileEntry, ...] = ()
    attempt: int = 0
    sequence: int | None = None
    job_uid: str = ""
    kind: str = "files"
    framework: str = ""
    world_size: int = 1
    mesh: Mapping[str, int] = {}
    metrics: Mapping[str, float | None] = {}
    position: Any = None
    rng: Any = None
    parent: str | None = None
    producer: str = PRODUCER

    @property
    def rank(self) -> tuple[int, int, float, str]:
        """Newest last: a later attempt wins over a higher step of an earlier one."""
        return (self.attempt, self.step, self.time, self.id)

    @property
    def shard_folders(self) -> tuple[str, ...]:
        """The folders of the writers, in their order; empty where there was one writer."""
        if any(entry.shard is None for entry in self.files):
            return ()
        return shard_folders(self.files)

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


def shard_folders(files: Sequence[FileEntry]) -> tuple[str, ...]:
    """The top folders of files, if these are those of a sharded checkpoint."""
    tops = {entry.path.partition("/")[0] for entry in files}
    return tuple(sorted(tops)) if tops and all(map(is_shard_folder, tops)) else ()


def finite(value: float | None) -> float | None:
    """JSON knows no NaN and no infinity: a metric that is either is unknown."""
    return value if value is not None and math.isfinite(value) else None


def format_time(seconds: float) -> str:
    # `datetime.UTC` is younger than the Python of many images.
    when = datetime.fromtimestamp(seconds, timezone.utc)  # noqa: UP017
    return when.isoformat(timespec="microseconds")


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
    if len(data) > LIMIT:
        raise InvalidManifest(f"the manifest has {len(data)} bytes, more than {LIMIT}")
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
    """The manifest in these bytes.

    Raises:
        InvalidManifest: if anything in it is wrong.
    """
    document = unseal(data)
    try:
        manifest = _manifest(document)
    except (AttributeError, KeyError, TypeError, ValueError, InvalidPath) as error:
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
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{value!r:.80} is not a number")
    return float(value)
