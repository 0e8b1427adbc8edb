"""Access tokens of GCP: of a service account's key, or of the machine we run on."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from corral.clouds.errors import AccountRefused
from corral.clouds.rest import Renewed

if TYPE_CHECKING:
    import aiohttp

__all__ = ["MachineIdentity", "ServiceAccount"]

_SCOPE: Final = "https://www.googleapis.com/auth/cloud-platform"
_GRANT: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_LIFETIME: Final = 3600


class ServiceAccount(Renewed):
    """Tokens for the key in a ``credentials.json``."""

    def __init__(self, text: str, *, clock: Callable[[], float] = time.time) -> None:
        """Raises AccountRefused when the text is no such key."""
        super().__init__(clock)
        try:
            account = json.loads(text)
            self._mail = str(account["client_email"])
            self._key = str(account["private_key"])
            self._uri = str(account["token_uri"])
            self._key_id = str(account.get("private_key_id", ""))
        except (ValueError, KeyError, TypeError) as error:
            raise AccountRefused(
                "the credentials are not the JSON key of a service account "
                f"(client_email, private_key, token_uri): {error!r}"
            ) from error

    async def _fetch(self, session: aiohttp.ClientSession) -> tuple[str, float]:
        form = {"grant_type": _GRANT, "assertion": self._assertion()}
        async with session.post(self._uri, data=form) as answer:
            return await self._read(answer, "Google")

    def _assertion(self) -> str:
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import padding, rsa
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        try:
            key = load_pem_private_key(self._key.encode(), password=None)
        except ValueError as error:
            raise AccountRefused(f"the service account's private_key is no key: {error}") from error
        if not isinstance(key, rsa.RSAPrivateKey):
            raise AccountRefused("the service account's private_key is not an RSA key")
        now = int(self.clock())
        claims = {
            "iss": self._mail,
            "scope": _SCOPE,
            "aud": self._uri,
            "iat": now,
            "exp": now + _LIFETIME,
        }
        head = {"alg": "RS256", "typ": "JWT", "kid": self._key_id}
        text = f"{_encoded(head)}.{_encoded(claims)}"
        signature = key.sign(text.encode(), padding.PKCS1v15(), hashes.SHA256())
        return f"{text}.{_base64(signature)}"


class MachineIdentity(Renewed):
    """Tokens of the service account that this machine or pod has, from its metadata server."""

    def __init__(self, metadata: str, *, clock: Callable[[], float] = time.time) -> None:
        super().__init__(clock)
        self._url = (
            f"{metadata.rstrip('/')}/computeMetadata/v1/instance/service-accounts/default/token"
        )

    async def _fetch(self, session: aiohttp.ClientSession) -> tuple[str, float]:
        async with session.get(self._url, headers={"Metadata-Flavor": "Google"}) as answer:
            return await self._read(answer, "the metadata server")


def _encoded(value: dict[str, Any]) -> str:
    return _base64(json.dumps(value, separators=(",", ":")).encode())


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
