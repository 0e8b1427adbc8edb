"""Manifests: what an artifact consists of. Read with limits, written the same every time."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from corral.egress.reading import load_json
from corral.oci.errors import DigestMismatch, InvalidArtifact
from corral.oci.reference import is_digest

__all__ = [
    "ACCEPTED",
    "EMPTY_CONFIG",
    "IMAGE_INDEX",
    "IMAGE_MANIFEST",
    "Descriptor",
    "Index",
    "Layer",
    "Manifest",
    "digest_of",
    "encode",
    "parse",
]

IMAGE_MANIFEST: Final = "application/vnd.oci.image.manifest.v1+json"
IMAGE_INDEX: Final = "application/vnd.oci.image.index.v1+json"
DOCKER_MANIFEST: Final = "application/vnd.docker.distribution.manifest.v2+json"
DOCKER_LIST: Final = "application/vnd.docker.distribution.manifest.list.v2+json"
ACCEPTED: Final = (IMAGE_MANIFEST, IMAGE_INDEX, DOCKER_MANIFEST, DOCKER_LIST)
EMPTY_CONFIG: Final = "application/vnd.oci.empty.v1+json"

_MOST_PARTS: Final = 4096
"""Layers of a manifest, or manifests of an index."""


def digest_of(content: bytes | memoryview) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


@dataclass(frozen=True, slots=True)
class Descriptor:
    """Some bytes that a registry holds."""

    media_type: str
    digest: str
    size: int
    annotations: Mapping[str, str] = field(default_factory=dict)
    platform: str = ""
    """The platform as ``os/architecture``; only in an index."""


@dataclass(frozen=True, slots=True)
class Layer:
    """Some bytes to be stored: in memory, or a file that must not change meanwhile."""

    media_type: str
    source: bytes | Path
    annotations: Mapping[str, str] = field(default_factory=dict)
    mount_from: str = ""
    """A repository of the same registry that may have them already."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """An artifact: its layers and what is said about them."""

    digest: str
    artifact_type: str
    """Where the manifest does not say it, the media type of the config."""
    annotations: Mapping[str, str]
    layers: Sequence[Descriptor]
    config: Descriptor
    media_type: str = IMAGE_MANIFEST
    raw: bytes = field(default=b"", repr=False)

    @property
    def size(self) -> int:
        """The size of all layers in bytes."""
        return sum(layer.size for layer in self.layers)


@dataclass(frozen=True, slots=True)
class Index:
    """Several manifests under one name, as for several platforms."""

    digest: str
    manifests: Sequence[Descriptor]
    media_type: str = IMAGE_INDEX
    raw: bytes = field(default=b"", repr=False)

    def choose(self, platform: str) -> Descriptor:
        """That of a platform; where none is asked for, the only one.

        Raises:
            InvalidArtifact: there is not exactly one.
        """
        found = [one for one in self.manifests if not platform or one.platform == platform]
        if len(found) == 1:
            return found[0]
        offered = ", ".join(sorted({one.platform or "any" for one in self.manifests})) or "nothing"
        raise InvalidArtifact(
            f"the index {self.digest} has {len(found)} manifests for {platform or 'any platform'}, "
            f"and one is wanted (it has {offered}): name one by its digest"
        )


def encode(
    *,
    config: Descriptor,
    layers: Sequence[Descriptor],
    artifact_type: str,
    annotations: Mapping[str, str],
) -> bytes:
    """The bytes of a manifest; the same things make the same bytes."""
    content: dict[str, Any] = {
        "schemaVersion": 2,
        "mediaType": IMAGE_MANIFEST,
        **({"artifactType": artifact_type} if artifact_type else {}),
        "config": _written(config),
        "layers": [_written(layer) for layer in layers],
    }
    if annotations:
        content["annotations"] = dict(sorted(annotations.items()))
    return json.dumps(content, separators=(",", ":")).encode()


def _written(descriptor: Descriptor) -> dict[str, Any]:
    content: dict[str, Any] = {
        "mediaType": descriptor.media_type,
        "digest": descriptor.digest,
        "size": descriptor.size,
    }
    if descriptor.annotations:
        content["annotations"] = dict(sorted(descriptor.annotations.items()))
    return content


def parse(raw: bytes, *, expected: str = "", content_type: str = "") -> Manifest | Index:
    """Read a manifest or an index.

    Raises:
        DigestMismatch: it is not the one that was asked for.
        InvalidArtifact: it is malformed, or of a kind that nobody reads here.
    """
    digest = digest_of(raw)
    if expected and digest != expected:
        raise DigestMismatch(
            f"the registry answered with the manifest {digest} when {expected} was asked for: "
            "it is damaged there or on the way; push it again"
        )
    try:
        content = load_json(raw)
    except ValueError:
        raise InvalidArtifact(f"the manifest {digest} is not JSON") from None
    if not isinstance(content, dict):
        raise InvalidArtifact(f"the manifest {digest} is not a JSON object")
    kind = str(content.get("mediaType") or content_type.partition(";")[0].strip())
    if kind in (IMAGE_INDEX, DOCKER_LIST):
        return Index(digest, _descriptors(content, "manifests", digest), kind, raw)
    if kind not in (IMAGE_MANIFEST, DOCKER_MANIFEST):
        raise InvalidArtifact(
            f"the manifest {digest} is of the type {kind!r}: only OCI images, artifacts and "
            "indexes, and Docker's version 2, can be read"
        )
    config = _descriptor(content.get("config"), digest)
    return Manifest(
        digest=digest,
        artifact_type=str(content.get("artifactType") or config.media_type),
        annotations=_strings(content.get("annotations")),
        layers=_descriptors(content, "layers", digest),
        config=config,
        media_type=kind,
        raw=raw,
    )


def _descriptors(content: dict[str, Any], key: str, digest: str) -> tuple[Descriptor, ...]:
    values = content.get(key) or []
    if not isinstance(values, list) or len(values) > _MOST_PARTS:
        raise InvalidArtifact(f"the manifest {digest} has no list of at most {_MOST_PARTS} {key}")
    return tuple(_descriptor(value, digest) for value in values)


def _descriptor(value: Any, digest: str) -> Descriptor:
    if not isinstance(value, dict):
        raise InvalidArtifact(f"the manifest {digest} has a descriptor that is no object")
    size, own = value.get("size"), str(value.get("digest", ""))
    if not isinstance(size, int) or isinstance(size, bool) or size < 0 or not is_digest(own):
        raise InvalidArtifact(
            f"the manifest {digest} has a descriptor without a size or a SHA-256 digest"
        )
    return Descriptor(
        str(value.get("mediaType", "")),
        own,
        size,
        _strings(value.get("annotations")),
        _platform(value.get("platform")),
    )


def _platform(value: Any) -> str:
    if not isinstance(value, dict):
        return ""
    return f"{value.get('os', '')}/{value.get('architecture', '')}"


def _strings(value: Any) -> dict[str, str]:
    if not isinstance(value, dict):
        return {}
    return {str(key): str(item) for key, item in value.items()}
