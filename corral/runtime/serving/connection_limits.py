"""Limits on connections of HTTP servers: how many wait for a request, and for how long.

Neither aiohttp nor uvicorn bounds the time that a client takes to send the headers of a request:
sockets that are only held would stay for ever. Those that have sent no whole request yet make room
for each other, oldest first, so they keep nobody out. Silence between two requests is the server's
own business (keep-alive).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, Final, Protocol, cast

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

__all__ = ["ConnectionLimits", "LimitedRunner", "limited"]

HEADER_SECONDS: Final = 32.0
"""From the opening of a connection, or the first byte of a later request, to the last header."""
MOST_WAITING: Final = 512
MOST: Final = 16_384
"""Connections in all; more are closed as they come."""


class Transport(Protocol):
    """Of asyncio or uvloop."""

    def abort(self) -> None: ...


class ConnectionLimits:
    """The connections of one server."""

    def __init__(
        self,
        *,
        header_seconds: float = HEADER_SECONDS,
        most_waiting: int = MOST_WAITING,
        most: int = MOST,
    ) -> None:
        self._seconds, self._most_waiting, self._most = header_seconds, most_waiting, most
        self._open: set[asyncio.Protocol] = set()
        self._waiting: dict[asyncio.Protocol, tuple[Transport, asyncio.TimerHandle]] = {}
        """In the order in which they began to wait."""

    def opened(self, connection: asyncio.Protocol, transport: Transport) -> None:
        self._open.add(connection)
        if len(self._open) > self._most:
            transport.abort()
        else:
            self.waits(connection, transport)

    def waits(self, connection: asyncio.Protocol, transport: Transport) -> None:
        """A request has begun, and its headers are not complete."""
        if connection in self._waiting:
            return
        timer = asyncio.get_running_loop().call_later(self._seconds, transport.abort)
        self._waiting[connection] = transport, timer
        if len(self._waiting) > self._most_waiting:
            oldest = next(iter(self._waiting))
            self._waiting[oldest][0].abort()
            self.served(oldest)

    def served(self, connection: asyncio.Protocol) -> None:
        """The headers of its request are complete."""
        found = self._waiting.pop(connection, None)
        if found is not None:
            found[1].cancel()

    def closed(self, connection: asyncio.Protocol) -> None:
        self._open.discard(connection)
        self.served(connection)


class _Handler(RequestHandler):
    """The server's side of one connection of aiohttp."""

    __slots__ = ("_limits",)

    def __init__(self, limits: ConnectionLimits, server: web.Server, **options: Any) -> None:
        super().__init__(server, loop=asyncio.get_running_loop(), **options)
        self._limits = limits

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._limits.opened(self, cast(Transport, transport))

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._waiter is None or self._waiter.done() or self._messages:
            self._limits.served(self)
        elif self.transport is not None:
            self._limits.waits(self, self.transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._limits.closed(self)
        super().connection_lost(exc)


def limited(
    server: web.Server, *, limits: ConnectionLimits | None = None, **options: Any
) -> Callable[[], RequestHandler]:
    """Makes connections of a server of aiohttp, with limits, as the server itself does without."""
    return partial(_Handler, limits or ConnectionLimits(), server, **options)


class LimitedRunner(web.AppRunner):
    """Runs an application as `web.AppRunner`, with limits."""

    def __init__(
        self,
        app: web.Application,
        *,
        shutdown_timeout: float,
        limits: ConnectionLimits | None = None,
        **options: Any,
    ) -> None:
        """``options`` are those of connections, such as ``keepalive_timeout``."""
        self._of_connections: dict[str, Any] = {"access_log": None, **options}
        super().__init__(app, shutdown_timeout=shutdown_timeout, **self._of_connections)
        self._limits = limits or ConnectionLimits()

    @property
    def server(self) -> Any:
        """What sites listen with: makes connections."""
        if self._server is None:
            return None
        return limited(self._server, limits=self._limits, **self._of_connections)
