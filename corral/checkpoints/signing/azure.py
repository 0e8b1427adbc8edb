"""Signed URLs for Azure Blob Storage: a service SAS made with the account's key.

Large blobs are blocks: any number of `Put Block`, then one block list that makes the blob. A
create-only URL carries the permission `c` without `w`, with which the service refuses to
overwrite.
"""

from __future__ import annotations

import base64
import hmac
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from urllib.parse import quote, urlencode

from corral.checkpoints.paths import join
from corral.checkpoints.signing.base import SignedRequest, Upload, check_ttl
from corral.checkpoints.signing.http import Sender
from corral.checkpoints.signing.v4 import object_url

_VERSION = "2021-12-02"
_OWN = 300.0


class AzureSigner:
    """Signs requests for one container of Azure."""

    def __init__(
        self,
        *,
        account: str,
        key: str,
        container: str,
        endpoint: str,
        prefix: str,
        clock: Callable[[], float] = time.time,
        sender: Sender | None = None,
    ) -> None:
        self._account = account
        self._key = base64.b64decode(key)
        self._container = container
        self._base = f"{endpoint.rstrip('/')}/{container}"
        self._secure = endpoint.startswith("https:")
        self._prefix = prefix
        self._clock = clock
        self._sender = sender or Sender()

    def get(self, path: str, *, ttl: float) -> SignedRequest:
        return self._sign("GET", path, "r", ttl=ttl)

    def put(self, path: str, *, ttl: float, create: bool = False) -> SignedRequest:
        headers = {"x-ms-blob-type": "BlockBlob"}
        return self._sign("PUT", path, "c" if create else "cw", ttl=ttl, headers=headers)

    def start(self, path: str, *, parts: int, ttl: float) -> Upload:
        name = secrets.token_hex(8)
        numbered = (
            self._sign("PUT", path, "cw", ttl=ttl, query={"comp": "block", "blockid": block})
            for block in _blocks(name, parts)
        )
        return Upload(path, name, tuple(numbered))

    def complete(self, upload: Upload, etags: Sequence[str], *, create: bool = False) -> None:
        listed = "".join(f"<Latest>{block}</Latest>" for block in _blocks(upload.id, len(etags)))
        body = f'<?xml version="1.0" encoding="utf-8"?><BlockList>{listed}</BlockList>'.encode()
        signed = self._sign("PUT", upload.path, "cw", ttl=_OWN, query={"comp": "blocklist"})
        if create:
            signed = replace(signed, headers={"If-None-Match": "*"})
        self._sender.send(signed, body)

    def abort(self, upload: Upload) -> None:
        """Blocks without a list vanish by themselves after a week; nothing can be asked for."""

    def sweep(self, prefix: str, *, before: float) -> int:
        return 0

    def _sign(
        self,
        method: str,
        path: str,
        permissions: str,
        *,
        ttl: float,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> SignedRequest:
        name = join(self._prefix, path)
        expires = int(self._clock()) + check_ttl(ttl)
        until = datetime.fromtimestamp(expires, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        protocol = "https" if self._secure else "https,http"
        resource = f"/blob/{self._account}/{self._container}/{name}"
        fields = [permissions, "", until, resource, "", "", protocol, _VERSION, "b", *[""] * 7]
        digest = hmac.digest(self._key, "\n".join(fields).encode(), "sha256")
        parameters = {
            **(query or {}),
            "sv": _VERSION,
            "sr": "b",
            "sp": permissions,
            "se": until,
            "spr": protocol,
            "sig": base64.b64encode(digest).decode(),
        }
        url = f"{object_url(self._base, name)}?{urlencode(parameters, quote_via=quote)}"
        return SignedRequest(method, url, expires, dict(headers or {}))


def _blocks(upload: str, count: int) -> list[str]:
    """Names of equal length, as the service demands."""
    return [base64.b64encode(f"{upload}-{n:06d}".encode()).decode() for n in range(count)]
