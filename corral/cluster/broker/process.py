"""A broker as a process of its own, until SIGTERM."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Callable
from typing import Any

from corral.cluster.broker.server import Broker
from corral.cluster.broker.settings import BrokerSettings

__all__ = ["serve", "stop_signal"]


def stop_signal() -> asyncio.Event:
    """Set by SIGTERM and SIGINT."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    return stop


async def serve(
    settings: BrokerSettings,
    ready: Callable[[dict[str, Any]], None],
    *,
    stop: asyncio.Event,
    sock: socket.socket | None = None,
) -> None:
    """Serve until told to stop; ``ready`` is told the address.

    Raises:
        DataError: the data folder cannot be used.
        OSError: nor can the port.
    """
    broker = Broker(settings)
    try:
        await broker.start(sock)
        host, port = broker.address
        ready({"bootstrap": f"[{host}]:{port}" if ":" in host else f"{host}:{port}"})
        await stop.wait()
    finally:
        await broker.stop()
