"""Accounts of clouds, opened when they are needed and shared by all who need the same."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from corral.api.spot_vm import LocalMachine, SpotInstanceVMSpec
from corral.clouds.base import CloudProvider
from corral.clouds.errors import AccountRefused, BadRequest, Scope
from corral.controllers.spot.local_vms import open_local
from corral.controllers.spot.machines_requests import machine_of, options_of
from corral.controllers.spot.machines_settings import MachineSettings
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
        """``closing`` is called with an account whose credentials there are newer ones of."""
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
        credentials = await self._credentials(reference, namespace)
        options = {**self._settings.cloud_options.get(cloud, {}), **options_of(machine)}
        key = _key(cloud, options, credentials)
        if key not in self._open:
            from corral.clouds.opening import open_provider

            self._open[key] = open_provider(cloud, options, credentials)
        await self._replace(
            _key(cloud, options, {"namespace": namespace, **(reference or {})}), key
        )
        return self._open[key]

    async def _replace(self, words: str, key: str) -> None:
        """Close what the same words meant before, unless others mean it too."""
        old = self._newest.get(words)
        self._newest[words] = key
        if old is None or old == key or old in self._newest.values():
            return
        provider = self._open.pop(old, None)
        if provider is not None:
            if self._closing is not None:
                await self._closing(provider)
            await provider.close()

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
