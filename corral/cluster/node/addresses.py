"""Addresses of pods, and the hosts file in which they find each other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

from corral.kube.types import Obj


class NoAddress(Exception):
    """Every address of the node's network is taken."""


class AddressPool:
    """The addresses of one node. One that was given back is used again as late as possible."""

    def __init__(self, network: str, *, reserved: int = 2) -> None:
        net = IPv4Network(network)
        self._first = int(net.network_address) + reserved
        self._count = net.num_addresses - reserved - 1
        self._next = 0
        self._held: dict[str, str] = {}

    def assign(self, owner: str) -> str:
        """The owner's address. Raises NoAddress."""
        if owner in self._held:
            return self._held[owner]
        taken = set(self._held.values())
        for step in range(self._count):
            place = (self._next + step) % self._count
            address = str(IPv4Address(self._first + place))
            if address not in taken:
                self._next = place + 1
                self._held[owner] = address
                return address
        raise NoAddress("no address is free on this node")

    def restore(self, owner: str, address: str) -> None:
        self._held[owner] = address

    def release(self, owner: str) -> None:
        self._held.pop(owner, None)


def hosts_file(
    address: str,
    hostname: str,
    *,
    domain: str = "",
    aliases: Iterable[Obj] = (),
    names: Mapping[str, Sequence[str]] | None = None,
) -> str:
    """The hosts file of a pod; ``names`` are addresses of other pods and of services."""
    lines = [
        "# Kubernetes-managed hosts file.",
        "127.0.0.1\tlocalhost",
        "::1\tlocalhost ip6-localhost ip6-loopback",
        "fe00::0\tip6-localnet",
        "fe00::0\tip6-mcastprefix",
        "fe00::1\tip6-allnodes",
        "fe00::2\tip6-allrouters",
    ]
    own = f"{hostname}.{domain}\t{hostname}" if domain else hostname
    lines.append(f"{address}\t{own}")
    extra = [f"{entry['ip']}\t" + "\t".join(entry.get("hostnames") or ()) for entry in aliases]
    if extra:
        lines += ["", "# Entries added by HostAliases.", *extra]
    lines += [f"{ip}\t" + "\t".join(known) for ip, known in (names or {}).items()]
    return "\n".join(lines) + "\n"


def write_in_place(path: Path, text: str) -> None:
    """Replace a file's content but not the file: containers have it mounted."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+", encoding="utf-8") as file:
        file.seek(0)
        if file.read() == text:
            return
        file.seek(0)
        file.truncate()
        file.write(text)
