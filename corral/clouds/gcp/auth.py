"""Access tokens of GCP: of a service account's key, or of the machine we run on."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable
from typing import Any, Final

from corral.clouds.calls import MAX_TOKEN, Calls
from corral.clouds.errors import AccountRefused
from corral.clouds.rest import Renewed
from corral.egress.reading import key_bytes, load_json

__all__ = ["MachineIdentity", "ServiceAccount"]

_SCOPE: Final = "https://www.googleapis.com/auth/cloud-platform"
_GRANT: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_LIFETIME: Final = 3600


class ServiceAccount(Renewed):
    """Tokens for the key in a ``credentials.json``."""

    def __init__(self, text: str, *, clock: Callable[[], float] = time.time) -> None:
        """Raises AccountRefused when the text is no such key."""
        super().__init__(clock)
        self._signer: Any = None
        try:
            account = load_json(text)
            self._mail = str(account["client_email"])
            self._key = str(account["private_key"])
            self._uri = str(account["token_uri"])
            self._key_id = str(account.get("private_key_id", ""))
        except (ValueError, KeyError, TypeError) as error:
            raise AccountRefused(
                "the credentials are not the JSON key of a service account "
                f"(client_email, private_key, token_uri): {error!r}"
            ) from error

    async def _fetch(self, calls: Calls) -> tuple[str, float]:
        form = {"grant_type": _GRANT, "assertion": self._assertion()}
        reply = await calls.ask("POST", self._uri, limit=MAX_TOKEN, data=form)
        return self._read(reply, "the token service of the Secret")

    def _assertion(self) -> str:
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import padding

        if self._signer is None:
            self._signer = self._loaded()
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
        signature = self._signer.sign(text.encode(), padding.PKCS1v15(), hashes.SHA256())
        return f"{text}.{_base64(signature)}"

    def _loaded(self) -> Any:
        from cryptography.hazmat.primitives.asymmetric import rsa
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        try:
            key = load_pem_private_key(key_bytes(self._key), password=None)
        except ValueError as error:
            raise AccountRefused(f"the service account's private_key is no key: {error}") from error
        if not isinstance(key, rsa.RSAPrivateKey):
            raise AccountRefused("the service account's private_key is not an RSA key")
        return key


class MachineIdentity(Renewed):
    """Tokens of the service account that this machine or pod has, from its metadata server."""

    def __init__(self, metadata: str, *, clock: Callable[[], float] = time.time) -> None:
        super().__init__(clock)
        self._url = (
            f"{metadata.rstrip('/')}/computeMetadata/v1/instance/service-accounts/default/token"
        )

    @property
    def trusted(self) -> tuple[str, ...]:
        return (self._url,)

    async def _fetch(self, calls: Calls) -> tuple[str, float]:
        headers = {"Metadata-Flavor": "Google"}
        reply = await calls.ask("GET", self._url, limit=MAX_TOKEN, headers=headers)
        return self._read(reply, "the metadata server")


def _encoded(value: dict[str, Any]) -> str:
    return _base64(json.dumps(value, separators=(",", ":")).encode())


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
