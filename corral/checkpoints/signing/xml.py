"""Signed URLs and uploads in parts for stores that speak the S3 protocol: S3 itself and Google.

Google's XML interface has the same calls for uploads in parts; only the header that says "if
absent" has another name.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from html import escape, unescape

from corral.checkpoints.errors import NotFound, StoreError
from corral.checkpoints.paths import join
from corral.checkpoints.signing.base import SignedRequest, Upload
from corral.checkpoints.signing.http import Answer, Sender, known_code
from corral.checkpoints.signing.v4 import V4, object_url

IF_ABSENT_S3 = {"If-None-Match": "*"}
IF_ABSENT_GOOGLE = {"x-goog-if-generation-match": "0"}
_OWN = 300.0
"""Seconds; requests that this process sends itself need no longer."""
_PAGE = 1000
"""Uploads in one answer; a store that lists more is not believed."""


class XmlSigner:
    """Signs requests for one bucket."""

    def __init__(
        self,
        scheme: V4,
        *,
        base: str,
        prefix: str,
        if_absent: Mapping[str, str],
        clock: Callable[[], float] = time.time,
        sender: Sender | None = None,
    ) -> None:
        """Makes a signer.

        Args:
            scheme: who signs, and how.
            base: the bucket's address.
            prefix: put before every path.
            if_absent: headers that make a write create-only.
            clock: seconds since the epoch.
            sender: how this process sends its own requests.
        """
        self._scheme = scheme
        self._base = base
        self._prefix = prefix
        self._if_absent = if_absent
        self._clock = clock
        self._sender = sender or Sender()

    def get(self, path: str, *, ttl: float) -> SignedRequest:
        return self._sign("GET", path, ttl=ttl)

    def put(self, path: str, *, ttl: float, create: bool = False) -> SignedRequest:
        return self._sign("PUT", path, ttl=ttl, headers=self._if_absent if create else {})

    def start(self, path: str, *, parts: int, ttl: float) -> Upload:
        answer = self._send("POST", path, {"uploads": ""}, body=b"")
        found = re.search(r"<UploadId>([^<]+)</UploadId>", answer.body.decode(errors="replace"))
        if found is None:
            raise StoreError(f"{path}: the store began no upload; does it know multipart uploads?")
        name = unescape(found.group(1))
        numbered = (
            self._sign("PUT", path, ttl=ttl, query={"partNumber": str(number), "uploadId": name})
            for number in range(1, parts + 1)
        )
        return Upload(path, name, tuple(numbered))

    def complete(self, upload: Upload, etags: Sequence[str], *, create: bool = False) -> None:
        listed = "".join(
            f"<Part><PartNumber>{number}</PartNumber><ETag>{escape(etag)}</ETag></Part>"
            for number, etag in enumerate(etags, 1)
        )
        body = f"<CompleteMultipartUpload>{listed}</CompleteMultipartUpload>".encode()
        headers = self._if_absent if create else {}
        answer = self._send(
            "POST", upload.path, {"uploadId": upload.id}, headers=headers, body=body
        )
        if b"<Error>" in answer.body:  # S3 may say 200 first and fail later
            code = known_code(answer.body.decode(errors="replace"))
            raise StoreError(
                f"{upload.path}: the store did not complete the upload {code}".rstrip()
            )

    def abort(self, upload: Upload) -> None:
        self._abort(upload.path, upload.id)

    def sweep(self, prefix: str, *, before: float) -> int:
        query = {"uploads": "", "prefix": join(self._prefix, prefix) + "/"}
        signed = self._scheme.presign(
            "GET", self._base.rstrip("/") + "/", now=self._clock(), ttl=_OWN, query=query
        )
        text = self._sender.send(signed).body.decode(errors="replace")
        count = 0
        for block in text.split("<Upload>")[1 : _PAGE + 1]:
            key, name, began = (_member(block, tag) for tag in ("Key", "UploadId", "Initiated"))
            if _is_before(began, before):
                self._abort(key.removeprefix(self._prefix).lstrip("/"), name)
                count += 1
        return count

    def _abort(self, path: str, name: str) -> None:
        try:
            self._send("DELETE", path, {"uploadId": name})
        except NotFound:
            return  # completed or aborted already

    def _send(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> Answer:
        signed = self._sign(method, path, ttl=_OWN, query=query, headers=headers)
        return self._sender.send(signed, body)

    def _sign(
        self,
        method: str,
        path: str,
        *,
        ttl: float,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> SignedRequest:
        url = object_url(self._base, join(self._prefix, path))
        return self._scheme.presign(
            method, url, now=self._clock(), ttl=ttl, query=query, headers=headers
        )


def _is_before(text: str, limit: float) -> bool:
    """Whether an upload began before; one that does not say so properly is left alone."""
    try:
        return datetime.fromisoformat(text).timestamp() < limit
    except (ValueError, OverflowError):
        return False


def _member(block: str, tag: str) -> str:
    found = re.search(rf"<{tag}>([^<]*)</{tag}>", block)
    return unescape(found.group(1)) if found else ""
