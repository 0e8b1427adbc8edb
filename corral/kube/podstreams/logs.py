"""Pod logs as they come: raw pieces or whole lines."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

import aiohttp

from corral.kube.connection.transport import Transport
from corral.kube.resources import PODS

__all__ = [
    "LOG_COMPLETE_HEADER",
    "SINCE_EXACTLY",
    "LogRequest",
    "log_chunks",
    "log_lines",
    "open_log",
    "read_log",
]

LOG_COMPLETE_HEADER: Final = "Corral-Log-Whole"
"""Header of an answer whose end can be believed: one that was cut off does not end in order."""

SINCE_EXACTLY: Final = "corralSinceTime"
"""Query parameter of our own nodes and servers: a time in the form in which lines carry theirs."""


@dataclass(frozen=True, slots=True)
class LogRequest:
    """Which log and how much of it, in the words of the API."""

    pod: str
    namespace: str
    container: str = ""
    follow: bool = False
    previous: bool = False
    timestamps: bool = False
    tail_lines: int | None = None
    since_seconds: int | None = None
    since_time: str = ""
    """RFC 3339; not together with ``since_seconds``."""
    since_exactly: str = ""
    """The same to the nanosecond, in UTC, beside ``since_time``; most servers overlook it."""
    limit_bytes: int | None = None
    stream: str = ""
    """``Stdout``, ``Stderr`` or ``All`` where the server can tell them apart."""
    idle_timeout: float | None = None

    def query(self) -> list[tuple[str, str]]:
        values = {
            "container": self.container,
            "follow": "true" if self.follow else "",
            "previous": "true" if self.previous else "",
            "timestamps": "true" if self.timestamps else "",
            "tailLines": self.tail_lines,
            "sinceSeconds": self.since_seconds,
            "sinceTime": self.since_time,
            SINCE_EXACTLY: self.since_exactly,
            "limitBytes": self.limit_bytes,
            "stream": self.stream,
        }
        return [(key, str(value)) for key, value in values.items() if value not in (None, "")]


async def open_log(transport: Transport, request: LogRequest) -> aiohttp.ClientResponse:
    """Ask for a log; the caller must close the answer, and reads it with `read_log`.

    Raises:
        ApiError: the server refused.
        KubeConnectionError: there was no answer.
    """
    path = PODS.path(request.namespace, name=request.pod, subresource="log")
    return await transport.open_stream(
        path, query=request.query(), accept="*/*", idle_timeout=request.idle_timeout
    )


async def read_log(transport: Transport, response: aiohttp.ClientResponse) -> bytes:
    """What has arrived of it, at least a byte; empty when the server has ended it.

    Raises:
        KubeConnectionError: the connection was lost before the log ended.
    """
    try:
        return await response.content.readany()
    except (aiohttp.ClientError, TimeoutError, OSError) as e:
        raise transport.failure(e) from e


async def log_chunks(transport: Transport, request: LogRequest) -> AsyncGenerator[bytes, None]:
    """The log as it arrives, in pieces of any size.

    Raises:
        ApiError: the server refused.
        KubeConnectionError: the connection was lost before the log ended.
    """
    async with await open_log(transport, request) as response:
        while chunk := await read_log(transport, response):
            yield chunk


async def log_lines(transport: Transport, request: LogRequest) -> AsyncGenerator[str, None]:
    """The log line by line without line ends; a last line without one is yielded too."""
    pieces: list[bytes] = []
    async with aclosing(log_chunks(transport, request)) as chunks:
        async for chunk in chunks:
            head, newline, rest = chunk.rpartition(b"\n")
            if not newline:
                pieces.append(chunk)
                continue
            pieces.append(head)
            for line in b"".join(pieces).split(b"\n"):
                yield line.decode(errors="replace")
            pieces = [rest] if rest else []
    if pieces:
        yield b"".join(pieces).decode(errors="replace")
