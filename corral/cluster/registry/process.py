"""A registry as a process: serves on a socket that listens already, until it is asked to stop."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from corral.cluster.registry.access import Access
from corral.cluster.registry.app import RegistryApp
from corral.cluster.registry.store import Store
from corral.runtime.serving.connection_limits import LimitedRunner

__all__ = ["serving"]

logger = logging.getLogger(__name__)


@asynccontextmanager
async def serving(
    store: Store,
    access: Access,
    sock: socket.socket,
    *,
    tls: ssl.SSLContext | None = None,
    grace: float = 5.0,
) -> AsyncIterator[int]:
    """Serve a store; gives the port. Requests under way have the grace to finish at the end."""
    runner = LimitedRunner(RegistryApp(store, access).application(), shutdown_timeout=grace)
    await runner.setup()
    collecting = asyncio.create_task(_collect(store))
    try:
        await web.SockSite(runner, sock, ssl_context=tls).start()
        port: int = sock.getsockname()[1]
        yield port
    finally:
        collecting.cancel()
        await asyncio.gather(collecting, return_exceptions=True)
        await runner.cleanup()
        await access.close()


async def _collect(store: Store) -> None:
    """Remove what nobody needs, for ever."""
    while True:
        await asyncio.sleep(store.settings.collect_every)
        try:
            await asyncio.to_thread(store.collect)
        except Exception:
            logger.exception("the registry could not be collected; it is tried again")
