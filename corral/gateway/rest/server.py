"""The HTTP server under the application: uvicorn with httptools, started and stopped by us.

Signals are the process's own business, so uvicorn gets none of them; and it wakes up once a second
instead of ten times. What is no HTTP, or has more than 64 KiB of headers, is a problem too.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Generator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final, cast

import orjson
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from corral.gateway.problems import MEDIA_TYPE, Problem
from corral.runtime.serving.connection_limits import ConnectionLimits

__all__ = ["RestServer"]

_TICK: Final = 1.0


class _Protocol(HttpToolsProtocol):
    """Refuses as the application does, where the application never sees the request."""

    def __init__(self, limits: ConnectionLimits, **options: Any) -> None:
        super().__init__(**options)
        self._limits = limits

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._limits.opened(self, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._limits.closed(self)
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        self._limits.waits(self, self.transport)
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._limits.served(self)
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        problem = Problem("bad-request", "this is no HTTP request, or its headers are too long")
        body = orjson.dumps(problem.as_object())
        head = (
            "HTTP/1.1 400 Bad Request\r\n"
            f"content-type: {MEDIA_TYPE}\r\n"
            f"content-length: {len(body)}\r\n"
            "connection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self.transport.close()


class _Quiet(uvicorn.Server):
    """A server without signals."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.over = asyncio.Event()
        self.serving = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.serving.set()

    async def main_loop(self) -> None:
        while not self.over.is_set():
            await self.on_tick(0)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_TICK):
                    await self.over.wait()


class RestServer:
    """Serves an application on a socket."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        context: ssl.SSLContext | None,
        grace: float,
        limits: ConnectionLimits | None = None,
    ) -> None:
        config = uvicorn.Config(
            app,
            http=cast(Any, partial(_Protocol, limits or ConnectionLimits())),
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=75,
            timeout_graceful_shutdown=max(1, round(grace)),
        )
        config.load()
        config.ssl = context
        self._server = _Quiet(config)

    def refuse_new(self) -> None:
        """Take no more connections."""
        for server in self._server.servers:
            server.close()

    @asynccontextmanager
    async def running(self, sock: socket.socket) -> AsyncIterator[None]:
        """Serve; at the end, requests may finish within the grace."""
        task = asyncio.create_task(self._server.serve([sock]))
        started = asyncio.create_task(self._server.serving.wait())
        try:
            await asyncio.wait({task, started}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                task.result()
            yield
        finally:
            started.cancel()
            self._server.over.set()
            await task
