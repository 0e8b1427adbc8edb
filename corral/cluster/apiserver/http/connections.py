"""Connections: how many there may be, how long one may take, and the memory of those that went.

A connection is new until a request of a known user has come over it. New ones make room for each
other, oldest first and those of the busiest address before others, so that sockets that are only
held keep nobody out; the others count for their user and their address. A request's headers, and
the silence between two requests, have their time.
"""

from __future__ import annotations

import asyncio
import logging
import resource
import socket
import ssl
import struct
from collections import Counter
from collections.abc import Callable, Mapping, Sized
from functools import partial
from ipaddress import IPv6Address, IPv6Network
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from corral.cluster.apiserver.memory import give_back_memory
from corral.cluster.apiserver.paced import Paced
from corral.kube import errors

log = logging.getLogger(__name__)
K = TypeVar("K")
V = TypeVar("V")

HANDSHAKE_SECONDS = 10.0
HEADER_SECONDS = 32.0
"""From the first byte of a request to the last of its headers, as upstream."""
IDLE_SECONDS = 90.0
"""Between two requests, as upstream."""
MAX_NEW = 512
MAX_PER_USER = 4096
MAX_NEW_PER_ADDRESS = 384
MAX_PER_ADDRESS = 6000
"""Both not for the machine's own loopback address, which its clients share."""
MAX_CONNECTIONS = 12_000
OTHER_FILES = 2048
"""Descriptors that are left for all else: the database, webhooks, kubelets."""
MAX_HEADER_BYTES = 64 * 2**20
"""Of all requests whose headers are not complete, together."""
BEGINNINGS = 16
"""Requests that begin in one turn of the event loop."""
MUCH = 32 * 1024
"""Bytes that come at once from a client who sends a large body."""
ACCEPTS_PER_SECOND = 250.0
"""Handshakes cost the event loop's time; who comes later waits in the backlog."""
ACCEPT_BURST = 200.0
ACCEPT_PAUSE = 0.004
FAILURE_PAUSE = 0.25
"""After a connection that could not be accepted: it is still there, and would fail again."""
BACKLOG = 1024
TRIM_SECONDS = 5.0
TRIM_AFTER = 64
"""Connections that end before memory is given back."""
_RESET = struct.pack("ii", 1, 0)


class Connection(RequestHandler):
    """The server's side of one connection, with a time limit for headers."""

    __slots__ = (
        "_arrived", "_connections", "_header_bytes", "_header_timer", "_held", "address", "user",
    )  # fmt: skip

    def __init__(self, connections: Connections, manager: web.Server, **options: Any) -> None:
        super().__init__(manager, **options)
        self._connections = connections
        self._header_timer: asyncio.TimerHandle | None = None
        self._header_bytes = 0
        self._arrived: list[bytes] = []
        self._held = False
        """Nothing is read until it is the user's turn."""
        self.user = ""
        """Whose it is, once that is known."""
        self.address = ""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        limit = getattr(transport, "set_read_buffer_limits", None)
        if limit is not None:  # of what is not decrypted yet
            limit(high=MUCH)
        self.address = address_of(transport.get_extra_info("peername"))
        self._connections.opened(self)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._stop_timer()
        self._connections.closed(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Look at it when it is the user's turn: a crowd of requests is begun a few at a time."""
        if not data:  # the parser goes on with what it has
            self._received(data)
            return
        self._arrived.append(data)
        if len(self._arrived) == 1:
            self._connections.beginning.call(self.user or self.address, self._look)

    def _look(self) -> None:
        arrived, self._arrived = self._arrived, []
        if self.transport is not None:
            for data in arrived:
                self._received(data)

    def _received(self, data: bytes) -> None:
        super().data_received(data)
        if len(data) >= MUCH and not self._held:
            self._hold()
        if self._waiter is None or self._waiter.done() or self._messages:
            if self._header_timer is not None:
                self._stop_timer()
            return
        if self._header_timer is None:
            self._header_timer = self._loop.call_later(self._connections.header_seconds, self._late)
        self._header_bytes += len(data)
        if not self._connections.holds(len(data)):
            self.force_close()

    def _hold(self) -> None:
        """Who sends much is read a piece at a time, others in between."""
        self._pause_transport_reading()
        self._held = True
        self._connections.reading.call(self.user or self.address, self._go_on)

    def _go_on(self) -> None:
        self._held = False
        if not (self._reading_paused or self._buffer_paused):
            self._resume_transport_reading()

    def _resume_transport_reading(self) -> None:
        if not self._held:
            super()._resume_transport_reading()

    def _late(self) -> None:
        """Some of the headers came and the rest did not."""
        self._header_timer = None
        if self._waiter is not None and not self._waiter.done():
            self.force_close()

    def _stop_timer(self) -> None:
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None
        self._connections.holds(-self._header_bytes)
        self._header_bytes = 0


class HttpServer(web.Server):
    """Makes connections of ours."""

    def __init__(self, connections: Connections, handler: Any, **options: Any) -> None:
        super().__init__(handler, handler_cancellation=True)
        self._counted = connections
        self._options = options

    def __call__(self) -> Connection:
        return Connection(self._counted, self, loop=self._loop, **self._options)


class Connections:
    """All connections of a server."""

    def __init__(
        self,
        *,
        most_new: int = MAX_NEW,
        new_per_address: int = MAX_NEW_PER_ADDRESS,
        per_user: int = MAX_PER_USER,
        per_address: int = MAX_PER_ADDRESS,
        most: int = MAX_CONNECTIONS,
        header_seconds: float = HEADER_SECONDS,
    ) -> None:
        self.header_seconds = header_seconds
        self._most_new, self._per_user, self._most = most_new, per_user, min(most, _most_files())
        self._new_per_address, self._per_address = new_per_address, per_address
        self._new: dict[str, dict[Connection, None]] = {}
        """By address, in the order of their arrival."""
        self._users: Counter[str] = Counter()
        self._addresses: Counter[str] = Counter()
        """How many connections of known users there are from each."""
        self._shaking: dict[str, dict[asyncio.Task[None], socket.socket]] = {}
        """By address, connections that have not finished their TLS handshake, in order."""
        self._listening: list[socket.socket] = []
        self._ended = 0
        self._trim: asyncio.TimerHandle | None = None
        self._header_bytes = 0
        self._credit, self._credited = ACCEPT_BURST, 0.0
        self.refused = 0
        self.beginning = Paced(BEGINNINGS)
        """Whose turn it is to be looked at of those who have sent something."""
        self.reading = Paced()
        """Whose turn it is to be read of those who send much."""

    def __len__(self) -> int:
        return _count(self._new) + _count(self._shaking) + self._users.total()

    def holds(self, size: int) -> bool:
        """Count bytes of incomplete headers; False when they are too many."""
        self._header_bytes += size
        return self._header_bytes <= MAX_HEADER_BYTES

    # -- their life ------------------------------------------------------------------------

    def opened(self, connection: Connection) -> None:
        address = connection.address
        self._new.setdefault(address, {})[connection] = None
        if len(self._new[address]) > self._new_of(address):
            self._end_new(address)
        elif _count(self._new) > self._most_new:
            self._end_new(_busiest(self._new))

    def _new_of(self, address: str) -> int:
        """How many new connections an address may have."""
        return self._most_new if address in OWN_ADDRESSES else self._new_per_address

    def _end_new(self, address: str) -> None:
        """End the oldest new connection of an address."""
        oldest = next(iter(self._new[address]))
        _remove(self._new, address, oldest)
        self.refused += 1
        abort(oldest.transport)

    def identified(self, connection: Connection, user: str) -> None:
        """A request of ``user`` came over it.

        Raises:
            TooManyRequests: over the limit of the user or of the address.
        """
        address = connection.address
        if self._users[user] >= self._per_user:
            self._refuse(connection, user, self._per_user)
        if address not in OWN_ADDRESSES and self._addresses[address] >= self._per_address:
            self._refuse(connection, f"address {address}", self._per_address)
        most = max(self._most - self._most_new, 1)
        if self._users.total() >= most:
            share = max(most // len(self._users), 1)
            if self._users[user] >= share:
                self._refuse(connection, f"{user}, while the server has {most} in all", share)
        if connection in self._new.get(address, ()):
            _remove(self._new, address, connection)
            connection.user = user
            self._users[user] += 1
            self._addresses[address] += 1

    def _refuse(self, connection: Connection, whose: str, most: int) -> NoReturn:
        self.refused += 1
        connection.close()
        raise errors.TooManyRequests(
            f"too many connections of {whose}: at most {most} are open at a time; close some",
            details={"retryAfterSeconds": 1},
        )

    def closed(self, connection: Connection) -> None:
        _remove(self._new, connection.address, connection)
        if connection.user:
            for counted, key in (
                (self._users, connection.user), (self._addresses, connection.address)
            ):  # fmt: skip
                counted[key] -= 1
                if not counted[key]:
                    del counted[key]
        self._count_end()

    def _count_end(self) -> None:
        self._ended += 1
        if self._ended >= TRIM_AFTER and self._trim is None:
            loop = asyncio.get_running_loop()
            self._trim = loop.call_later(TRIM_SECONDS, self._give_back)

    def _give_back(self) -> None:
        self._trim, self._ended = None, 0
        asyncio.get_running_loop().run_in_executor(None, give_back_memory)

    # -- listening -------------------------------------------------------------------------

    def listen(
        self, sock: socket.socket, factory: Callable[[], Connection], tls: ssl.SSLContext | None
    ) -> None:
        """Accept on a bound socket."""
        sock.setblocking(False)
        sock.listen(BACKLOG)
        self._listening.append(sock)
        loop = asyncio.get_running_loop()
        loop.add_reader(sock.fileno(), self._accept, sock, factory, tls)

    def _accept(
        self, sock: socket.socket, factory: Callable[[], Connection], tls: ssl.SSLContext | None
    ) -> None:
        if not self._may_accept():
            self._pause(sock, factory, tls)
            return
        try:
            made, peer = sock.accept()  # one: others have their turn before the next
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return
        except OSError as err:
            log.error("no connection can be accepted: %s", err)
            self._make_room()
            self._pause(sock, factory, tls, FAILURE_PAUSE)
            return
        self._credit -= 1
        if len(self) >= self._most:
            self._make_room()
        self._take(made, address_of(peer), factory, tls)

    def _may_accept(self) -> bool:
        """Whether so many handshakes can be afforded just now."""
        now = asyncio.get_running_loop().time()
        earned = (now - self._credited) * ACCEPTS_PER_SECOND
        self._credit = min(self._credit + earned, ACCEPT_BURST)
        self._credited = now
        return self._credit >= 1

    def _pause(
        self,
        sock: socket.socket,
        factory: Callable[[], Connection],
        tls: ssl.SSLContext | None,
        seconds: float = ACCEPT_PAUSE,
    ) -> None:
        """Accept no more for a little while."""
        loop = asyncio.get_running_loop()
        loop.remove_reader(sock.fileno())

        def resume() -> None:
            if sock in self._listening:
                loop.add_reader(sock.fileno(), self._accept, sock, factory, tls)

        loop.call_later(seconds, resume)

    def _make_room(self) -> None:
        """Close the oldest new connection of the address that has most: it had its time."""
        if self._shaking:
            self._end_shaking(_busiest(self._shaking))
        elif self._new:
            self._end_new(_busiest(self._new))

    def _end_shaking(self, address: str) -> None:
        task, sock = next(iter(self._shaking[address].items()))
        _remove(self._shaking, address, task)
        self.refused += 1
        _reset(sock)
        task.cancel()

    def _take(
        self,
        sock: socket.socket,
        address: str,
        factory: Callable[[], Connection],
        tls: ssl.SSLContext | None,
    ) -> None:
        sock.setblocking(False)
        if len(self._shaking.get(address, ())) >= self._new_of(address):
            self._end_shaking(address)
        elif _count(self._shaking) >= self._most_new:
            self._make_room()
        task = asyncio.get_running_loop().create_task(self._open(sock, factory, tls))
        self._shaking.setdefault(address, {})[task] = sock
        task.add_done_callback(partial(self._shaken, address))

    def _shaken(self, address: str, task: asyncio.Task[None]) -> None:
        if _remove(self._shaking, address, task) and not task.cancelled():
            task.exception()

    async def _open(
        self, sock: socket.socket, factory: Callable[[], Connection], tls: ssl.SSLContext | None
    ) -> None:
        loop = asyncio.get_running_loop()
        limit = HANDSHAKE_SECONDS if tls is not None else None
        try:
            await loop.connect_accepted_socket(factory, sock, ssl=tls, ssl_handshake_timeout=limit)
        except (OSError, ssl.SSLError, TimeoutError, asyncio.CancelledError):
            sock.close()
            self._count_end()

    def close(self) -> None:
        """Accept nothing more."""
        loop = asyncio.get_running_loop()
        while self._listening:
            sock = self._listening.pop()
            loop.remove_reader(sock.fileno())
            sock.close()
        for tasks in list(self._shaking.values()):
            for task in list(tasks):
                task.cancel()
        if self._trim is not None:
            self._trim.cancel()


def bind(host: str, port: int) -> list[socket.socket]:
    """Sockets on every address of a host, on one port. Raises OSError."""
    flags = socket.AI_PASSIVE
    found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=flags)
    sockets: list[socket.socket] = []
    for family, kind, protocol, _, address in dict.fromkeys(found):
        sock = socket.socket(family, kind, protocol)
        sockets.append(sock)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        try:
            sock.bind((address[0], port, *address[2:]))
        except OSError:
            for made in sockets:
                made.close()
            raise
        port = sock.getsockname()[1]
    return sockets


def bind_path(path: Path) -> socket.socket:
    """A socket in the file system, in the place of one that was left behind. Raises OSError."""
    if path.is_socket():
        path.unlink()
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.bind(str(path))
    return sock


OWN_ADDRESSES = frozenset(("127.0.0.1", "::1", ""))
"""Those of clients on this machine; a socket in the file system has none."""


def address_of(peer: Any) -> str:
    """The address of a peer; one network of IPv6 counts as one."""
    host = str(peer[0]).partition("%")[0] if isinstance(peer, tuple) else ""
    if ":" not in host or host == "::1":
        return host
    address = IPv6Address(host)
    return str(address.ipv4_mapped or IPv6Network((address, 64), strict=False).network_address)


def _most_files() -> int:
    """How many connections the process has descriptors for."""
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if allowed == resource.RLIM_INFINITY:
        return MAX_CONNECTIONS
    return max(allowed - OTHER_FILES, allowed // 2)


def _count(found: Mapping[str, Sized]) -> int:
    return sum(map(len, found.values()))


def _busiest(found: Mapping[str, Sized]) -> str:
    return max(found, key=lambda address: len(found[address]))


def _remove(found: dict[str, dict[K, V]], address: str, key: K) -> bool:
    """Whether it was there; an address without any is forgotten."""
    there = found.get(address)
    if there is None or key not in there:
        return False
    del there[key]
    if not there:
        del found[address]
    return True


def abort(transport: asyncio.Transport | None) -> None:
    """End a connection without waiting for its peer."""
    if transport is not None:
        transport.abort()


def _reset(sock: socket.socket) -> None:
    """Close with a reset: nothing of the connection stays behind."""
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    except OSError:
        return  # it is gone already
