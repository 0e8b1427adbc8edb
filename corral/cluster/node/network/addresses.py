"""Which address a pod gets: blocks of 256, as many as the node needs.

Where pods have networks of their own the blocks are 10.88.N.0/24, shared out among the agents of a
cluster on a machine; elsewhere 127.88.N.0/24, shared out among all agents of the machine. Both are
taken through ``slots`` and stay the agent's over restarts.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Final

from corral.cluster.node.network.errors import NoAddress
from corral.cluster.node.network.slots import Slots

POD_NETWORK: Final = IPv4Network("10.88.0.0/16")
LOOPBACK_NETWORK: Final = IPv4Network("127.88.0.0/16")
_RESERVED: Final = 2
"""The network's own address, and the gateway's in block 0."""


class AddressPool:
    """The addresses of some blocks. One that was given back is used again as late as possible."""

    def __init__(self) -> None:
        self._places: list[str] = []
        self._next = 0
        self._held: dict[str, str] = {}
        self._taken: dict[str, int] = {}
        """How many hold an address: more than one after a restart that found it so."""

    def add(self, block: IPv4Network) -> None:
        first = int(block.network_address)
        last = first + block.num_addresses - 1
        self._places += [str(IPv4Address(n)) for n in range(first + _RESERVED, last)]

    def assign(self, owner: str) -> str:
        """The owner's address. Raises NoAddress."""
        if owner in self._held:
            return self._held[owner]
        count = len(self._places)
        for step in range(count):
            place = (self._next + step) % count
            address = self._places[place]
            if address not in self._taken:
                self._next = place + 1
                self.restore(owner, address)
                return address
        raise NoAddress("no address is free on this node")

    def restore(self, owner: str, address: str) -> None:
        """The owner has this address already."""
        self.release(owner)
        self._held[owner] = address
        self._taken[address] = self._taken.get(address, 0) + 1

    def release(self, owner: str) -> None:
        address = self._held.pop(owner, None)
        if address is not None:
            left = self._taken.pop(address) - 1
            if left:
                self._taken[address] = left


class NodeAddresses:
    """The pool of one agent, which takes more blocks when it is empty."""

    def __init__(self, network: IPv4Network, slots: Slots) -> None:
        self._network = network
        self._slots = slots
        self._pool = AddressPool()

    def open(self) -> None:
        """Take the blocks that were the agent's before, or one. Raises NoAddress."""
        for number in self._slots.recall() or [self._slots.claim()]:
            self._add(number)

    def assign(self, owner: str) -> str:
        """The owner's address. Raises NoAddress."""
        try:
            return self._pool.assign(owner)
        except NoAddress:
            self._add(self._slots.claim())
            return self._pool.assign(owner)

    def restore(self, owner: str, address: str) -> None:
        self._pool.restore(owner, address)

    def release(self, owner: str) -> None:
        self._pool.release(owner)

    def close(self, *, forget: bool) -> None:
        self._slots.release(forget=forget)

    def _add(self, number: int) -> None:
        start = self._network.network_address + number * 256
        self._pool.add(IPv4Network(f"{start}/24"))


class LoopbackGuard:
    """Keeps blocks of the loopback network apart where agents share no folder: between users.

    Two signs are read: a name in the kernel's own list of socket names, which the agent holds as
    long as it lives, and programs that listen in the block, whose agent may be dead. Anybody can
    give either sign for all blocks. So they say which blocks to prefer, and never that there is
    none: what somebody has a sign in is taken when nothing else is left.
    """

    def __init__(self, *, prefix: str = "corral", tables: str = "/proc/net") -> None:
        self._prefix = prefix
        self._tables = Path(tables)
        self._held: list[socket.socket] = []

    def order(self, numbers: Sequence[int]) -> Iterator[int]:
        """Blocks that are nobody's first: each is ours, until ``close``, when it comes.

        Then those in which at least nobody listens, then the others; users begin at different
        places there, so that they do not meet.
        """
        listened = self._listened_in()
        quiet = [number for number in numbers if number not in listened]
        yield from (number for number in quiet if self._hold(number))
        start = os.geteuid() * 97 % 256  # neighbours are far apart
        turned = sorted(numbers, key=lambda number: (number - start) % 256)
        yield from sorted(turned, key=lambda number: number in listened)

    def _hold(self, number: int) -> bool:
        """Whether the name of a block was free; then it is ours until ``close``."""
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            sock.bind(f"\0{self._prefix}/loopback/{number}".encode())
        except OSError:
            sock.close()
            return False
        self._held.append(sock)
        return True

    def _listened_in(self) -> set[int]:
        """Blocks in which programs listen."""
        found: set[int] = set()
        for name in ("tcp", "udp"):
            with suppress(OSError):
                for line in (self._tables / name).read_text().splitlines()[1:]:
                    word = line.split(None, 2)[1].partition(":")[0]
                    # a number as this machine's memory has it
                    address = int(word, 16).to_bytes(4, sys.byteorder)
                    if address.startswith(bytes([127, 88])):
                        found.add(address[2])
        return found

    def close(self) -> None:
        for sock in self._held:
            sock.close()
        self._held.clear()
