"""Bootstrap tokens of VMs as Secrets, where the API server looks for them.

A token is good for one join and a few minutes; should its removal fail, it expires, and the token
cleaner of kube-controller-manager removes the Secret.
"""

from __future__ import annotations

from contextlib import suppress

from corral.clouds.joiner.tokens import BootstrapToken
from corral.kube.client import KubeClient
from corral.kube.errors import NotFound
from corral.kube.resources import SECRETS

__all__ = ["SecretTokens"]

_NAMESPACE = "kube-system"


class SecretTokens:
    """`corral.clouds.joiner.TokenStore` on a cluster; needs create and delete of Secrets there."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client

    async def put(self, token: BootstrapToken, vm: str) -> None:
        """Raises ApiError."""
        await self._client.create(SECRETS, token.manifest(vm), namespace=_NAMESPACE)

    async def remove(self, token: BootstrapToken) -> None:
        """Raises ApiError."""
        with suppress(NotFound):
            await self._client.delete(SECRETS, f"bootstrap-token-{token.id}", namespace=_NAMESPACE)
