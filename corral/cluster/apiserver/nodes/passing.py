"""Passing on what a backend sends: a piece at a time, the namespaces in turn.

A log or an answer without end is work for the event loop like any other: however many of them there
are, one piece goes out between two looks at the sockets.
"""

from __future__ import annotations

from typing import Final

import aiohttp
from aiohttp import web

from corral.cluster.apiserver.paced import Paced

__all__ = ["Passing"]

PIECE: Final = 1 << 16
"""Bytes that are passed on in one turn."""


class Passing:
    """The turns of all streams of a server."""

    def __init__(self) -> None:
        self._paced = Paced()

    async def copy(
        self, flow: str, answer: aiohttp.ClientResponse, response: web.StreamResponse
    ) -> None:
        """The whole body of an answer. Raises aiohttp.ClientError, ConnectionResetError."""
        async for chunk in answer.content.iter_any():
            for start in range(0, len(chunk), PIECE):
                await self._paced.turn(flow)
                await response.write(chunk[start : start + PIECE])
