"""Accounts of clouds, opened when they are needed and shared by all who need the same.

An account lives as long as an object names it (`keep`): then its connections are closed and nobody
asks it any more. The operator's own identity is used where its settings lend it, never because a
job names no Secret, or one without keys.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any

from corral.api.spot.vm import LocalMachine, Machine, SpotInstanceVMSpec
from corral.clouds.base import CloudProvider
from corral.clouds.errors import AccountRefused, BadRequest, Scope
from corral.families.spot.machines.local_vms import open_local
from corral.families.spot.machines.requests import account_of, machine_of, options_of
from corral.families.spot.machines.settings import MachineSettings
from corral.kube.client import KubeClient
from corral.kube.errors import NotFound
from corral.kube.resources import NAMESPACES, SECRETS
from corral.kube.types import Obj

__all__ = ["Providers"]


class Providers:
    """All accounts of one operator."""

    def __init__(
        self,
        client: KubeClient,
        settings: MachineSettings,
        *,
        closing: Callable[[CloudProvider], Awaitable[None]] | None = None,
    ) -> None:
        """``closing`` is called with an account before it is closed."""
        self._client = client
        self._closing = closing
        self._settings = settings
        self._open: dict[str, CloudProvider] = {}
        """By cloud, options and credentials."""
        self._newest: dict[str, str] = {}
        """Key of the account, by the words that mean it."""
        self._known: dict[tuple[str, str], Mapping[str, str]] = {}
        """What Secrets held last: machines must go though their Secret went first."""
        self._owner = settings.owner

    async def owner(self) -> str:
        """Which installation machines belong to: one for each cluster. Raises ApiError."""
        if not self._owner:
            found = await self._client.get(NAMESPACES, "kube-system")
            self._owner = f"corral-{found['metadata']['uid']}"
        return self._owner

    async def open(
        self, cloud: str, spec: SpotInstanceVMSpec, reference: Obj | None, namespace: str
    ) -> CloudProvider:
        """The account that a SpotInstanceVM and a job's Secret mean.

        Raises:
            CloudError: it cannot be opened, and why.
            ApiError: the Secret cannot be read.
        """
        machine = machine_of(spec, cloud)
        if isinstance(machine, LocalMachine):
            return self._local(machine)
        own = not (reference or {}).get("name")
        if own and not self._is_lent(cloud, account_of(machine), namespace):
            raise AccountRefused(
                f"the operator's own identity is not lent to namespace {namespace} for {cloud}: "
                "name a Secret with the cloud's credentials (spec.credentialsSecretRef)",
                scope=Scope.CLOUD,
            )
        credentials = await self._credentials(reference, namespace)
        options = self._options(cloud, machine)
        key = _key(cloud, options, credentials)
        if key not in self._open:
            from corral.clouds.opening import open_provider

            self._open[key] = open_provider(
                cloud, options, credentials, egress=self._settings.egress, own_identity=own
            )
        await self._replace(self.words(cloud, spec, reference, namespace), key)
        return self._open[key]

    def _options(self, cloud: str, machine: Machine) -> dict[str, Any]:
        return {**self._settings.cloud_options.get(cloud, {}), **options_of(machine)}

    def _is_lent(self, cloud: str, account: str, namespace: str) -> bool:
        for rule in self._settings.lent:
            whose, _, what = rule.partition("=")
            named, colon, wanted = what.partition(":")
            if whose in ("*", namespace) and named == cloud and (not colon or wanted == account):
                return True
        return False

    def words(
        self, cloud: str, spec: SpotInstanceVMSpec, reference: Obj | None, namespace: str
    ) -> str:
        """What an object says when it means an account; for `keep`. Raises BadRequest."""
        options = self._options(cloud, machine_of(spec, cloud))
        named = {"namespace": namespace, "name": (reference or {}).get("name") or ""}
        return _key(cloud, options, named)

    async def keep(self, words: Collection[str], secrets: Collection[tuple[str, str]]) -> None:
        """Close every account that none of these words means, and forget other Secrets."""
        for gone in [each for each in self._newest if each not in words]:
            del self._newest[gone]
        for gone_secret in [each for each in self._known if each not in secrets]:
            del self._known[gone_secret]
        meant = set(self._newest.values())
        for key in [each for each in self._open if each not in meant]:
            if self._open[key].name != "local":  # it calls nobody, and is searched for lost ones
                await self._end(self._open.pop(key))

    async def _end(self, provider: CloudProvider) -> None:
        if self._closing is not None:
            await self._closing(provider)
        await provider.close()

    async def _replace(self, words: str, key: str) -> None:
        """Close what the same words meant before, unless others mean it too."""
        old = self._newest.get(words)
        self._newest[words] = key
        if old is None or old == key or old in self._newest.values():
            return
        provider = self._open.pop(old, None)
        if provider is not None:
            await self._end(provider)

    def _local(self, machine: LocalMachine) -> CloudProvider:
        local = self._settings.local
        if local is None:
            raise BadRequest("this operator has no machines of its own: start it with --local-vms")
        key = _key("local", machine.model_dump(), {})
        if key not in self._open:
            try:
                self._open[key] = open_local(local, machine, self._client.config)
            except OSError as error:
                raise BadRequest(f"cannot keep machines in {local.folder}: {error}") from error
        return self._open[key]

    async def _credentials(self, reference: Obj | None, namespace: str) -> Mapping[str, str]:
        name = (reference or {}).get("name") or ""
        if not name:
            return {}
        where = (reference or {}).get("namespace") or namespace
        if where != namespace:
            # else whoever may write a job could use what only others may read
            raise AccountRefused(
                f"the Secret {where}/{name} is not in the job's namespace: copy it to {namespace}",
                scope=Scope.CLOUD,
            )
        try:
            secret = await self._client.get(SECRETS, name, namespace=namespace)
        except NotFound:
            known = self._known.get((namespace, name))
            if known is None:
                raise AccountRefused(
                    f"there is no Secret {name} in {namespace}: make it with the cloud's "
                    "credentials",
                    scope=Scope.CLOUD,
                ) from None
            return known
        data = {
            key: base64.b64decode(value).decode(errors="replace")
            for key, value in (secret.get("data") or {}).items()
        }
        self._known[namespace, name] = data
        return data

    async def close(self) -> None:
        """Give all of them back."""
        while self._open:
            _, provider = self._open.popitem()
            await provider.close()


def _key(cloud: str, options: Mapping[str, Any], credentials: Mapping[str, str]) -> str:
    text = json.dumps([cloud, options, credentials], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()
