"""Checkpoints in S3, Google Cloud Storage and Azure Blob Storage.

One client (obstore) speaks to all three and retries transient errors with jitter. Objects larger
than a part are uploaded in parts, several at a time, holding only those in memory. An upload
that is interrupted never becomes an object; `sweep` gives up what such uploads left behind.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from itertools import chain
from typing import TYPE_CHECKING, Any

import obstore
from obstore import exceptions
from obstore.store import AzureStore, GCSStore, S3Store

from corral.checkpoints.clients import azure_client, google_client, s3_client, signer_for
from corral.checkpoints.errors import (
    AlreadyExists,
    Conflict,
    NotFound,
    PermissionDenied,
    StoreError,
    StoreUnavailable,
)
from corral.checkpoints.location import Location
from corral.checkpoints.paths import check_relative, join
from corral.checkpoints.signing.base import UrlSigner
from corral.checkpoints.signing.http import known_code
from corral.checkpoints.store import Blob, Chunk, Stat
from corral.egress.policy import EgressPolicy

if TYPE_CHECKING:
    from obstore import GetResult, UpdateVersion

PART = 16 << 20
"""Bytes; 10,000 parts of S3 make 156 GiB, and files of a state are far smaller."""
_CAUSES = {
    "timed out": "the store did not answer in time",
    "timeout": "the store did not answer in time",
    "dns error": "the name of the store is not known",
    "certificate": "the certificate of the store is not trusted",
    "tunnel": "the store cannot be reached",
    "connect": "the store cannot be reached",
    "range": "the store gave another range than asked for",
}
CONCURRENCY = 4
"""Parts in flight for one object."""


class ObjectStore:
    """A bucket or container, below a prefix."""

    def __init__(
        self,
        location: Location,
        credentials: Mapping[str, str],
        *,
        part_size: int = PART,
        retry_for: float = 120.0,
        egress: EgressPolicy | None = None,
        proxy: str = "",
    ) -> None:
        """Opens a bucket; no request is sent yet.

        Args:
            location: where.
            credentials: as environment variables name them.
            part_size: bytes of a part; at least 5 MiB.
            retry_for: seconds until a transient error is final.
            egress: which servers this process calls itself; None: any.
            proxy: through which the client reaches the store.
        """
        make: Any = {"s3": s3_client, "gs": google_client, "az": azure_client}[location.scheme]
        retry = {
            "max_retries": 10,
            "retry_timeout": timedelta(seconds=retry_for),
            "backoff": {
                "init_backoff": timedelta(milliseconds=100),
                "max_backoff": timedelta(seconds=15),
                "base": 2,
            },
        }
        self._client: S3Store | GCSStore | AzureStore = make(location, credentials, retry, proxy)
        self._location = location
        self._credentials = credentials
        self._part = part_size
        self._egress = egress

    @property
    def url(self) -> str:
        return self._location.url

    @property
    def part_size(self) -> int | None:
        return self._part

    @property
    def signer(self) -> UrlSigner:
        """Signs URLs with the same credentials."""
        return signer_for(self._location, self._credentials, self._client, self._egress)

    def write(self, path: str, chunks: Iterable[Chunk]) -> None:
        source = iter(chunks)
        head, complete = _first_part(source, self._part)
        with self._mapped(path):
            if complete:
                whole = b"".join(head)
                obstore.put(self._client, self._name(path), whole, use_multipart=False)
                return
            obstore.put(
                self._client,
                self._name(path),
                chain(head, source),
                use_multipart=True,
                chunk_size=self._part,
                max_concurrency=CONCURRENCY,
            )

    def create(self, path: str, data: bytes) -> None:
        with self._mapped(path):
            obstore.put(self._client, self._name(path), data, mode="create")

    def replace(self, path: str, data: bytes, *, etag: str | None) -> None:
        with self._mapped(path):
            if etag is None:
                obstore.put(self._client, self._name(path), data)
                return
            tag, _, version = etag.partition("\n")
            wanted: UpdateVersion = {"e_tag": tag}
            if version:
                wanted["version"] = version
            obstore.put(self._client, self._name(path), data, mode=wanted)

    def read(self, path: str, *, limit: int = 64 << 20) -> Blob:
        with self._mapped(path):
            answer = obstore.get(self._client, self._name(path))
            meta = answer.meta
            if meta["size"] > limit:
                raise StoreError(f"{path} is larger than {limit} bytes")
            data = _bounded(answer, limit, path)
        return Blob(data, f"{meta['e_tag'] or ''}\n{meta['version'] or ''}")

    def read_into(self, path: str, buffer: memoryview, *, start: int = 0) -> int:
        view = buffer.cast("B")
        if not view:
            return 0
        try:
            with self._mapped(path):
                data = memoryview(
                    obstore.get_range(self._client, self._name(path), start=start, length=len(view))
                )
        except StoreUnavailable:
            if self.stat(path).size > start:
                raise
            return 0  # the object ends before: stores call that an error
        view[: len(data)] = data
        return len(data)

    def stat(self, path: str) -> Stat:
        with self._mapped(path):
            meta = obstore.head(self._client, self._name(path))
        return Stat(path, meta["size"], meta["last_modified"].timestamp())

    def walk(self, prefix: str) -> Iterator[Stat]:
        with self._mapped(prefix):
            for page in obstore.list(self._client, self._name(prefix) or None, chunk_size=1000):
                for meta in page:
                    path = self._relative(meta["path"])
                    yield Stat(path, meta["size"], meta["last_modified"].timestamp())

    def entries(self, prefix: str) -> tuple[list[str], list[str]]:
        with self._mapped(prefix):
            found = obstore.list_with_delimiter(self._client, self._name(prefix) or None)
        folders = [name.rstrip("/").rpartition("/")[2] for name in found["common_prefixes"]]
        objects = [meta["path"].rpartition("/")[2] for meta in found["objects"]]
        return sorted(folders), sorted(objects)

    def delete(self, paths: Sequence[str]) -> None:
        if not paths:
            return
        try:
            with self._mapped(paths[0]):
                obstore.delete(self._client, [self._name(path) for path in paths])
        except NotFound:
            self._delete_each(paths)

    def sweep(self, prefix: str, *, before: float) -> int:
        """Gives up uploads in parts that began before that time."""
        return self.signer.sweep(prefix, before=before)

    def _delete_each(self, paths: Sequence[str]) -> None:
        for path in paths:
            with contextlib.suppress(NotFound), self._mapped(path):
                obstore.delete(self._client, self._name(path))

    def _name(self, path: str) -> str:
        return join(self._location.prefix, check_relative(path) if path else "")

    def _relative(self, name: str) -> str:
        return name.removeprefix(self._location.prefix).lstrip("/")

    @contextlib.contextmanager
    def _mapped(self, path: str) -> Iterator[None]:
        """Errors of the client as errors of this package."""
        where = f"{path or '/'} in {self.url}"
        try:
            yield
        except (exceptions.NotFoundError, FileNotFoundError) as error:
            raise NotFound(
                f"no object {where}; if it should be there, check bucket and prefix"
            ) from error
        except exceptions.AlreadyExistsError as error:
            raise AlreadyExists(f"{where} is there already") from error
        except exceptions.PreconditionError as error:
            raise Conflict(f"{where} changed since it was read; read it again") from error
        except (exceptions.PermissionDeniedError, exceptions.UnauthenticatedError) as error:
            raise PermissionDenied(
                f"{where}: {_reason(error)}; check the keys in the storage's secret and what"
                " they may do in this bucket"
            ) from error
        except exceptions.BaseError as error:
            raise StoreUnavailable(f"{where}: {_reason(error)}") from error


def _first_part(source: Iterator[Chunk], limit: int) -> tuple[list[Chunk], bool]:
    """Chunks up to one part, and whether that was all."""
    head: list[Chunk] = []
    size = 0
    for chunk in source:
        head.append(chunk)
        size += len(chunk)
        if size > limit:
            return head, False
    return head, True


def _bounded(answer: GetResult, limit: int, path: str) -> bytes:
    """The bytes, counted as they come: a length is only what the server says."""
    pieces, size = [], 0
    for piece in answer:
        size += len(piece)
        if size > limit:
            raise StoreError(f"{path} is larger than {limit} bytes")
        pieces.append(bytes(piece))
    return b"".join(pieces)


def _reason(error: Exception) -> str:
    """Why, in our words: the client quotes whatever the server sent."""
    text = str(error)
    status = re.search(r"status code:? (\d{3})|status (\d{3})|status: (\d{3})", text)
    if status:
        return (
            f"the store answers {next(filter(None, status.groups()))} {known_code(text)}".rstrip()
        )
    for words, meaning in _CAUSES.items():
        if words in text.lower():
            return meaning
    return "the store gives no proper answer"
