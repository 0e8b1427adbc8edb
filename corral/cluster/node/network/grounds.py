"""The networks in which services are offered and pods are reached, one for each kind of node.

* ``GatewayGround``: in the cluster's gateway namespace, at the services' own addresses.
* ``LoopbackGround``: on the machine's loopback. Each agent has half of a 127.x.0.0/16 of its own,
  derived from its block of pod addresses, and shows services at addresses in it; the same service
  has the same address as long as the agent's folder exists.
"""

from __future__ import annotations

import asyncio
import json
import socket
from contextlib import suppress
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Final

from corral.cluster.node.network.gateway import Gateway
from corral.cluster.node.network.namespaces import make_socket
from corral.cluster.node.network.services.targets import Target

_BITS: Final = 15


async def connect_from_machine(target: Target, kind: socket.SocketKind) -> socket.socket:
    """A socket of the machine's own network, connected. Raises OSError."""
    loop = asyncio.get_running_loop()
    problem = OSError(f"{target.address} has no address")
    for family, _, _, _, address in await loop.getaddrinfo(*target, type=kind):
        sock = socket.socket(family, kind)
        sock.setblocking(False)
        try:
            await loop.sock_connect(sock, address)
        except OSError as err:
            sock.close()
            problem = err
        except BaseException:
            sock.close()
            raise
        else:
            return sock
    raise problem


class GatewayGround:
    """Services of a node whose pods have networks of their own."""

    def __init__(self, gateway: Gateway, network: IPv4Network) -> None:
        self._gateway = gateway
        self._network = network

    def shown(self, address: str) -> str:
        return address

    def prepare(self, address: str) -> None:
        """Have the address answer, be it with a refusal. Raises NetworkError."""
        self._gateway.serve(address)

    def bind(self, address: str, port: int, kind: socket.SocketKind) -> socket.socket:
        """A socket at a service's address; all agents of the machine have one. Raises OSError."""
        sock = make_socket(self._gateway.namespace, kind)
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            sock.bind((address, port))
        except OSError:
            sock.close()
            raise
        return sock

    async def connect(self, target: Target, kind: socket.SocketKind) -> socket.socket:
        """To a pod through the gateway, to everything else as the machine does."""
        if not self._is_pod(target.address):
            return await connect_from_machine(target, kind)
        sock = make_socket(self._gateway.namespace, kind)
        try:
            await asyncio.get_running_loop().sock_connect(sock, tuple(target))
        except BaseException:
            sock.close()
            raise
        return sock

    def _is_pod(self, address: str) -> bool:
        try:
            return IPv4Address(address) in self._network
        except ValueError:
            return False


class LoopbackGround:
    """Services of a node whose pods share the machine's network."""

    def __init__(self, slot: int, memory: Path) -> None:
        """``memory`` is a file for the few addresses that had to give way to others."""
        self._base = int(IPv4Address(f"127.{128 + slot // 2}.{slot % 2 * 128}.0"))
        self._memory = memory
        self._moved: dict[str, int] = {}
        with suppress(OSError, ValueError):
            self._moved = json.loads(memory.read_text())
        self._owner: dict[int, str] = {place: address for address, place in self._moved.items()}

    def shown(self, address: str) -> str:
        """The loopback address for a service's: its last bits, unless another has them."""
        place = self._moved.get(address)
        if place is None:
            place = int(IPv4Address(address)) % (1 << _BITS)
            if self._owner.setdefault(place, address) != address:
                while place in self._owner:
                    place = (place + 1) % (1 << _BITS)
                self._owner[place] = address
                self._moved[address] = place
                self._memory.write_text(json.dumps(self._moved))
        return str(IPv4Address(self._base + place))

    def prepare(self, address: str) -> None:
        """Nothing to do: every loopback address answers."""

    def bind(self, address: str, port: int, kind: socket.SocketKind) -> socket.socket:
        """A socket at the address that is shown for a service's. Raises OSError."""
        sock = socket.socket(socket.AF_INET, kind)
        try:
            sock.setblocking(False)
            if kind == socket.SOCK_STREAM:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind((self.shown(address), port))
        except OSError:
            sock.close()
            raise
        return sock

    async def connect(self, target: Target, kind: socket.SocketKind) -> socket.socket:
        return await connect_from_machine(target, kind)
