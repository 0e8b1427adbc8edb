"""Signed URLs for a folder: an HMAC over method, path, conditions and expiry.

A folder has no server, so whoever serves it (the gateway) calls `verify` on what comes in and
then uses the store. Keys have names, so that they can be replaced while URLs are out: sign with
the newest, accept all that are known.
"""

from __future__ import annotations

import hmac
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import parse_qs, quote, unquote, urlencode, urlsplit

from corral.checkpoints.errors import InvalidPath, InvalidSignature, SignatureExpired
from corral.checkpoints.local import LocalStore
from corral.checkpoints.paths import check_relative, join
from corral.checkpoints.signing.base import SignedRequest, Upload, check_ttl
from corral.checkpoints.store import CHUNK

UPLOADS = ".uploads"
"""Folder of parts that are not yet an object."""


@dataclass(frozen=True, slots=True)
class Grant:
    """What a verified URL allows."""

    method: str
    path: str
    create: bool
    expires: float


class LocalSigner:
    """Signs and verifies for one store; the same keys must be on both sides."""

    def __init__(
        self,
        store: LocalStore,
        *,
        base: str,
        keys: Mapping[str, bytes],
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Makes a signer.

        Args:
            store: the folder.
            base: the address under which the store's objects are served.
            keys: named secrets of at least 32 bytes; the last one signs.
            clock: seconds since the epoch.
        """
        if not keys or any(len(key) < 32 for key in keys.values()):
            raise ValueError("signing needs a key of at least 32 bytes")
        self._store = store
        self._base = base.rstrip("/")
        self._keys = dict(keys)
        self._clock = clock

    def get(self, path: str, *, ttl: float) -> SignedRequest:
        return self._sign("GET", path, ttl=ttl, create=False)

    def put(self, path: str, *, ttl: float, create: bool = False) -> SignedRequest:
        return self._sign("PUT", path, ttl=ttl, create=create)

    def start(self, path: str, *, parts: int, ttl: float) -> Upload:
        name = secrets.token_hex(8)
        check_relative(path)
        numbered = (
            self._sign("PUT", _part(path, name, number), ttl=ttl, create=False)
            for number in range(1, parts + 1)
        )
        return Upload(path, name, tuple(numbered))

    def complete(self, upload: Upload, etags: Sequence[str], *, create: bool = False) -> None:
        names = [_part(upload.path, upload.id, number) for number in range(1, len(etags) + 1)]
        for name in names:
            self._store.stat(name)  # NotFound before anything is written
        write = self._store.create_from if create else self._store.write
        write(upload.path, (chunk for name in names for chunk in self._chunks(name)))
        self._store.delete(names)

    def abort(self, upload: Upload) -> None:
        folder = _part(upload.path, upload.id, 1).rpartition("/")[0]
        self._store.delete([stat.path for stat in self._store.walk(folder)])

    def sweep(self, prefix: str, *, before: float) -> int:
        old = [s.path for s in self._store.walk(join(UPLOADS, prefix)) if s.modified < before]
        self._store.delete(old)
        return len(old)

    def verify(self, method: str, url: str) -> Grant:
        """What a URL allows, if it is one of ours, unaltered, and its time is not over.

        Args:
            method: of the request that came in.
            url: with query; scheme and host do not matter.

        Raises:
            SignatureExpired: if it was good once.
            InvalidSignature: if it never was.
        """
        parts = urlsplit(url)
        values = parse_qs(parts.query, keep_blank_values=True)
        if any(len(found) != 1 for found in values.values()):
            raise InvalidSignature("the URL has a parameter twice")
        query = {name: found[0] for name, found in values.items()}
        prefix = urlsplit(self._base).path.rstrip("/") + "/"
        path = unquote(parts.path).removeprefix(prefix)
        key = self._keys.get(query.get("kid", ""))
        create, expires = query.get("create", ""), query.get("expires", "")
        expected = _mac(key or b"", method, path, create, expires)
        given = query.get("sig", "").encode(errors="replace")
        if key is None or not hmac.compare_digest(expected.encode(), given):
            raise InvalidSignature("the URL was not signed for this request")
        return self._grant(method, path, create, float(expires))

    def _grant(self, method: str, path: str, create: str, expires: float) -> Grant:
        if self._clock() >= expires:
            raise SignatureExpired("the URL has expired; ask for a new one")
        try:
            check_relative(path)
        except InvalidPath as error:
            raise InvalidSignature(str(error)) from error
        return Grant(method, path, create == "1", expires)

    def _sign(self, method: str, path: str, *, ttl: float, create: bool) -> SignedRequest:
        check_relative(path)
        expires = int(self._clock()) + check_ttl(ttl)
        name, key = list(self._keys.items())[-1]
        flag = "1" if create else "0"
        query = {
            "kid": name,
            "create": flag,
            "expires": str(expires),
            "sig": _mac(key, method, path, flag, str(expires)),
        }
        url = f"{self._base}/{quote(path, safe='/-_.~')}?{urlencode(query)}"
        return SignedRequest(method, url, expires)

    def _chunks(self, path: str) -> Iterator[memoryview]:
        offset = 0
        while True:
            chunk = memoryview(bytearray(CHUNK))
            count = self._store.read_into(path, chunk, start=offset)
            if not count:
                return
            yield chunk[:count]
            offset += count


def _part(path: str, upload: str, number: int) -> str:
    return f"{UPLOADS}/{path}/{upload}/{number:06d}"


def _mac(key: bytes, method: str, path: str, create: str, expires: str) -> str:
    text = "\n".join(["corral-url-v1", method, path, create, expires])
    return hmac.digest(key, text.encode(), "sha256").hex()
