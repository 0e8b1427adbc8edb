"""Connections that are passed on to a target, and those that cannot be."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
import uvloop

from corral.cluster.node.network.services.forwarding import Connections, TcpForwarder
from corral.cluster.node.network.services.targets import Target, Targets


class Loopback:
    """Targets are on this machine."""

    async def connect(self, target: Target, kind: socket.SocketKind) -> socket.socket:
        sock = socket.socket(socket.AF_INET, kind)
        sock.setblocking(False)
        try:
            await asyncio.get_running_loop().sock_connect(sock, target)
        except OSError:
            sock.close()
            raise
        return sock


@asynccontextmanager
async def forwarding(target: Target) -> AsyncIterator[int]:
    """A port from which connections go to the target."""
    targets = Targets()
    targets.put("one", (target,))
    connections = Connections()
    forwarder = TcpForwarder(lambda: targets, Loopback(), connections)
    front = socket.create_server(("127.0.0.1", 0))
    front.setblocking(False)
    port = int(front.getsockname()[1])
    await forwarder.open(front)
    try:
        yield port
    finally:
        forwarder.close()
        await connections.end()


async def answer(port: int, ask: bytes = b"") -> bytes:
    """All that a client hears."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(ask)
        async with asyncio.timeout(30):
            return await reader.read()
    finally:
        writer.close()


async def test_both_ways() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"answer to " + await reader.readline())
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server, forwarding(Target(*server.sockets[0].getsockname())) as port:
        assert await answer(port, b"ask\n") == b"answer to ask\n"


async def test_nobody_behind_is_no_empty_answer() -> None:
    """A target that refuses, as a server that has not begun yet, is a failure to the client."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))  # nobody listens
        async with forwarding(Target(*bound.getsockname())) as port:
            with pytest.raises(ConnectionError):
                await answer(port)


async def test_broken_off_is_broken_off() -> None:
    """So is one that was killed in the middle of its answer."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        sock = writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        await reader.readline()
        writer.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server, forwarding(Target(*server.sockets[0].getsockname())) as port:
        with pytest.raises(ConnectionError):
            await answer(port, b"ask\n")


async def says_it_back(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(await reader.read())
    writer.close()
    await writer.wait_closed()


async def impatient(port: int, said: bytes) -> bytes:
    """What comes back to a client that says all at once, and that it has said it."""
    loop = asyncio.get_running_loop()
    with socket.socket() as sock:
        sock.setblocking(False)
        await loop.sock_connect(sock, ("127.0.0.1", port))
        await loop.sock_sendall(sock, said)
        sock.shutdown(socket.SHUT_WR)
        heard = b""
        async with asyncio.timeout(30):
            while data := await loop.sock_recv(sock, 65536):
                heard += data
        return heard


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_what_was_said_before_there_was_a_target(
    loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    async def scene() -> None:
        server = await asyncio.start_server(says_it_back, "127.0.0.1", 0)
        async with server, forwarding(server.sockets[0].getsockname()) as port:
            said = [b"client %d" % number for number in range(200)]
            heard = await asyncio.gather(*(impatient(port, one) for one in said))
            assert heard == said

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(scene())
