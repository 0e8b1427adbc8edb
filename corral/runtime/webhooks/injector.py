"""Writes the certificate authorities into everything that must trust them.

That is every webhook configuration, and every definition with a conversion webhook, that carries
`INJECT_LABEL` with the name of our Secret. What somebody overwrites is written again at once. Every
replica does this; a write is bound to the version that was looked at, and before a write the shared
certificates are read afresh, so that none of them writes what is out of date.
"""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import Iterator

from corral.kube.client import KubeClient
from corral.kube.connection.transport import KubeConnectionError
from corral.kube.errors import ApiError, Conflict, Forbidden, Invalid, NotFound
from corral.kube.resources import (
    CUSTOMRESOURCEDEFINITIONS,
    MUTATINGWEBHOOKCONFIGURATIONS,
    VALIDATINGWEBHOOKCONFIGURATIONS,
    Resource,
)
from corral.kube.types import Obj
from corral.runtime.informers.informer import Change, Informer
from corral.runtime.informers.reflector import Scope
from corral.runtime.keys import version_of
from corral.runtime.webhooks.configurations import INJECT_LABEL
from corral.runtime.webhooks.keeper import Certificates

__all__ = ["CaInjector"]

logger = logging.getLogger(__name__)
_TARGETS = (
    MUTATINGWEBHOOKCONFIGURATIONS,
    VALIDATINGWEBHOOKCONFIGURATIONS,
    CUSTOMRESOURCEDEFINITIONS,
)


class CaInjector:
    """Keeps the bundles of labelled objects up to date."""

    def __init__(
        self,
        client: KubeClient,
        keeper: Certificates,
        *,
        label: str,
        again_every: float = 300.0,
    ) -> None:
        """``label`` is the value of `INJECT_LABEL`; ``again_every`` seconds all are looked at."""
        self._client, self._keeper = client, keeper
        self._again_every = again_every
        self._wake = asyncio.Event()
        selector = f"{INJECT_LABEL}={label}"
        self.informers = [
            Informer(client, Scope(resource, None, selector, "")) for resource in _TARGETS
        ]
        for informer in self.informers:
            informer.add_handler(self._changed)
        keeper.on_change(self._wake.set)

    def _changed(self, _: Change) -> None:
        self._wake.set()

    async def run(self) -> None:
        """Inject until cancelled."""
        async with asyncio.TaskGroup() as group:
            for informer in self.informers:
                group.create_task(informer.run(), name=f"informer {informer.scope}")
            for informer in self.informers:
                await informer.wait_synced()
            while True:
                await self._round()

    async def _round(self) -> None:
        self._wake.clear()
        wait = self._again_every
        try:
            await self.inject()
        except (ApiError, KubeConnectionError) as error:
            logger.warning("the certificate authority cannot be injected: %s", error)
            wait = 5.0
        try:
            async with asyncio.timeout(wait):
                await self._wake.wait()
        except TimeoutError:
            return

    async def inject(self) -> bool:
        """Bring all labelled objects up to date; whether all of them are, as far as is known."""
        if not self._keeper.bundle:
            return False
        if any(True for _ in self._outdated(self._keeper.bundle)):
            await self._keeper.refresh()
        bundle, complete = self._keeper.bundle, True
        for resource, obj, patch in list(self._outdated(bundle)):
            complete = await self._write(resource, obj, patch) and complete
        if complete:
            self._keeper.known = bundle
        return complete

    def _outdated(self, bundle: bytes) -> Iterator[tuple[Resource, Obj, list[Obj]]]:
        text = base64.b64encode(bundle).decode()
        for resource, informer in zip(_TARGETS, self.informers, strict=True):
            for obj in informer.store:
                patch = _patch(obj, text)
                if patch:
                    yield resource, obj, patch

    async def _write(self, resource: Resource, obj: Obj, patch: list[Obj]) -> bool:
        name = obj["metadata"]["name"]
        try:
            await self._client.patch(resource, name, patch=patch, kind="json")
        except (Conflict, Invalid, NotFound):
            # Changed since we saw it; the change wakes us again.
            return False
        except Forbidden as error:
            logger.warning("no certificate authority for %s: %s", name, error)
            return False
        logger.info("certificate authority injected into %s %s", resource.kind, name)
        return True


def _patch(obj: Obj, text: str) -> list[Obj]:
    """What makes an object trust the bundle, if it has not changed; nothing if it does."""
    writes = [
        {"op": "add", "path": f"{path}/caBundle", "value": text}
        for path, config in _client_configs(obj)
        if config.get("caBundle") != text
    ]
    if not writes:
        return []
    version = {"op": "test", "path": "/metadata/resourceVersion", "value": version_of(obj)}
    return [version, *writes]


def _client_configs(obj: Obj) -> Iterator[tuple[str, Obj]]:
    for i, webhook in enumerate(obj.get("webhooks") or ()):
        yield f"/webhooks/{i}/clientConfig", webhook.get("clientConfig") or {}
    webhook = ((obj.get("spec") or {}).get("conversion") or {}).get("webhook") or {}
    if webhook.get("clientConfig"):
        yield "/spec/conversion/webhook/clientConfig", webhook["clientConfig"]
