"""Manifests as they are pushed: what they refer to, read without trust."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

from corral.cluster.registry.errors import Refused
from corral.oci.manifest import ACCEPTED, EMPTY_CONFIG, IMAGE_INDEX, IMAGE_MANIFEST
from corral.oci.reference import is_digest

__all__ = ["IMAGE_INDEX", "Document", "read_document"]

_MOST: Final = 4096


@dataclass(frozen=True, slots=True)
class Document:
    """A manifest or an index."""

    media_type: str
    artifact_type: str
    blobs: tuple[str, ...]
    """Digests that must be there."""
    manifests: tuple[str, ...]
    """Digests that an index has."""
    subject: str
    annotations: str
    """As JSON; empty where there are none."""


def read_document(content: bytes, content_type: str) -> Document:
    """Raises Refused where it is no manifest."""
    try:
        value: Any = json.loads(content)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise _invalid("it is not a JSON object")
    given = content_type.partition(";")[0].strip()
    kind = value.get("mediaType") or given or IMAGE_MANIFEST
    if kind not in ACCEPTED:
        raise _invalid(f"its type {str(kind)[:100]!r} is not one of {', '.join(ACCEPTED)}")
    if given in ACCEPTED and given != kind:
        raise _invalid(f"it says that it is {kind}, and was sent as {given}")
    if value.get("schemaVersion") != 2:
        raise _invalid("its schemaVersion must be 2")
    annotations = value.get("annotations")
    subject = _digest(value["subject"]) if value.get("subject") else ""
    own = str(value.get("artifactType") or "")[:255]
    words = json.dumps(annotations) if isinstance(annotations, dict) and annotations else ""
    if "manifests" in value or "index" in kind or "list" in kind:
        return Document(kind, own, (), _digests(value.get("manifests")), subject, words)
    config = value.get("config")
    kept = [config, *_list(value.get("layers"))]
    # what is said to lie elsewhere need not be here
    here = tuple(
        _digest(part) for part in kept if not (isinstance(part, dict) and part.get("urls"))
    )
    config_type = str(config.get("mediaType", "")) if isinstance(config, dict) else ""
    artifact_type = own or (config_type if config_type != EMPTY_CONFIG else "")
    return Document(kind, artifact_type, here, (), subject, words)


def _list(value: Any) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list) or len(value) > _MOST:
        raise _invalid(f"its layers or manifests must be a list of at most {_MOST}")
    return value


def _digests(value: Any) -> tuple[str, ...]:
    return tuple(_digest(part) for part in _list(value))


def _digest(value: Any) -> str:
    digest = value.get("digest") if isinstance(value, dict) else None
    if not isinstance(digest, str) or not is_digest(digest):
        raise _invalid("each of its descriptors must have a SHA-256 digest")
    return digest


def _invalid(why: str) -> Refused:
    return Refused(400, "MANIFEST_INVALID", f"the manifest cannot be taken: {why}")
