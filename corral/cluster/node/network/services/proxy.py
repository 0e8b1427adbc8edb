"""Service addresses that work: listens at every service port of the cluster and passes on.

A port is listened at exactly while it has a target, so that a service without endpoints refuses
connections as it should. Node ports are served on the machine's loopback by whichever agent of the
machine comes first; the others try again. What cannot be listened at is told in an event on the
service, once, and the rest works.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, Protocol

from corral.cluster.node.network.entries import PortEntry, ServiceEntry
from corral.cluster.node.network.errors import NetworkError
from corral.cluster.node.network.services.directory import Directory, ServiceState
from corral.cluster.node.network.services.forwarding import (
    Connections,
    Dialer,
    TcpForwarder,
    UdpForwarder,
)
from corral.cluster.node.network.services.targets import Targets

logger = logging.getLogger(__name__)

_RETRY_SECONDS: Final = 5.0
_KINDS: Final = {"TCP": socket.SOCK_STREAM, "UDP": socket.SOCK_DGRAM}


class Ground(Dialer, Protocol):
    """The network in which services are offered."""

    def prepare(self, address: str) -> None:
        """A service has this address, with or without targets. Raises NetworkError."""

    def bind(self, address: str, port: int, kind: socket.SocketKind) -> socket.socket:
        """A socket at a service's address. Raises OSError."""


class Front(NamedTuple):
    """A place to listen at."""

    service: str
    port: PortEntry
    address: str
    """Empty: the node port."""


Complain = Callable[[ServiceEntry, str, str], None]
"""Service, reason, message."""


class ServiceProxy:
    """The fronts of all services, kept in line with a directory."""

    def __init__(self, directory: Directory, ground: Ground, *, complain: Complain) -> None:
        self._directory = directory
        self._ground = ground
        self._complain = complain
        self._dirty: dict[str, None] = {}
        self._wake = asyncio.Event()
        self._open: dict[Front, TcpForwarder | UdpForwarder] = {}
        self._of: dict[str, set[Front]] = {}
        """Service → its fronts that are open."""
        self._told: set[tuple[str, Front]] = set()
        self._failed: set[str] = set()
        self._connections = Connections()

    def changed(self, service: str) -> None:
        """A service came, changed or went; returns at once."""
        self._dirty[service] = None
        self._wake.set()

    async def run(self) -> None:
        """Follow changes until cancelled."""
        while True:
            try:
                async with asyncio.timeout(_RETRY_SECONDS if self._failed else None):
                    await self._wake.wait()
            except TimeoutError:
                for service in self._failed:
                    self._dirty[service] = None
                self._failed = set()
            self._wake.clear()
            while self._dirty:
                service = next(iter(self._dirty))
                del self._dirty[service]
                await self._sync(service)

    async def stop(self) -> None:
        """Close everything, connections included."""
        for forwarder in self._open.values():
            forwarder.close()
        self._open.clear()
        self._of.clear()
        await self._connections.end()

    # -- one service -----------------------------------------------------------------------------

    async def _sync(self, service: str) -> None:
        state = self._directory.service(service)
        wanted = set(_fronts(state)) if state is not None else set()
        if state is not None and state.entry.address:
            self._prepare(state.entry)
        present = self._of.get(service, set())
        for front in present - wanted:
            self._open.pop(front).close()
            present.discard(front)
        for front in sorted(wanted - present):
            assert state is not None
            forwarder = await self._listen(front, state.entry)
            if forwarder is not None:
                self._open[front] = forwarder
                present.add(front)
        if present:
            self._of[service] = present
        else:
            self._of.pop(service, None)

    def _prepare(self, entry: ServiceEntry) -> None:
        try:
            self._ground.prepare(entry.address)
        except NetworkError as err:
            self._failed.add(entry.key)
            logger.warning("the address of service %s does not work: %s", entry.key, err)

    async def _listen(
        self, front: Front, entry: ServiceEntry
    ) -> TcpForwarder | UdpForwarder | None:
        kind = _KINDS[front.port.protocol]
        try:
            if front.address:
                sock = self._ground.bind(front.address, front.port.port, kind)
            else:
                sock = _bind_node_port(front.port.node_port, kind)
        except OSError as err:
            self._refused(front, entry, err)
            return None

        def targets() -> Targets | None:
            state = self._directory.service(front.service)
            return state.targets.get(front.port) if state is not None else None

        forwarder: TcpForwarder | UdpForwarder
        if kind == socket.SOCK_STREAM:
            forwarder = TcpForwarder(targets, self._ground, self._connections)
        else:
            forwarder = UdpForwarder(targets, self._ground)
        try:
            await forwarder.open(sock)
        except OSError as err:
            sock.close()
            self._refused(front, entry, err)
            return None
        except BaseException:
            # stopped in the middle: nobody else knows of it yet
            forwarder.close()
            sock.close()
            raise
        return forwarder

    def _refused(self, front: Front, entry: ServiceEntry, err: OSError) -> None:
        if err.errno != errno.EACCES:
            self._failed.add(front.service)  # it may be free later
        if not front.address and err.errno == errno.EADDRINUSE:
            return  # another agent of this machine serves it
        told = (entry.uid, front)
        if told not in self._told:
            self._told.add(told)
            self._complain(entry, "PortNotServed", _words(front, err))


def _fronts(state: ServiceState) -> Iterable[Front]:
    entry = state.entry
    for port, targets in state.targets.items():
        if targets and port.protocol in _KINDS:
            if entry.address:
                yield Front(entry.key, port, entry.address)
            if port.node_port:
                yield Front(entry.key, port, "")


def _words(front: Front, err: OSError) -> str:
    if err.errno == errno.EACCES:
        return (
            f"port {front.port.port} cannot be listened at: the node agent runs as an ordinary "
            "user, who may not use ports below 1024; give the service a higher port"
        )
    port = front.port.port if front.address else front.port.node_port
    return f"port {port} cannot be listened at: {err}"


def _bind_node_port(port: int, kind: socket.SocketKind) -> socket.socket:
    sock = socket.socket(socket.AF_INET, kind)
    try:
        sock.setblocking(False)
        if kind == socket.SOCK_STREAM:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(("127.0.0.1", port))
    except OSError:
        sock.close()
        raise
    return sock
