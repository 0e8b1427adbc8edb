"""Sending what is large: a slice at a time, the flows in turn.

Encrypting and writing two megabytes at once would hold the event loop for milliseconds.
"""

from __future__ import annotations

from typing import Final

from aiohttp import web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.payload import Payload

from corral.cluster.apiserver.paced import Paced

__all__ = ["Sending"]

SLICE: Final = 1 << 16
"""Bytes that are written in one turn of the event loop."""


class _Sliced(Payload):
    """A body that is written slice by slice."""

    def __init__(self, body: bytes, paced: Paced, flow: str, content_type: str) -> None:
        super().__init__(body, content_type=content_type)
        self._size = len(body)
        self._paced, self._flow = paced, flow

    async def write(self, writer: AbstractStreamWriter) -> None:
        body = memoryview(self._value)
        for start in range(0, len(body), SLICE):
            await self._paced.turn(self._flow)
            await writer.write(bytes(body[start : start + SLICE]))

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        return bytes(self._value).decode(encoding, errors)


class Sending:
    """The turns of all large answers of a server."""

    def __init__(self) -> None:
        self._paced = Paced()

    def slice(self, response: web.StreamResponse, flow: str) -> None:
        """Have a large answer written in slices."""
        if response.prepared or not isinstance(response, web.Response):
            return
        body = response.body
        if isinstance(body, bytes) and len(body) > SLICE:
            response.body = _Sliced(body, self._paced, flow, response.content_type)
