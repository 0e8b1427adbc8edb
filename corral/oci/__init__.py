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

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from corral.oci.artifacts import Artifacts, Pushed
    from corral.oci.credentials import Credentials, Login, docker_config, secret_logins
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
    from corral.oci.images import push_image
    from corral.oci.manifest import Descriptor, Layer, Manifest
    from corral.oci.own import OWN
    from corral.oci.reference import Reference
    from corral.oci.registries import Endpoint, Registries, endpoints
    from corral.oci.settings import ClientSettings

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
    "push_image",
    "secret_logins",
]


_HOMES: Final = {
    "artifacts": "Artifacts Pushed",
    "credentials": "Credentials Login docker_config secret_logins",
    "errors": "Denied DigestMismatch InvalidArtifact InvalidReference NotFound RegistryError "
    "TooLarge Unavailable",
    "images": "push_image",
    "manifest": "Descriptor Layer Manifest",
    "own": "OWN",
    "reference": "Reference",
    "registries": "Endpoint Registries endpoints",
    "settings": "ClientSettings",
}
_HOME_OF: Final = {name: home for home, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    """Names are loaded when they are first used: who needs a reference needs no HTTP."""
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value
