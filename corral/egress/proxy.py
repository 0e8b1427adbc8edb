"""A proxy on loopback for clients whose connections this process cannot make itself.

The clients of object stores resolve and connect on their own, follow redirects, and take a proxy.
This one makes their connections as the policy permits. It serves whoever has an address that
`grant` gave, for a while and for so many bytes: a server that never ends an answer ends with it. It
has a thread and a loop of its own, since its clients block theirs.

``CONNECT`` is a tunnel to one address; a request without TLS is sent on with ``Connection: close``,
so that each one is checked.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hmac
import logging
import secrets
import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from corral.egress.dialing import checked_async, open_connection
from corral.egress.policy import EgressPolicy, EndpointRefused, host_and_port

__all__ = ["GuardingProxy"]

logger = logging.getLogger(__name__)

_HEAD: Final = 64 << 10
_CHUNK: Final = 256 << 10
_CONNECT_S: Final = 15.0
_ALONE_S: Final = 300.0
"""How long a server may go on answering a client that has sent everything."""
_DROPPED: Final = (b"proxy-", b"connection:", b"keep-alive:")


@dataclass(slots=True)
class _Grant:
    """What one client may do."""

    until: float
    """Of the loop's clock."""
    left: int
    """Bytes that servers may still send it."""


class GuardingProxy:
    """Runs from `start` to `close`."""

    def __init__(self, policy: EgressPolicy) -> None:
        self._policy = policy
        self._grants: dict[bytes, _Grant] = {}
        """By what their clients send; forgotten when they are over."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._port: Future[int] = Future()

    def grant(self, *, seconds: float = 600.0, size: int = 512 << 20) -> str:
        """An address for one client, with a password; good for so long, and so many bytes."""
        port = self._port.result(timeout=30)
        password = secrets.token_urlsafe(24)
        now = time.monotonic()  # what the loop goes by
        for over in [key for key, each in list(self._grants.items()) if each.until <= now]:
            self._grants.pop(over, None)
        shown = base64.b64encode(f"corral:{password}".encode())
        self._grants[shown] = _Grant(now + seconds, size)
        return f"http://corral:{password}@127.0.0.1:{port}"

    def start(self) -> None:
        threading.Thread(target=self._run, name="corral-egress", daemon=True).start()

    def close(self) -> None:
        """End every connection; the thread ends by itself."""
        loop = self._loop
        if loop is not None and not loop.is_closed():
            with contextlib.suppress(RuntimeError):  # it ended in between
                loop.call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        for task in list(self._tasks):
            task.cancel()

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except asyncio.CancelledError:
            return

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        own = asyncio.current_task()
        assert own is not None
        self._tasks.add(own)
        try:
            server = await asyncio.start_server(self._client, "127.0.0.1", 0, limit=_HEAD)
        except OSError as error:
            self._port.set_exception(error)
            return
        self._port.set_result(server.sockets[0].getsockname()[1])
        try:
            await asyncio.Event().wait()
        finally:
            server.close()

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._answer(reader, writer)
        except (OSError, EOFError, asyncio.LimitOverrunError, TimeoutError) as error:
            logger.debug("a connection through the proxy ended: %s", error)
        except asyncio.CancelledError:
            return
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(_CONNECT_S):
            head = await reader.readuntil(b"\r\n\r\n")
        first, *lines = head[:-4].split(b"\r\n")
        method, _, rest = first.partition(b" ")
        target = rest.rpartition(b" ")[0].decode("ascii", "replace")
        grant = self._known(lines)
        if grant is None:
            await _refuse(writer, b"407 Proxy Authentication Required")
            return
        try:
            async with asyncio.timeout(_CONNECT_S):
                far = await self._connect(method, target)
        except EndpointRefused as error:
            logger.info("refused: %s", error)
            await _refuse(writer, b"403 Forbidden")
            return
        except (OSError, TimeoutError):
            await _refuse(writer, b"502 Bad Gateway")
            return
        if method == b"CONNECT":
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            far[1].write(_forwarded(method, target, lines))
        try:
            async with asyncio.timeout_at(grant.until):
                await _both(reader, writer, *far, grant=grant)
        finally:
            far[1].close()

    async def _connect(
        self, method: bytes, target: str
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        url = f"https://{target}" if method == b"CONNECT" else target
        host, port = host_and_port(url)
        if method != b"CONNECT":
            await checked_async(self._policy, url)
        return await open_connection(self._policy, host, port, limit=_HEAD)

    def _known(self, lines: list[bytes]) -> _Grant | None:
        given = next((line for line in lines if line.lower().startswith(b"proxy-auth")), b"")
        shown = given.rpartition(b" ")[2].strip()
        for key, grant in list(self._grants.items()):
            if hmac.compare_digest(key, shown) and grant.until > time.monotonic():
                return grant
        return None


def _forwarded(method: bytes, target: str, lines: list[bytes]) -> bytes:
    """The request as a server takes it."""
    parts = urlsplit(target)
    path = parts.path or "/"
    if parts.query:
        path += f"?{parts.query}"
    kept = [line for line in lines if not line.lower().startswith(_DROPPED)]
    first = b" ".join([method, path.encode(), b"HTTP/1.1"])
    return b"\r\n".join([first, *kept, b"Connection: close", b"", b""])


async def _refuse(writer: asyncio.StreamWriter, status: bytes) -> None:
    writer.write(b"HTTP/1.1 " + status + b"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
    await writer.drain()


async def _both(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    far_reader: asyncio.StreamReader,
    far_writer: asyncio.StreamWriter,
    *,
    grant: _Grant,
) -> None:
    """Copy both ways until the server has ended; one that goes on alone is left after a while."""
    up = asyncio.create_task(_copy(reader, far_writer))
    down = asyncio.create_task(_copy(far_reader, writer, grant))
    try:
        await asyncio.wait({up, down}, return_when=asyncio.FIRST_COMPLETED)
        if not down.done():
            await asyncio.wait({down}, timeout=_ALONE_S)
    finally:
        up.cancel()
        down.cancel()
        await asyncio.gather(up, down, return_exceptions=True)


async def _copy(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, grant: _Grant | None = None
) -> None:
    while data := await reader.read(_CHUNK):
        if grant is not None:
            grant.left -= len(data)
            if grant.left < 0:
                grant.until = 0.0  # whoever has it gets another when its store is opened anew
                return
        writer.write(data)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()
