"""Where models and updates are in a registry, and as whom they are reached.

A model is an artifact ``<registry>/<namespace>/<job>/models:round-<n>``: one layer with the model
in the format of the updates, and a second with the state of the server's optimiser where it has
one. Its bytes depend on what it is alone: pushing it again makes the same digest.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from corral.egress.policy import EgressPolicy
from corral.families.federated.learning import LearningSettings
from corral.kube import errors
from corral.kube.client import KubeClient
from corral.kube.resources import SECRETS
from corral.oci import (
    ClientSettings,
    Credentials,
    Descriptor,
    InvalidReference,
    Layer,
    Manifest,
    Reference,
    Registries,
    RegistryError,
    docker_config,
)

if TYPE_CHECKING:
    from corral.oci import Artifacts

__all__ = [
    "ARTIFACT",
    "MODEL",
    "STATE",
    "NoRegistry",
    "Places",
    "Stored",
    "model_layers",
    "stored_model",
]

ARTIFACT: Final = "application/vnd.corral.model.v1"
MODEL: Final = "application/vnd.corral.model.v1+"
"""Followed by the format."""
STATE: Final = "application/vnd.corral.state.v1+"
ANNOTATION: Final = "dev.corral.model."


class NoRegistry(RegistryError):
    """Nobody has said where models are kept."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A model as a registry has it."""

    reference: Reference
    """With its digest."""
    format: str
    model: Descriptor
    state: Descriptor | None


def stored_model(reference: Reference, manifest: Manifest) -> Stored | None:
    """The model in an artifact; none where it is something else."""
    model = next((one for one in manifest.layers if one.media_type.startswith(MODEL)), None)
    if model is None:
        return None
    state = next((one for one in manifest.layers if one.media_type.startswith(STATE)), None)
    format_ = model.media_type.removeprefix(MODEL)
    return Stored(reference.with_digest(manifest.digest), format_, model, state)


def model_layers(model: Path, *, format: str, state: Path | None, state_format: str) -> list[Layer]:
    """The layers of a model."""
    layers = [Layer(f"{MODEL}{format}", model)]
    if state is not None:
        layers.append(Layer(f"{STATE}{state_format}", state))
    return layers


def model_annotations(facts: Mapping[str, Any]) -> dict[str, str]:
    """What is said about a model in its manifest; the same facts make the same text."""
    return {
        f"{ANNOTATION}{key}": value
        if isinstance(value, str)
        else json.dumps(value, sort_keys=True, separators=(",", ":"))
        for key, value in facts.items()
    }


class Places:
    """Repositories of jobs, and clients that may use them."""

    def __init__(self, client: KubeClient, settings: LearningSettings) -> None:
        self._client = client
        self._settings = settings
        given = settings.client or ClientSettings()
        home = self._home()
        # jobs name registries: beside ours and the mapped ones, only what the policy permits
        policy = (given.egress or EgressPolicy()).allowing(home.registry if home else "")
        self._calls = replace(given, egress=policy)

    def repository(self, own: str, namespace: str, job: str, what: str) -> Reference:
        """The repository of a job's ``models`` or ``updates``; ``own`` is what the job says.

        Raises:
            NoRegistry: neither the job nor the operator has one.
            InvalidReference: what they have is none.
        """
        base = own or self._settings.registry
        if not base:
            raise NoRegistry(
                "there is no registry for models: set spec.registry.repository, or run the "
                "operator with --registry"
            )
        if own:
            self._check_own(own, namespace)
        return Reference.parse(f"{base.rstrip('/')}/{namespace}/{job}/{what}")

    def _check_own(self, own: str, namespace: str) -> None:
        """In a registry where the operator is known, a job has its own namespace and no other."""
        named = Reference.parse(f"{own.rstrip('/')}/{namespace}")
        if not self.knows(named.registry) or own.rstrip("/") == self._settings.registry.rstrip("/"):
            return
        if named.repository.partition("/")[0] != namespace:
            raise InvalidReference(
                f"spec.registry.repository {own} is not of this namespace: in {named.registry} it "
                f"must begin with oci://{named.registry}/{namespace}"
            )

    def knows(self, registry: str) -> bool:
        """Whether the operator is somebody in a registry: it reads and writes there as itself."""
        home = self._home()
        known = home is not None and registry == home.registry
        return known or registry in self._settings.registries

    def within(self, reference: Reference) -> str:
        """The repository of a reference, below the operator's own place where it is there."""
        home = self._home()
        if home is None or home.registry != reference.registry:
            return reference.repository
        return reference.repository.removeprefix(home.repository.removesuffix("any"))

    def _home(self) -> Reference | None:
        base = self._settings.registry.rstrip("/")
        return Reference.parse(f"{base}/any") if base else None

    def update(self, text: str, *, own: str, namespace: str) -> Reference:
        """The artifact of an update, if it is one that is read for this namespace.

        Raises:
            InvalidReference: it is not.
        """
        reference = Reference.parse(text)
        if not reference.digest:
            raise InvalidReference("update_ref has no digest: it must end in @sha256:…")
        base = Reference.parse(f"{(own or self._settings.registry).rstrip('/')}/{namespace}")
        if reference.registry == base.registry:
            if not reference.repository.startswith(f"{base.repository}/"):
                raise InvalidReference(f"update_ref is not below oci://{base.name}/")
        elif reference.registry not in self._settings.registries:
            raise InvalidReference(
                f"update_ref is in {reference.registry}, which is no registry of this operator"
            )
        elif self.within(reference).partition("/")[0] != namespace:
            # it is read there as the operator, who may read other namespaces' too
            place = f"oci://{reference.registry}/{namespace}/"
            raise InvalidReference(f"update_ref is not below {place}")
        return reference

    async def open(self, namespace: str, secret: str) -> Artifacts:
        """A client of registries, with the credentials of a Secret; close it.

        Raises:
            RegistryError: the Secret cannot be used.
        """
        from corral.oci import Artifacts

        credentials = await self._credentials(namespace, secret) if secret else Credentials()
        registries = Registries(self._settings.registries, credentials)
        return Artifacts(registries, settings=self._calls)

    async def _credentials(self, namespace: str, secret: str) -> Credentials:
        try:
            found = await self._client.get(SECRETS, secret, namespace=namespace)
        except errors.NotFound:
            raise RegistryError(
                f"there is no Secret {secret} with the credentials of the registry"
            ) from None
        return docker_config(found.get("data") or {})
