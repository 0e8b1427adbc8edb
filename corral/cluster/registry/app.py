"""The distribution API over a store: blobs, uploads, manifests, tags, referrers."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final
from weakref import WeakValueDictionary

from aiohttp import web

from corral.cluster.registry.access import Access, Action
from corral.cluster.registry.answers import (
    VERSION,
    accepted,
    created,
    link,
    list_of,
    next_page,
    refusal,
)
from corral.cluster.registry.errors import Refused, digest_invalid, name_unknown, too_large
from corral.cluster.registry.store import Store
from corral.oci.manifest import IMAGE_INDEX
from corral.oci.reference import is_digest, is_repository, is_tag

__all__ = ["RegistryApp"]

logger = logging.getLogger(__name__)

_ROUTE: Final = re.compile(
    r"/v2/(?P<name>.+?)/(?:blobs/uploads/(?P<upload>[^/]*)|blobs/(?P<blob>[^/]+)"
    r"|manifests/(?P<manifest>[^/]+)|referrers/(?P<subject>[^/]+)|tags/(?P<tags>list))"
)
_ACTIONS: Final = {"GET": Action.read, "HEAD": Action.read, "DELETE": Action.delete}
_BATCH: Final = 1 << 20
"""Bytes that are written at once."""
_BUFFER: Final = 256 << 10
"""Bytes that a connection reads ahead."""
_SILENCE: Final = 60.0
"""Seconds without a byte after which a sender is given up."""
_PAGE: Final = 1000

Serve = Callable[[web.Request, str, str], Awaitable[web.StreamResponse]]


class RegistryApp:
    """Answers requests."""

    def __init__(self, store: Store, access: Access) -> None:
        self._store = store
        self._access = access
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """One writer to an upload at a time."""
        self._serve: dict[str, dict[str, Serve]] = {
            "upload": {
                "POST": self._begin,
                "GET": self._upload_status,
                "HEAD": self._upload_status,
                "PATCH": self._append,
                "PUT": self._finish,
                "DELETE": self._abort,
            },
            "blob": {"GET": self._get_blob, "HEAD": self._head_blob, "DELETE": self._delete_blob},
            "manifest": {
                "GET": self._get_manifest,
                "HEAD": self._get_manifest,
                "PUT": self._put_manifest,
                "DELETE": self._delete_manifest,
            },
            "subject": {"GET": self._referrers},
            "tags": {"GET": self._tags},
        }

    def application(self) -> web.Application:
        app = web.Application(handler_args={"read_bufsize": _BUFFER, "auto_decompress": False})
        app.router.add_route("*", "/{path:.*}", self.handle)
        return app

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """One request; refusals are in the specification's form."""
        try:
            return await self._answer(request)
        except Refused as refused:
            return refusal(refused)
        except ConnectionError:
            raise
        except OSError as error:
            logger.error("%s %s: %s", request.method, request.path, error)
            words = f"the registry cannot use its disk: {error.strerror or error}"
            return refusal(Refused(507 if error.errno == 28 else 500, "UNKNOWN", words))

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        path = request.path
        if path == "/healthz":
            return web.Response(text="ok")
        if path in ("/v2", "/v2/"):
            await self._check(request, Action.read, "")
            return web.json_response({}, headers=VERSION)
        if path == "/v2/_catalog" and request.method == "GET":
            return await self._repositories(request)
        match = _ROUTE.fullmatch(path)
        if match is None or match.lastgroup is None:
            raise Refused(404, "UNSUPPORTED", "there is nothing here")
        repository = match["name"]
        if not is_repository(repository):
            raise Refused(400, "NAME_INVALID", f"{repository[:100]!r} cannot be a repository")
        await self._check(request, _ACTIONS.get(request.method, Action.write), repository)
        serve = self._serve[match.lastgroup].get(request.method)
        if serve is None:
            raise Refused(405, "UNSUPPORTED", f"{request.method} is not for this")
        return await serve(request, repository, match[match.lastgroup])

    async def _check(self, request: web.Request, action: Action, repository: str) -> str:
        shown = request.headers.get("Authorization", "")
        peer = request.remote or ""
        known = await self._access.check(shown, peer=peer, action=action, repository=repository)
        return known or ""

    # -- blobs -----------------------------------------------------------------------------------

    async def _get_blob(
        self, request: web.Request, repository: str, digest: str
    ) -> web.StreamResponse:
        path, _ = await asyncio.to_thread(self._store.blob, repository, _checked(digest))
        headers = {
            "Content-Type": "application/octet-stream",
            "Docker-Content-Digest": digest,
            "Cache-Control": "max-age=31536000, immutable",
        }
        return web.FileResponse(path, headers=headers, chunk_size=_BUFFER)

    async def _head_blob(self, request: web.Request, repository: str, digest: str) -> web.Response:
        size = await asyncio.to_thread(self._store.reserve_blob, repository, _checked(digest))
        headers = {
            "Content-Length": str(size),
            "Content-Type": "application/octet-stream",
            "Docker-Content-Digest": digest,
            "Accept-Ranges": "bytes",
        }
        return web.Response(headers=headers)

    async def _delete_blob(
        self, request: web.Request, repository: str, digest: str
    ) -> web.Response:
        await asyncio.to_thread(self._store.delete_blob, repository, _checked(digest))
        return web.Response(status=202)

    # -- uploads ---------------------------------------------------------------------------------

    async def _begin(self, request: web.Request, repository: str, upload: str) -> web.Response:
        if upload:
            raise Refused(405, "UNSUPPORTED", "an upload is begun without a name")
        mount, source = request.query.get("mount", ""), request.query.get("from", "")
        if mount and source and await self._mounted(request, repository, mount, source):
            return created(repository, mount)
        caller = await self._check(request, Action.write, repository)  # known by now
        new = await asyncio.to_thread(self._store.begin, repository, caller)
        digest = request.query.get("digest", "")
        if not digest:
            return accepted(repository, new, 0)
        async with self._lock(new):
            try:
                await self._take(request, new)
                await asyncio.to_thread(self._store.finish, repository, new, digest)
            except BaseException:
                await asyncio.to_thread(self._store.abort, new)
                raise
        return created(repository, digest)

    async def _mounted(
        self, request: web.Request, repository: str, digest: str, source: str
    ) -> bool:
        """Whether it could be had from there; else it is uploaded as any other."""
        if not is_repository(source) or not is_digest(digest):
            return False
        try:
            await self._check(request, Action.read, source)
        except Refused as refused:
            if refused.status == 403:
                return False
            raise
        return await asyncio.to_thread(self._store.mount, source, repository, digest)

    async def _upload_status(
        self, request: web.Request, repository: str, upload: str
    ) -> web.Response:
        offset = await asyncio.to_thread(self._store.offset, repository, upload)
        return accepted(repository, upload, offset, status=204)

    async def _append(self, request: web.Request, repository: str, upload: str) -> web.Response:
        async with self._lock(upload):
            offset = await asyncio.to_thread(self._store.offset, repository, upload)
            _check_range(request, repository, upload, offset)
            await self._take(request, upload)
            offset = await asyncio.to_thread(self._store.offset, repository, upload)
        return accepted(repository, upload, offset)

    async def _finish(self, request: web.Request, repository: str, upload: str) -> web.Response:
        digest = _checked(request.query.get("digest", ""))
        async with self._lock(upload):
            offset = await asyncio.to_thread(self._store.offset, repository, upload)
            if request.can_read_body:
                _check_range(request, repository, upload, offset)
                await self._take(request, upload)
            await asyncio.to_thread(self._store.finish, repository, upload, digest)
        return created(repository, digest)

    async def _abort(self, request: web.Request, repository: str, upload: str) -> web.Response:
        async with self._lock(upload):
            await asyncio.to_thread(self._store.offset, repository, upload)
            await asyncio.to_thread(self._store.abort, upload)
        return web.Response(status=204)

    async def _take(self, request: web.Request, upload: str) -> None:
        """Write the body to an upload; what came before a connection broke stays."""
        length = request.content_length
        if length is not None and length > self._store.settings.max_blob:
            raise too_large(f"a blob may have {self._store.settings.max_blob} bytes at most")
        batch: list[bytes] = []
        held = 0
        try:
            async for piece in _pieces(request):
                batch.append(piece)
                held += len(piece)
                if held >= _BATCH:
                    full, batch, held = batch, [], 0
                    await asyncio.to_thread(self._store.append, upload, full)
        finally:
            if batch:
                await asyncio.to_thread(self._store.append, upload, batch)

    def _lock(self, upload: str) -> asyncio.Lock:
        lock = self._locks.get(upload)
        if lock is None:
            lock = self._locks[upload] = asyncio.Lock()
        return lock

    # -- manifests -------------------------------------------------------------------------------

    async def _get_manifest(
        self, request: web.Request, repository: str, target: str
    ) -> web.Response:
        found = await asyncio.to_thread(self._store.manifest, repository, _target(target))
        headers = {
            "Content-Type": found.media_type,
            "Docker-Content-Digest": found.digest,
            "ETag": f'"{found.digest}"',
        }
        if found.digest in request.headers.get("If-None-Match", ""):
            return web.Response(status=304, headers=headers)
        return web.Response(body=found.content, headers=headers)

    async def _put_manifest(
        self, request: web.Request, repository: str, target: str
    ) -> web.Response:
        content = await _read(request, self._store.settings.max_manifest)
        kind = request.headers.get("Content-Type", "")
        digest, subject = await asyncio.to_thread(
            self._store.put_manifest, repository, _target(target), content, kind
        )
        headers = {
            "Location": f"/v2/{repository}/manifests/{digest}",
            "Docker-Content-Digest": digest,
        }
        if subject:
            headers["OCI-Subject"] = subject
        return web.Response(status=201, headers=headers)

    async def _delete_manifest(
        self, request: web.Request, repository: str, target: str
    ) -> web.Response:
        await asyncio.to_thread(self._store.delete_manifest, repository, _target(target))
        return web.Response(status=202)

    async def _referrers(self, request: web.Request, repository: str, subject: str) -> web.Response:
        wanted = request.query.get("artifactType", "")
        most, after = _page(request)
        found, more = await asyncio.to_thread(
            self._store.referrers,
            repository,
            _checked(subject),
            kind=wanted,
            after=after,
            most=most,
        )
        body = await asyncio.to_thread(list_of, found)
        headers = {"Content-Type": IMAGE_INDEX}
        if wanted:
            headers["OCI-Filters-Applied"] = "artifactType"
        if more and found:
            query: dict[str, str | int] = {"n": most, "last": found[-1][0].digest}
            query |= {"artifactType": wanted} if wanted else {}
            headers |= link(f"/v2/{repository}/referrers/{subject}", query)
        return web.Response(body=body, headers=headers)

    # -- lists -----------------------------------------------------------------------------------

    async def _tags(self, request: web.Request, repository: str, name: str) -> web.Response:
        most, after = _page(request)
        found = await asyncio.to_thread(self._store.tags, repository, after=after, most=most + 1)
        if found is None:
            raise name_unknown(repository)
        link = next_page(f"/v2/{repository}/tags/list", found, most)
        return web.json_response({"name": repository, "tags": found[:most]}, headers=link)

    async def _repositories(self, request: web.Request) -> web.Response:
        await self._check(request, Action.read, "_catalog")
        most, after = _page(request)
        found = await asyncio.to_thread(self._store.repositories, after=after, most=most + 1)
        link = next_page("/v2/_catalog", found, most)
        return web.json_response({"repositories": found[:most]}, headers=link)


# -- reading requests ------------------------------------------------------------------------------


def _checked(digest: str) -> str:
    if not is_digest(digest):
        raise digest_invalid("a digest is sha256: and 64 hexadecimal digits")
    return digest


def _target(text: str) -> str:
    if ":" in text:
        return _checked(text)
    if not is_tag(text):
        raise Refused(400, "TAG_INVALID", f"{text[:100]!r} cannot be a tag")
    return text


async def _pieces(request: web.Request) -> AsyncIterator[bytes]:
    """The body as it comes. Raises Refused where nothing comes any more."""
    while True:
        try:
            async with asyncio.timeout(_SILENCE):
                piece = await request.content.readany()
        except TimeoutError:
            raise Refused(408, "BLOB_UPLOAD_INVALID", "nothing more was sent: go on") from None
        if not piece:
            return
        yield piece


async def _read(request: web.Request, limit: int) -> bytes:
    pieces, size = [], 0
    async for piece in _pieces(request):
        size += len(piece)
        if size > limit:
            raise too_large(f"a manifest may have {limit} bytes at most")
        pieces.append(piece)
    return b"".join(pieces)


def _check_range(request: web.Request, repository: str, upload: str, offset: int) -> None:
    written = request.headers.get("Content-Range", "")
    if not written:
        return
    match = re.fullmatch(r"(?:bytes[ =])?(\d{1,18})-(\d{1,18})(?:/.*)?", written)
    if match is None:
        raise Refused(400, "BLOB_UPLOAD_INVALID", "Content-Range must be FIRST-LAST")
    if int(match[1]) != offset:
        headers = dict(accepted(repository, upload, offset).headers)
        words = f"the upload has {offset} bytes: go on from there"
        raise Refused(416, "BLOB_UPLOAD_INVALID", words, headers)


def _page(request: web.Request) -> tuple[int, str]:
    number = request.query.get("n", "")
    if number and not (number.isdecimal() and len(number) < 10):
        raise Refused(400, "PAGINATION_NUMBER_INVALID", "n must be a number")
    return min(int(number), _PAGE) if number else _PAGE, request.query.get("last", "")
