"""How the node gets to a port of a pod, for probes and hooks."""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

import aiohttp

__all__ = ["DIRECT", "Reach"]

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Reach(Protocol):
    """A way to the pod's ports."""

    def connector(self) -> aiohttp.BaseConnector: ...

    async def dial(self, host: str, port: int) -> Connection:
        """Raises OSError."""


class Direct:
    """By the network of this process."""

    def connector(self) -> aiohttp.BaseConnector:
        return aiohttp.TCPConnector(ssl=False, force_close=True)

    async def dial(self, host: str, port: int) -> Connection:
        return await asyncio.open_connection(host, port)


DIRECT: Final = Direct()
