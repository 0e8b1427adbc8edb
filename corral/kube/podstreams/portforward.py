"""Forward TCP connections to a pod, over the WebSocket channel form of port-forward.

One WebSocket carries one connection: data on channel 0, the server's error text on channel 1. Each
channel begins with the port number in two bytes. The form has no half-close, so after the local
side has ended, what the pod still sends is delivered until it is quiet.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import struct
from types import TracebackType

import aiohttp

from corral.kube.connection.transport import KubeConnectionError, Transport
from corral.kube.errors import ApiError
from corral.kube.resources import PODS

__all__ = ["PodConnection", "PortForward"]

logger = logging.getLogger(__name__)

PROTOCOL = "v4.channel.k8s.io"
DATA, ERROR = 0, 1
READ_SIZE = 64 * 1024
LINGER_SECONDS = 5.0
"""How long a pod may be quiet after the local side has ended."""


class PodConnection:
    """One connection to one port of a pod."""

    def __init__(self, transport: Transport, pod: str, *, namespace: str, port: int) -> None:
        self._transport = transport
        self._path = PODS.path(namespace, name=pod, subresource="portforward")
        self._port = port
        self._socket: aiohttp.ClientWebSocketResponse | None = None
        self._greeted: set[int] = set()

    async def __aenter__(self) -> PodConnection:
        self._socket = await self._transport.open_websocket(
            self._path, query=[("ports", str(self._port))], protocols=(PROTOCOL,)
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._socket is not None:
            await self._socket.close()

    async def send(self, data: bytes) -> None:
        assert self._socket is not None, "use `async with`"
        try:
            await self._socket.send_bytes(bytes([DATA]) + data)
        except (aiohttp.ClientError, OSError) as e:
            raise self._transport.failure(e) from e

    async def receive(self) -> bytes:
        """The next bytes from the pod; empty when it has ended the connection.

        Raises:
            KubeConnectionError: the server could not forward, or the connection was lost.
        """
        assert self._socket is not None, "use `async with`"
        while True:
            message = await self._socket.receive()
            if message.type in _ENDED:
                return b""
            if message.type is not aiohttp.WSMsgType.BINARY:
                raise KubeConnectionError(f"port-forward sent a {message.type.name} message")
            channel, data = message.data[0], message.data[1:]
            if channel not in self._greeted:
                self._greet(channel, data)
            elif channel == ERROR:
                raise KubeConnectionError(data.decode(errors="replace"))
            elif data:
                return bytes(data)

    def _greet(self, channel: int, data: bytes) -> None:
        if len(data) != 2 or struct.unpack("<H", data)[0] != self._port:
            raise KubeConnectionError(f"port-forward answered for another port than {self._port}")
        self._greeted.add(channel)


_ENDED = (aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSING, aiohttp.WSMsgType.CLOSED)


class PortForward:
    """A local TCP listener, each connection of which goes to a port of a pod."""

    def __init__(
        self,
        transport: Transport,
        pod: str,
        *,
        namespace: str,
        port: int,
        local_port: int = 0,
        address: str = "127.0.0.1",
    ) -> None:
        self._transport = transport
        self._pod = pod
        self._namespace = namespace
        self._remote_port = port
        self._wanted = (address, local_port)
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self.local_port = 0
        """The port that is listened on, once started."""
        self.last_error: Exception | None = None
        """Why the last connection failed, where one did."""

    async def __aenter__(self) -> PortForward:
        self._server = await asyncio.start_server(self._accept, *self._wanted)
        self.local_port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._server is not None
        self._server.close()
        for task in list(self._connections):
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        await self._server.wait_closed()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            await self._forward(reader, writer)
        except (ApiError, KubeConnectionError, OSError) as e:
            self.last_error = e
            logger.warning("port %d of pod %s: %s", self._remote_port, self._pod, e)
        finally:
            self._connections.discard(task)
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = PodConnection(
            self._transport, self._pod, namespace=self._namespace, port=self._remote_port
        )
        async with connection:
            local_ended = asyncio.Event()
            down = asyncio.create_task(_copy_down(connection, writer, local_ended))
            up = asyncio.create_task(_copy_up(reader, connection, local_ended))
            try:
                await down
            finally:
                for task in (up, down):
                    task.cancel()
                await asyncio.gather(up, down, return_exceptions=True)


async def _copy_up(
    reader: asyncio.StreamReader, connection: PodConnection, ended: asyncio.Event
) -> None:
    try:
        while data := await reader.read(READ_SIZE):
            await connection.send(data)
    finally:
        ended.set()


async def _copy_down(
    connection: PodConnection, writer: asyncio.StreamWriter, local_ended: asyncio.Event
) -> None:
    ended = asyncio.create_task(local_ended.wait())
    receiving = asyncio.create_task(connection.receive())
    try:
        while True:
            waiting = {receiving} if ended.done() else {receiving, ended}
            done, _ = await asyncio.wait(
                waiting,
                timeout=LINGER_SECONDS if ended.done() else None,
                return_when=asyncio.FIRST_COMPLETED,
            )
            if not done:
                return
            if receiving in done:
                data = receiving.result()
                if not data:
                    return
                writer.write(data)
                await writer.drain()
                receiving = asyncio.create_task(connection.receive())
    finally:
        for task in (ended, receiving):
            task.cancel()
        await asyncio.gather(ended, receiving, return_exceptions=True)
