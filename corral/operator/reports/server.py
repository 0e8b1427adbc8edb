"""Serving the report endpoint, with or without TLS."""

from __future__ import annotations

import asyncio
import ssl
from types import TracebackType
from typing import Self

from aiohttp import web

from corral.operator.reports.service import ReportService
from corral.operator.reports.view import report_app
from corral.runtime.serving.connection_limits import LimitedRunner

__all__ = ["ReportServer"]

GRACE = 5.0
"""Seconds for requests that are going on at the end."""


class ReportServer:
    """Serves within ``async with``; `port` says where, if any free one was asked for."""

    def __init__(
        self,
        service: ReportService,
        *,
        host: str = "0.0.0.0",
        port: int = 0,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.service = service
        self.port = port
        self._host = host
        self._tls = tls
        self._runner: web.AppRunner | None = None
        self._writer: asyncio.Task[None] | None = None

    @property
    def failed(self) -> str:
        """Why it should be restarted; empty while it is well. For a health check."""
        if self._writer is None or not self._writer.done() or self._writer.cancelled():
            return ""
        return f"progress is not written any more: {self._writer.exception()!r}"

    async def __aenter__(self) -> Self:
        """Begin to serve.

        Raises:
            OSError: the address cannot be had.
        """
        runner = LimitedRunner(
            report_app(self.service), shutdown_timeout=GRACE, keepalive_timeout=75
        )
        await runner.setup()
        try:
            site = web.TCPSite(runner, self._host, self.port, ssl_context=self._tls)
            await site.start()
        except BaseException:
            await runner.cleanup()
            raise
        self._runner = runner
        self.port = runner.addresses[0][1]
        self._writer = asyncio.create_task(self.service.run(), name="report progress")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._runner is not None and self._writer is not None
        await self._runner.cleanup()
        self._writer.cancel()
        await asyncio.gather(self._writer, return_exceptions=True)
