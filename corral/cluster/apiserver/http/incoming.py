"""Reading request bodies: within a size, within a time, and not too many large ones at once."""

from __future__ import annotations

import asyncio
from collections import Counter

from aiohttp import web

from corral.cluster.apiserver.turns import too_many
from corral.kube import errors

__all__ = ["MAX_BODY", "Bodies", "check_small", "read_body"]

MAX_BODY = 3 * 2**20
BODY_SECONDS = 30.0
"""How long a client may take to send a body."""
SMALL_BODY = 64 * 1024
QUERY_COST = 16
"""Bytes of memory that one of a selector becomes; a watch keeps them as long as it lasts."""
BYTES_PER_FLOW = 48 * 2**20
BYTES = 256 * 2**20
BODY: web.RequestKey[bytes] = web.RequestKey("body", bytes)


class Bodies:
    """The large bodies in memory, by flow."""

    def __init__(self, *, per_flow: int = BYTES_PER_FLOW, most: int = BYTES) -> None:
        self._per_flow, self._most = per_flow, most
        self._held: Counter[str] = Counter()
        self._total = 0

    def hold(self, flow: str, request: web.BaseRequest) -> int:
        """Reserve room for a request's body and query; how much. Raises TooManyRequests."""
        size = request.content_length
        if size is None:
            size = MAX_BODY if request.can_read_body else 0
        size = min(size, MAX_BODY) + len(request.query_string) * QUERY_COST
        if size <= SMALL_BODY:
            return 0
        if self._held[flow] + size > self._per_flow or self._total + size > self._most:
            raise too_many()
        self._held[flow] += size
        self._total += size
        return size

    def release(self, flow: str, size: int) -> None:
        if size:
            self._total -= size
            self._held[flow] -= size
            if not self._held[flow]:
                del self._held[flow]


async def read_body(request: web.BaseRequest) -> bytes:
    """The whole body; 413 over the limit, before it is read where the client says its size."""
    known: bytes | None = request.get(BODY)
    if known is not None:
        return known
    if request.content_length is not None and request.content_length > MAX_BODY:
        raise _too_large()
    if not request.can_read_body:
        return b""
    if request.content.is_eof():
        body = await _read(request)
    else:
        try:
            async with asyncio.timeout(BODY_SECONDS):
                body = await _read(request)
        except TimeoutError:
            request.protocol.close()
            raise errors.Timeout(
                f"Timeout: the body of the request did not come within {BODY_SECONDS:.0f} seconds"
            ) from None
    request[BODY] = body
    return body


async def _read(request: web.BaseRequest) -> bytes:
    chunks: list[bytes] = []
    size = 0
    async for chunk in request.content.iter_any():
        size += len(chunk)
        if size > MAX_BODY:
            raise _too_large()
        chunks.append(chunk)
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def check_small(body: bytes, media: str) -> None:
    """Reviews, options and the like are small: long YAML, slow to read, is none of them."""
    if media.endswith("yaml") and len(body) > SMALL_BODY:
        raise errors.RequestEntityTooLarge(
            f"Request entity too large: limit is {SMALL_BODY} for such an object as YAML; send JSON"
        )


def _too_large() -> errors.RequestEntityTooLarge:
    return errors.RequestEntityTooLarge(f"Request entity too large: limit is {MAX_BODY}")
