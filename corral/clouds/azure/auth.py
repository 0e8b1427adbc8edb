"""Access tokens of Azure: of an application's secret, or of the machine we run on."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from corral.clouds.rest import Renewed

if TYPE_CHECKING:
    import aiohttp

__all__ = ["AUTHORITY", "ClientSecret", "ManagedIdentity"]

AUTHORITY: Final = "https://login.microsoftonline.com"
_RESOURCE: Final = "https://management.azure.com/"
_IDENTITY_API: Final = "2018-02-01"


class ClientSecret(Renewed):
    """Tokens for an application of a tenant."""

    def __init__(
        self,
        *,
        tenant: str,
        client_id: str,
        secret: str,
        authority: str = AUTHORITY,
        resource: str = _RESOURCE,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(clock)
        self._url = f"{authority.rstrip('/')}/{tenant}/oauth2/v2.0/token"
        self._form = {
            "grant_type": "client_credentials",
            "client_id": client_id,
            "client_secret": secret,
            "scope": f"{resource.rstrip('/')}/.default",
        }

    async def _fetch(self, session: aiohttp.ClientSession) -> tuple[str, float]:
        async with session.post(self._url, data=self._form) as answer:
            return await self._read(answer, "Azure")


class ManagedIdentity(Renewed):
    """Tokens of the identity that this machine has, from its metadata service."""

    def __init__(
        self,
        metadata: str,
        *,
        resource: str = _RESOURCE,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(clock)
        self._url = f"{metadata.rstrip('/')}/metadata/identity/oauth2/token"
        self._params = {"api-version": _IDENTITY_API, "resource": resource}

    async def _fetch(self, session: aiohttp.ClientSession) -> tuple[str, float]:
        headers = {"Metadata": "true"}
        async with session.get(self._url, params=self._params, headers=headers) as answer:
            return await self._read(answer, "the metadata service")
