"""Answers of others, read up to a limit: the bytes that came, what they unpack to, and their depth.

`AnswerTooLarge` is raised before the rest is read; nothing of the answer is in its message.
Private keys that others hand us are bounded too: reading one takes longer with its size, and
nothing else runs meanwhile.
"""

from __future__ import annotations

import json
import zlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import aiohttp

__all__ = ["IDENTITY", "AnswerTooLarge", "decoded", "key_bytes", "load_json", "read_body"]

IDENTITY: Final = {"Accept-Encoding": "identity"}
"""What asks for answers as they are; some send packed ones all the same."""
_MAX_KEY: Final = 4096
"""Characters of a private key; RSA with 4096 bits has fewer, and is read in a third of a second."""
_WINDOWS: Final = {"gzip": 31, "x-gzip": 31, "deflate": 15}


class AnswerTooLarge(OSError):
    """More was sent than is read."""


async def read_body(answer: aiohttp.ClientResponse, limit: int) -> bytes:
    """The body, unpacked; for sessions with ``auto_decompress=False``. Raises AnswerTooLarge."""
    pieces: list[bytes] = []
    size = 0
    async for piece in answer.content.iter_any():
        size += len(piece)
        if size > limit:
            raise AnswerTooLarge(f"{answer.url.host} answers with more than {limit} bytes")
        pieces.append(piece)
    data = b"".join(pieces)
    return decoded(data, answer.headers.get("Content-Encoding", ""), limit)


def decoded(data: bytes, encoding: str, limit: int) -> bytes:
    """What was packed, if that is within the limit. Raises AnswerTooLarge, OSError."""
    name = encoding.strip().lower()
    if name in ("", "identity"):
        return data
    window = _WINDOWS.get(name)
    if window is None:
        raise OSError("an answer is packed in a way that was not asked for")
    try:
        unpacked = zlib.decompressobj(window).decompress(data, limit + 1)
    except zlib.error as error:
        raise OSError("an answer cannot be unpacked") from error
    if len(unpacked) > limit:
        raise AnswerTooLarge(f"an answer unpacks to more than {limit} bytes")
    return unpacked


def load_json(data: bytes | str) -> Any:
    """A document of JSON. Raises ValueError, also where it is nested too deeply to be read."""
    try:
        return json.loads(data)
    except RecursionError:
        raise ValueError("a document is nested too deeply") from None


def key_bytes(text: str) -> bytes:
    """A private key as libraries take it. Raises ValueError: it is too long to be read here."""
    if len(text) > _MAX_KEY:
        raise ValueError("it is longer than keys of 4096 bits: use one of those")
    return text.encode()
