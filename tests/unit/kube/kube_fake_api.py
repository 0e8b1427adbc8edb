"""A real HTTP server on loopback that plays the API server, and clients for it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import orjson
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from corral.kube.client import KubeClient
from corral.kube.connection.config import ClusterConfig
from corral.kube.connection.transport import ClientSettings

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass
class Seen:
    """One request as the server got it."""

    method: str
    path: str
    query: list[tuple[str, str]]
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return orjson.loads(self.body)


@dataclass
class FakeApi:
    """Answers every request with `handler` and records it."""

    handler: Handler
    server: TestServer
    seen: list[Seen] = field(default_factory=list)
    clients: list[KubeClient] = field(default_factory=list)

    @property
    def url(self) -> str:
        return str(self.server.make_url("/")).rstrip("/")

    def client(self, *, settings: ClientSettings | None = None, **config: Any) -> KubeClient:
        settings = settings or ClientSettings(reset_backoff=0.0)
        client = KubeClient(
            ClusterConfig(**{"server": self.url, **config}),
            settings=settings,
            on_warning=self.warnings.append,
        )
        self.clients.append(client)
        return client

    warnings: list[str] = field(default_factory=list)


@pytest.fixture
async def serve() -> AsyncIterator[Callable[..., Awaitable[FakeApi]]]:
    started: list[FakeApi] = []

    async def start(handler: Handler, *, ssl: Any = None) -> FakeApi:
        async def record(request: web.Request) -> web.StreamResponse:
            body = await request.read() if request.can_read_body else b""
            api.seen.append(
                Seen(
                    request.method,
                    request.raw_path.partition("?")[0],
                    list(request.query.items()),
                    dict(request.headers),
                    body,
                )
            )
            return await api.handler(request)

        app = web.Application()
        app.router.add_route("*", "/{path:.*}", record)
        server = TestServer(app, scheme="https" if ssl else "http")
        api = FakeApi(handler, server)
        started.append(api)
        await server.start_server(**({"ssl": ssl} if ssl else {}))
        return api

    yield start
    for api in started:
        for client in api.clients:
            await client.close()
        await api.server.close()


def answer(value: Any, status: int = 200, **headers: str) -> web.Response:
    named = {key.replace("_", "-"): text for key, text in headers.items()}
    return web.json_response(value, status=status, headers=named)


def refuse(code: int, reason: str, message: str = "no", **headers: str) -> web.Response:
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "reason": reason,
        "message": message,
        "code": code,
    }
    return answer(status, code, **headers)
