"""Access tokens of Azure: of an application's secret, or of the machine we run on."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final
from urllib.parse import quote

from corral.clouds.calls import MAX_TOKEN, Calls
from corral.clouds.rest import Renewed

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
        self._url = f"{authority.rstrip('/')}/{quote(tenant, safe='')}/oauth2/v2.0/token"
        self._form = {
            "grant_type": "client_credentials",
            "client_id": client_id,
            "client_secret": secret,
            "scope": f"{resource.rstrip('/')}/.default",
        }

    @property
    def trusted(self) -> tuple[str, ...]:
        return (self._url,)

    async def _fetch(self, calls: Calls) -> tuple[str, float]:
        reply = await calls.ask("POST", self._url, limit=MAX_TOKEN, data=self._form)
        return self._read(reply, "Azure")


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

    @property
    def trusted(self) -> tuple[str, ...]:
        return (self._url,)

    async def _fetch(self, calls: Calls) -> tuple[str, float]:
        reply = await calls.ask(
            "GET", self._url, limit=MAX_TOKEN, params=self._params, headers={"Metadata": "true"}
        )
        return self._read(reply, "the metadata service")
