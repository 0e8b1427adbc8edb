"""Passing on connections and datagrams, byte for byte.

A TCP connection is joined to one with a target: the slower side slows the other down, and the end
of one direction is passed on while the other goes on. A target that refuses is replaced by another
before the client notices. Datagrams of one client go to one target until it has been silent for a
while.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Protocol, cast

from corral.cluster.node.network.services.targets import Target, Targets

logger = logging.getLogger(__name__)

_TRIES: Final = 4
_CONNECT_SECONDS: Final = 10.0
_UDP_SECONDS: Final = 60.0
_MAX_UDP_CLIENTS: Final = 4096
_MAX_WAITING: Final = 64
"""Datagrams of one client that wait for its target."""


class Dialer(Protocol):
    """Makes sockets in the network in which a target is."""

    async def connect(self, target: Target, kind: socket.SocketKind) -> socket.socket:
        """A connected socket. Raises OSError."""


# -- TCP -------------------------------------------------------------------------------------------


class _Side(asyncio.Protocol):
    """One of two joined connections."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.other: _Side | None = None
        self.finished = False
        """It has sent everything."""
        self.early: list[bytes] = []
        """What it has sent before there was another side."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if self.other is None:
            self.early.append(data)
        elif self.other.transport is not None:
            self.other.transport.write(data)

    def eof_received(self) -> bool:
        self.finished = True
        other = self.other
        if other is None:
            return True  # it may still be answered
        if other.transport is None or other.transport.is_closing():
            return False
        if other.finished:
            other.transport.close()
            return False
        with suppress(OSError):
            other.transport.write_eof()
        return True

    def pause_writing(self) -> None:
        if self.other is not None and self.other.transport is not None:
            self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        if self.other is not None and self.other.transport is not None:
            self.other.transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        other, self.other = self.other, None
        if other is None or other.transport is None:
            return
        if exc is not None:
            _reset(other.transport)
        else:
            other.transport.close()


def _reset(transport: asyncio.Transport) -> None:
    """Break off so that the other end sees a failure, and not the end of an answer."""
    sock = transport.get_extra_info("socket")
    with suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()


class Connections:
    """Every connection that is being passed on, and the tasks that find targets for new ones."""

    def __init__(self) -> None:
        self.fronts: set[_Front] = set()
        self.tasks: set[asyncio.Task[None]] = set()

    async def end(self) -> None:
        """Break them all off."""
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        for front in list(self.fronts):
            if front.transport is not None:
                front.transport.abort()
        while self.fronts:  # noqa: ASYNC110 (each says so itself, in the next turn of the loop)
            await asyncio.sleep(0)


class _Front(_Side):
    """The client's connection."""

    def __init__(self, server: TcpForwarder) -> None:
        super().__init__()
        self._server = server

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        loop = asyncio.get_running_loop()
        # not at once: some loops begin to read only after this method, paused or not; and some
        # have read something by then
        loop.call_soon(cast(asyncio.Transport, transport).pause_reading)
        self._server.connections.fronts.add(self)
        task = loop.create_task(self._server.join(self))
        self._server.connections.tasks.add(task)
        task.add_done_callback(self._server.connections.tasks.discard)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._server.connections.fronts.discard(self)


class TcpForwarder:
    """One listening socket."""

    def __init__(
        self, targets: Callable[[], Targets | None], dialer: Dialer, connections: Connections
    ) -> None:
        self._targets = targets
        self._dialer = dialer
        self.connections = connections
        self._server: asyncio.Server | None = None

    async def open(self, sock: socket.socket) -> None:
        """Serve a bound socket."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: _Front(self), sock=sock, backlog=1024, start_serving=False
        )
        await self._server.start_serving()

    def close(self) -> None:
        """Take no more connections; those that are joined go on."""
        if self._server is not None:
            self._server.close()

    async def join(self, front: _Front) -> None:
        """Find a target for a client that has connected."""
        client = front.transport
        assert client is not None
        peer = str((client.get_extra_info("peername") or ("",))[0])
        try:
            sock, _ = await dial(
                self._targets(), self._dialer, client=peer, kind=socket.SOCK_STREAM
            )
        except OSError as err:
            logger.debug("a connection of %s was not passed on: %s", peer, err)
            _reset(client)
            return
        if client.is_closing():
            sock.close()
            return
        back = _Side()
        back.other = front
        try:
            await asyncio.get_running_loop().create_connection(lambda: back, sock=sock)
        except OSError:
            sock.close()
            _reset(client)
            return
        assert back.transport is not None
        if client.is_closing():
            back.transport.abort()
            return
        front.other = back
        back.transport.writelines(front.early)
        front.early.clear()
        if front.finished:
            back.transport.write_eof()
        client.resume_reading()


async def dial(
    targets: Targets | None, dialer: Dialer, *, client: str, kind: socket.SocketKind
) -> tuple[socket.socket, Target]:
    """A socket that is connected to one of the targets. Raises OSError when none answers."""
    failed: set[Target] = set()
    problem: OSError = ConnectionRefusedError("no endpoint is ready")
    for _ in range(_TRIES):
        target = targets.pick(client, failed=frozenset(failed)) if targets is not None else None
        if target is None or target in failed:
            break
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                return await dialer.connect(target, kind), target
        except OSError as err:  # TimeoutError is one
            failed.add(target)
            problem = err
    raise problem


# -- UDP -------------------------------------------------------------------------------------------


class _Reply(asyncio.DatagramProtocol):
    """From a target back to the client."""

    def __init__(self, session: _Session) -> None:
        self._session = session

    def datagram_received(self, data: bytes, addr: object) -> None:
        self._session.answered(data)

    def error_received(self, exc: Exception) -> None:
        self._session.forwarder.forget(self._session.client)


class _Session:
    """One client's datagrams."""

    def __init__(self, forwarder: UdpForwarder, client: tuple[str, int]) -> None:
        self.forwarder = forwarder
        self.client = client
        self.seen = 0.0
        self.transport: asyncio.DatagramTransport | None = None
        self.target: Target | None = None
        self.waiting: list[bytes] = []
        self.task: asyncio.Task[None] | None = None

    def send(self, data: bytes) -> None:
        if self.transport is not None:
            self.transport.sendto(data)
        elif len(self.waiting) < _MAX_WAITING:
            self.waiting.append(data)

    def answered(self, data: bytes) -> None:
        self.seen = self.forwarder.clock()
        self.forwarder.reply(data, self.client)

    async def open(self, targets: Targets | None, dialer: Dialer) -> None:
        try:
            sock, self.target = await dial(
                targets, dialer, client=self.client[0], kind=socket.SOCK_DGRAM
            )
        except OSError as err:
            logger.debug("datagrams of %s were not passed on: %s", self.client, err)
            self.forwarder.forget(self.client)
            return
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_datagram_endpoint(lambda: _Reply(self), sock=sock)
        self.transport = transport
        for data in self.waiting:
            transport.sendto(data)
        self.waiting.clear()

    def close(self) -> None:
        if self.task is not None and self.task is not asyncio.current_task():
            self.task.cancel()
        if self.transport is not None:
            self.transport.close()


class UdpForwarder(asyncio.DatagramProtocol):
    """One socket that takes datagrams of all clients."""

    def __init__(
        self,
        targets: Callable[[], Targets | None],
        dialer: Dialer,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._targets = targets
        self._dialer = dialer
        self.clock = clock
        self._transport: asyncio.DatagramTransport | None = None
        self._sessions: OrderedDict[tuple[str, int], _Session] = OrderedDict()
        self._timer: asyncio.TimerHandle | None = None

    async def open(self, sock: socket.socket) -> None:
        """Serve a bound socket."""
        loop = asyncio.get_running_loop()
        self._transport, _ = await loop.create_datagram_endpoint(lambda: self, sock=sock)

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        targets = self._targets()
        session = self._sessions.get(addr)
        if session and session.target and (targets is None or session.target not in targets):
            self.forget(addr)
            session = None
        if session is None:
            session = self._begin(addr, targets)
        session.seen = self.clock()
        self._sessions.move_to_end(addr)
        session.send(data)

    def _begin(self, client: tuple[str, int], targets: Targets | None) -> _Session:
        loop = asyncio.get_running_loop()
        if len(self._sessions) >= _MAX_UDP_CLIENTS:
            self.forget(next(iter(self._sessions)))
        if self._timer is None:
            self._timer = loop.call_later(_UDP_SECONDS, self._expire)
        session = self._sessions[client] = _Session(self, client)
        session.task = loop.create_task(session.open(targets, self._dialer))
        return session

    def reply(self, data: bytes, client: tuple[str, int]) -> None:
        if self._transport is not None:
            self._transport.sendto(data, client)

    def forget(self, client: tuple[str, int]) -> None:
        """The next datagram of this client may go to another target."""
        session = self._sessions.pop(client, None)
        if session is not None:
            session.close()

    def _expire(self) -> None:
        limit = self.clock() - _UDP_SECONDS
        for client in [c for c, session in self._sessions.items() if session.seen <= limit]:
            self.forget(client)
        self._timer = None
        if self._sessions:
            self._timer = asyncio.get_running_loop().call_later(_UDP_SECONDS, self._expire)

    def close(self) -> None:
        """Pass nothing on any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for client in list(self._sessions):
            self.forget(client)
        if self._transport is not None:
            self._transport.close()
            self._transport = None
