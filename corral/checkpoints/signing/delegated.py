"""Signing with credentials that only the store's client can obtain (roles, workload identity).

The client signs plain GET and PUT; it cannot sign conditions or parts, and says so.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Literal, NoReturn

import obstore
from obstore.store import AzureStore, GCSStore, S3Store

from corral.checkpoints.errors import SigningUnsupported
from corral.checkpoints.paths import join
from corral.checkpoints.signing.base import SignedRequest, Upload, check_ttl


class DelegatedSigner:
    """Lets the store's client sign."""

    def __init__(
        self,
        client: S3Store | GCSStore | AzureStore,
        *,
        prefix: str = "",
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._client = client
        self._prefix = prefix
        self._clock = clock

    def get(self, path: str, *, ttl: float) -> SignedRequest:
        return self._sign("GET", path, ttl)

    def put(self, path: str, *, ttl: float, create: bool = False) -> SignedRequest:
        if create:
            _refuse("create-only URLs")
        return self._sign("PUT", path, ttl)

    def start(self, path: str, *, parts: int, ttl: float) -> Upload:
        _refuse("uploads in parts")

    def complete(self, upload: Upload, etags: Sequence[str], *, create: bool = False) -> None:
        _refuse("uploads in parts")

    def abort(self, upload: Upload) -> None:
        _refuse("uploads in parts")

    def sweep(self, prefix: str, *, before: float) -> int:
        return 0

    def _sign(self, method: Literal["GET", "PUT"], path: str, ttl: float) -> SignedRequest:
        seconds, now = check_ttl(ttl), self._clock()
        lifetime = timedelta(seconds=seconds)
        url = obstore.sign(self._client, method, join(self._prefix, path), lifetime)
        azure = isinstance(self._client, AzureStore) and method == "PUT"
        headers = {"x-ms-blob-type": "BlockBlob"} if azure else {}
        return SignedRequest(method, url, now + seconds, headers)


def _refuse(what: str) -> NoReturn:
    raise SigningUnsupported(
        f"{what} need an access key or a service account's key: put one into the storage's secret"
    )
