"""A registry in memory that can be told to fail: tokens, broken connections, lies."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web


def sha(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


@dataclass
class FakeRegistry:
    """What it holds, what it was asked, and how it behaves."""

    blobs: dict[tuple[str, str], bytes] = field(default_factory=dict)
    manifests: dict[tuple[str, str], tuple[bytes, str]] = field(default_factory=dict)
    uploads: dict[str, bytearray] = field(default_factory=dict)
    asked: list[tuple[str, str]] = field(default_factory=list)
    shown: list[str] = field(default_factory=list)
    """Authorization headers."""
    basic: str = ""
    """``user:password`` that is wanted by Basic."""
    bearer: str = ""
    """A token that is wanted; to be bought at /token with ``user:password``."""
    buyer: str = ""
    forms: list[dict[str, str]] = field(default_factory=list)
    scopes: list[str] = field(default_factory=list)
    break_after: list[int] = field(default_factory=list)
    """Bytes after which downloads break off, one after the other."""
    keep_of_patch: list[int] = field(default_factory=list)
    """Bytes of a PATCH that are kept before the connection is cut, one after the other."""
    refuse: list[tuple[str, str, int]] = field(default_factory=list)
    """Method, part of the path, status: each is refused once."""
    ranges: bool = True
    lie: Callable[[bytes], bytes] = bytes
    """What is done to blobs on the way out."""
    redirect_to: str = ""
    url: str = ""

    def count(self, method: str, part: str = "") -> int:
        return sum(1 for one, path in self.asked if one == method and part in path)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        path = request.path
        self.asked.append((request.method, path))
        if path == "/token":
            return await self._token(request)
        self.shown.append(request.headers.get("Authorization", ""))
        refusal = self._unauthorized(request)
        if refusal is not None:
            return refusal
        for method, part, status in self.refuse:
            if method == request.method and part in path:
                self.refuse.remove((method, part, status))
                body = {"errors": [{"code": "SCRIPTED", "message": "as asked"}]}
                return web.json_response(body, status=status, headers={"Retry-After": "0"})
        rest = path.removeprefix("/v2/")
        for marker, serve in (
            ("/blobs/uploads/", self._upload),
            ("/blobs/", self._blob),
            ("/manifests/", self._manifest),
            ("/tags/", self._tags),
        ):
            if marker in rest:
                repository, _, name = rest.partition(marker)
                return await serve(request, repository, name)
        return web.Response(status=404)

    def _unauthorized(self, request: web.Request) -> web.Response | None:
        given = request.headers.get("Authorization", "")
        if self.basic and given != "Basic " + base64.b64encode(self.basic.encode()).decode():
            return web.Response(status=401, headers={"WWW-Authenticate": 'Basic realm="fake"'})
        if self.bearer and given != f"Bearer {self.bearer}":
            realm = f'Bearer realm="{self.url}/token",service="fake, really"'
            return web.Response(status=401, headers={"WWW-Authenticate": realm})
        return None

    async def _token(self, request: web.Request) -> web.Response:
        if request.method == "POST":
            form = {name: str(value) for name, value in (await request.post()).items()}
            self.forms.append(form)
            return web.json_response({"access_token": self.bearer, "expires_in": 300})
        self.scopes.append(request.query.get("scope", ""))
        wanted = "Basic " + base64.b64encode(self.buyer.encode()).decode()
        if self.buyer and request.headers.get("Authorization") != wanted:
            return web.Response(status=401)
        return web.json_response({"token": self.bearer, "expires_in": 300})

    async def _blob(self, request: web.Request, repository: str, digest: str) -> web.StreamResponse:
        content = self.blobs.get((repository, digest))
        if content is None:
            return web.Response(status=404)
        if self.redirect_to:
            return web.Response(status=307, headers={"Location": self.redirect_to + request.path})
        content = self.lie(content)
        if request.method == "HEAD":
            return web.Response(headers={"Content-Length": str(len(content))})
        start = 0
        headers = {}
        asked = request.headers.get("Range", "")
        if asked and self.ranges:
            start = int(asked.removeprefix("bytes=").rstrip("-"))
            headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
        rest = content[start:]
        response = web.StreamResponse(status=206 if headers else 200, headers=headers)
        response.content_length = len(rest)
        await response.prepare(request)
        if self.break_after:
            await response.write(rest[: self.break_after.pop(0)])
            assert request.transport is not None
            request.transport.close()
            return response
        await response.write(rest)
        await response.write_eof()
        return response

    async def _upload(self, request: web.Request, repository: str, name: str) -> web.Response:
        if request.method == "POST":
            mount = (request.query.get("from", ""), request.query.get("mount", ""))
            if mount in self.blobs:
                self.blobs[repository, mount[1]] = self.blobs[mount]
                return web.Response(status=201)
            name = f"u{len(self.uploads)}"
            self.uploads[name] = bytearray()
        if name not in self.uploads:
            return web.Response(status=404)
        held = self.uploads[name]
        headers = {"Location": f"/v2/{repository}/blobs/uploads/{name}?state=1"}
        if request.method == "PATCH":
            start = int(request.headers["Content-Range"].partition("-")[0])
            if start != len(held):
                return web.Response(status=416, headers=headers)
            if self.keep_of_patch:
                keep = self.keep_of_patch.pop(0)
                held += await request.content.readexactly(keep)
                assert request.transport is not None
                request.transport.abort()
                return web.Response(status=500)
            held += await request.read()
        if request.method == "PUT":
            held += await request.read()
            digest = request.query["digest"]
            if sha(bytes(held)) != digest:
                error = {"errors": [{"code": "DIGEST_INVALID", "message": "no"}]}
                return web.json_response(error, status=400)
            self.blobs[repository, digest] = bytes(held)
            return web.Response(status=201)
        headers["Range"] = f"0-{max(len(held) - 1, 0)}"
        status = {"POST": 202, "PATCH": 202}.get(request.method, 204)
        return web.Response(status=status, headers=headers)

    async def _manifest(self, request: web.Request, repository: str, name: str) -> web.Response:
        if request.method == "PUT":
            raw = await request.read()
            kind = request.headers["Content-Type"]
            for key in (name, sha(raw)):
                self.manifests[repository, key] = raw, kind
            return web.Response(status=201, headers={"Docker-Content-Digest": sha(raw)})
        if (repository, name) not in self.manifests:
            return web.Response(status=404)
        if request.method == "DELETE":
            del self.manifests[repository, name]
            return web.Response(status=202)
        raw, kind = self.manifests[repository, name]
        return web.Response(body=self.lie(raw), headers={"Content-Type": kind})

    async def _tags(self, request: web.Request, repository: str, name: str) -> web.Response:
        tags = sorted(t for r, t in self.manifests if r == repository and ":" not in t)
        last = request.query.get("last", "")
        page = [tag for tag in tags if tag > last][:2]
        headers = {}
        if page and page[-1] != tags[-1]:
            headers["Link"] = f'</v2/{repository}/tags/list?n=2&last={page[-1]}>; rel="next"'
        content = json.dumps({"name": repository, "tags": page}).encode()
        return web.Response(body=content, headers=headers)


@asynccontextmanager
async def serving(registry: FakeRegistry) -> AsyncIterator[FakeRegistry]:
    app = web.Application(client_max_size=1 << 30)
    app.router.add_route("*", "/{rest:.*}", registry.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    registry.url = f"http://127.0.0.1:{port}"
    try:
        yield registry
    finally:
        await runner.cleanup()
