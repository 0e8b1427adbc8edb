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
from typing import Final

import orjson
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from corral.gateway.problems import MEDIA_TYPE, Problem

__all__ = ["RestServer"]

_TICK: Final = 1.0


class _Protocol(HttpToolsProtocol):
    """Refuses as the application does, where the application never sees the request."""

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

    def __init__(self, app: ASGIApp, *, context: ssl.SSLContext | None, grace: float) -> None:
        config = uvicorn.Config(
            app,
            http=_Protocol,
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
