"""Artifacts in OCI registries, by the distribution API: a leaf package, no Kubernetes in it.

    async with Artifacts(Registries({"registry.corral.local": Endpoint(url)})) as artifacts:
        pushed = await artifacts.push(ref, [Layer("application/wasm", path)], artifact_type="…")
        manifest = await artifacts.manifest(pushed.reference)
        await artifacts.fetch(pushed.reference, manifest.layers[0], target)

Guaranteed:

- What is read is what its digest stands for, or an error; a file appears only when it is verified.
- Memory does not grow with the size of a layer that comes from or goes to a file or a stream.
- Uploads and downloads that break are gone on with from where they were; what is sent twice is
  only what does no harm twice. Everything that comes in has a limit.
- Who we are is told to the registry and to its token service over TLS, and to nobody else.

Read next: `reference` for names, `registries` for which server a name stands for, `errors`.
"""

from typing import TYPE_CHECKING, Any

from corral.oci.credentials import Credentials, Login, docker_config
from corral.oci.errors import (
    Denied,
    DigestMismatch,
    InvalidArtifact,
    InvalidReference,
    NotFound,
    RegistryError,
    TooLarge,
    Unavailable,
)
from corral.oci.manifest import Descriptor, Layer, Manifest
from corral.oci.reference import Reference
from corral.oci.registries import OWN, Endpoint, Registries, endpoints
from corral.oci.settings import ClientSettings

if TYPE_CHECKING:
    from corral.oci.artifacts import Artifacts, Pushed

__all__ = [
    "OWN",
    "Artifacts",
    "ClientSettings",
    "Credentials",
    "Denied",
    "Descriptor",
    "DigestMismatch",
    "Endpoint",
    "InvalidArtifact",
    "InvalidReference",
    "Layer",
    "Login",
    "Manifest",
    "NotFound",
    "Pushed",
    "Reference",
    "Registries",
    "RegistryError",
    "TooLarge",
    "Unavailable",
    "docker_config",
    "endpoints",
]


def __getattr__(name: str) -> Any:
    """The client itself, which needs HTTP, is loaded when it is first used."""
    if name in ("Artifacts", "Pushed"):
        from corral.oci import artifacts

        return getattr(artifacts, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
