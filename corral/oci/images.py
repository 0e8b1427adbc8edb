"""Images of one layer: what a container runtime can pull, made of a tar file."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from corral.oci.artifacts import Artifacts, Pushed
from corral.oci.blobs import Blob
from corral.oci.manifest import Layer
from corral.oci.reference import Reference

__all__ = ["IMAGE_CONFIG", "TAR_LAYER", "push_image"]

IMAGE_CONFIG: Final = "application/vnd.oci.image.config.v1+json"
TAR_LAYER: Final = "application/vnd.oci.image.layer.v1.tar"
_MACHINES: Final = {"x86_64": "amd64", "aarch64": "arm64"}


async def push_image(
    artifacts: Artifacts,
    reference: Reference,
    layer: Path,
    *,
    created: float,
    annotations: Mapping[str, str] | None = None,
) -> Pushed:
    """Store an image whose only layer is a tar file; the same file at the same time is the same.

    Args:
        artifacts: the client.
        reference: with the tag that it gets.
        layer: the tar file, which must not change meanwhile.
        created: seconds since the epoch.
        annotations: of the manifest; they are labels of the image too.

    Raises:
        RegistryError: it could not be stored.
    """
    blob = await Blob.of(layer)
    when = datetime.fromtimestamp(created, UTC).isoformat(timespec="seconds")
    config = {
        "created": when.replace("+00:00", "Z"),
        "architecture": _MACHINES.get(platform.machine(), platform.machine()),
        "os": "linux",
        "config": {"Labels": dict(annotations or {})},
        # a layer that is not compressed has one digest for both of its forms
        "rootfs": {"type": "layers", "diff_ids": [blob.digest]},
        "history": [{"created": when.replace("+00:00", "Z"), "created_by": "corral"}],
    }
    return await artifacts.push(
        reference,
        [Layer(TAR_LAYER, layer)],
        artifact_type="",
        annotations=annotations,
        config=json.dumps(config, sort_keys=True, separators=(",", ":")).encode(),
        config_media_type=IMAGE_CONFIG,
    )
