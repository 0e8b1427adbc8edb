"""Images of backups in registries: whose they are, how they are stored, and how they go.

The operator's own identity opens the cluster's own registry, and there only repositories of the
backup's namespace: a backup is no way to write where its author may not. Elsewhere the login is
that of the Secret which the backup names, of its own namespace or of one that is for everybody.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from corral.api.spot.backup import CheckpointBackupSpec
from corral.egress.policy import EgressPolicy
from corral.families.spot.backups.engines import BackupError
from corral.kube.client import KubeClient
from corral.kube.errors import NotFound
from corral.kube.resources import SECRETS
from corral.oci.credentials import Credentials, secret_logins
from corral.oci.errors import NotFound as NoSuchImage
from corral.oci.errors import RegistryError
from corral.oci.reference import Reference
from corral.oci.registries import Registries, endpoints
from corral.oci.settings import ClientSettings

if TYPE_CHECKING:
    from corral.oci import Pushed

__all__ = ["Images"]

SHARED: Final = ("stateful-migration",)
"""Namespaces whose Secrets serve everybody: that of the operator which defined the kind."""


class Images:
    """Stores and removes images of backups."""

    def __init__(
        self,
        client: KubeClient,
        *,
        registry_map: Sequence[str] = (),
        token: Callable[[], str] | None = None,
        shared: Sequence[str] = SHARED,
        egress: EgressPolicy | None = None,
    ) -> None:
        """``egress``: which registries are called beside those of the map; None: public ones."""
        self._client = client
        self._calls = ClientSettings(egress=egress or EgressPolicy())
        self._mapping = endpoints(registry_map, token=token)
        self._shared = tuple(shared)

    def reference(self, text: str, namespace: str) -> Reference:
        """The name of an image that a backup of this namespace may write.

        Raises:
            BackupError: it may not, or it is no name.
        """
        try:
            found = Reference.parse(text)
        except RegistryError as error:
            raise BackupError(str(error)) from error
        endpoint = self._mapping.get(found.registry)
        own = endpoint is not None and endpoint.token is not None
        if own and found.repository.partition("/")[0] != namespace:
            raise BackupError(
                f"{text}: backups of namespace {namespace} are kept below "
                f"{found.registry}/{namespace}/ in the cluster's own registry"
            )
        return found

    async def check(self, text: str, *, spec: CheckpointBackupSpec, namespace: str) -> None:
        """Whether an image may be stored, and the login is there; before anything is saved.

        Raises:
            BackupError: it may not, or the Secret is not good.
        """
        try:
            await self._registries(spec, namespace, self.reference(text, namespace))
        except RegistryError as error:
            raise BackupError(str(error)) from error

    async def push(
        self,
        text: str,
        layer: Path,
        *,
        spec: CheckpointBackupSpec,
        namespace: str,
        created: float,
        notes: Mapping[str, str],
    ) -> Pushed:
        """Store an image.

        Raises:
            BackupError: it may not be stored there, or could not.
        """
        from corral.oci import Artifacts, push_image

        reference = self.reference(text, namespace)
        try:
            registries = await self._registries(spec, namespace, reference)
            async with Artifacts(registries, settings=self._calls) as artifacts:
                return await push_image(
                    artifacts, reference, layer, created=created, annotations=notes
                )
        except RegistryError as error:
            raise BackupError(f"{text} could not be stored: {error}") from error

    async def delete(self, text: str, *, spec: CheckpointBackupSpec, namespace: str) -> None:
        """Remove an image; one that is gone is no error.

        Raises:
            BackupError: it could not be removed.
        """
        from corral.oci import Artifacts

        reference = self.reference(text, namespace)
        try:
            registries = await self._registries(spec, namespace, reference)
            async with Artifacts(registries, settings=self._calls) as artifacts:
                await artifacts.delete(reference)
        except NoSuchImage:
            return
        except RegistryError as error:
            raise BackupError(f"{text} could not be removed: {error}") from error

    def secret(self, spec: CheckpointBackupSpec, namespace: str) -> tuple[str, str] | None:
        """Namespace and name of the Secret with the login.

        Raises:
            BackupError: it is of a namespace that is not the backup's business.
        """
        named = spec.credentials
        if named is None:
            return None
        name, where = named
        if where and where != namespace and where not in self._shared:
            raise BackupError(
                f"the Secret {where}/{name} is of another namespace: name one of {namespace}"
            )
        return where or namespace, name

    async def _registries(
        self, spec: CheckpointBackupSpec, namespace: str, reference: Reference
    ) -> Registries:
        found = self.secret(spec, namespace)
        if found is None:
            return Registries(self._mapping, Credentials())
        where, name = found
        try:
            secret = await self._client.get(SECRETS, name, namespace=where)
        except NotFound as error:
            raise BackupError(f"there is no Secret {where}/{name} with the login") from error
        return Registries(
            self._mapping, secret_logins(secret.get("data") or {}, reference.registry)
        )
