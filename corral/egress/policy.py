"""Which endpoints may be called. No I/O.

Without any allowance: ``https`` to addresses of the public internet, and to the clouds' own hosts
also where a network gives them private addresses. Never this machine, link-local addresses (the
metadata services of clouds), private networks (the cluster and what is beside it), multicast. An
`Allowance` opens one host or network, on one port or all, also without TLS.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Final
from urllib.parse import urlsplit

__all__ = ["Allowance", "EgressPolicy", "EndpointRefused"]

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_REMEDY: Final = "an administrator can allow it (--allow-endpoint)"
_WIRE_SERVER: Final = ipaddress.ip_address("168.63.129.16")
"""Of Azure: public by its number, and the machine's own host by what answers there."""
_OTHERS: Final = tuple(
    ipaddress.ip_network(text)
    for text in ("192.0.0.0/24", "192.88.99.0/24", "3fff::/20", "5f00::/16", "64:ff9b:1::/48",
                 "fec0::/10")
)  # fmt: skip
"""Networks of no public server, whatever a version of Python knows of them."""
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")
_HOST: Final = re.compile(r"[a-z0-9_]([a-z0-9_.-]*[a-z0-9_])?\.?\Z")
_CLOUDS: Final = re.compile(
    r"""(
      ([a-z0-9.-]+\.)?s3([.-][a-z0-9-]+)*\.amazonaws\.com(\.cn)?
    | (ec2|sts)(\.[a-z0-9-]+)?\.amazonaws\.com(\.cn)?
    | [a-z0-9-]+\.googleapis\.com
    | [a-z0-9-]+\.blob\.core\.(windows\.net|chinacloudapi\.cn|usgovcloudapi\.net)
    | login\.microsoftonline\.com | (management|prices)\.azure\.com
    )\Z""",
    re.VERBOSE,
)
"""Names that only the clouds' own services have; machines of their customers have others."""


class EndpointRefused(OSError):
    """The endpoint is not to be called; the message says why and what helps."""


@dataclass(frozen=True, slots=True)
class Allowance:
    """A host or a network that may be called, without TLS too."""

    host: str = ""
    network: Network | None = None
    port: int | None = None
    """None: all."""

    @classmethod
    def parse(cls, text: str) -> Allowance:
        """``HOST``, ``ADDRESS`` or ``CIDR``, each with ``:PORT`` if wanted; or a URL of a server.

        Raises:
            ValueError: it is none of them.
        """
        host, port = host_and_port(text) if "://" in text else _split(text.strip())
        try:
            literal = _literal(host)
            text_of = str(_embedded(literal)) if literal is not None else host
            return cls(network=ipaddress.ip_network(text_of, strict=False), port=port)
        except ValueError:
            if not _HOST.match(host.lower()):
                raise ValueError(
                    f"{text!r} is not CIDR-or-host[:port], such as 10.0.0.0/8 or minio.example:9000"
                ) from None
            return cls(host=_name(host), port=port)

    def covers_host(self, host: str, port: int) -> bool:
        return bool(self.host) and self.host == _name(host) and self.port in (None, port)

    def covers_address(self, address: Address, port: int) -> bool:
        if self.network is None or self.port not in (None, port):
            return False
        return address.version == self.network.version and address in self.network


@dataclass(frozen=True, slots=True)
class EgressPolicy:
    """What may be called beside public servers."""

    allowed: tuple[Allowance, ...] = field(default_factory=tuple)

    @classmethod
    def of(cls, texts: Iterable[str]) -> EgressPolicy:
        """From what an administrator wrote. Raises ValueError."""
        return cls(tuple(map(Allowance.parse, texts)))

    def allowing(self, *texts: str) -> EgressPolicy:
        """The same and these too; for servers that the process's own configuration names."""
        more = tuple(Allowance.parse(text) for text in texts if text)
        return EgressPolicy((*self.allowed, *more))

    def check_url(self, url: str) -> None:
        """Refuses what no resolving could make good: the form, and addresses by number.

        Raises:
            EndpointRefused: it is not to be called.
        """
        host, port = host_and_port(url)
        literal = _literal(host)
        if literal is not None:
            self.check(url, [host])
        elif urlsplit(url).scheme == "http" and not self.allows(host, port):
            if not any(allowance.network for allowance in self.allowed):
                raise EndpointRefused(f"{_origin(url)} is called with TLS only; {_REMEDY}")

    def check(self, url: str, addresses: Sequence[str]) -> None:
        """Whether a URL may be called whose host has these addresses.

        Raises:
            EndpointRefused: it is not to be called.
        """
        host, port = host_and_port(url)
        if urlsplit(url).scheme == "http" and not self.allows(host, port):
            found = [ipaddress.ip_address(_bare(text)) for text in addresses]
            if not all(self._allows_address(address, port) for address in found):
                raise EndpointRefused(f"{_origin(url)} is called with TLS only; {_REMEDY}")
        for text in addresses:
            self.check_address(host, port, text)

    def check_address(self, host: str, port: int, text: str) -> None:
        """Whether a connection to an address may be made that a host stands for now.

        Raises:
            EndpointRefused: it may not.
        """
        address = ipaddress.ip_address(_bare(text))
        if self.allows(host, port) or self._allows_address(address, port):
            return
        real = _embedded(address)
        if real == _WIRE_SERVER or real.is_loopback or real.is_link_local or real.is_unspecified:
            kind = "this machine or its cloud's metadata"
        elif real.is_multicast or real.is_reserved or any(real in each for each in _OTHERS):
            kind = "no server's address"
        elif real.is_global or _CLOUDS.match(_name(host)):
            return
        else:
            kind = "a private network"
        raise EndpointRefused(f"{host}:{port} is not called, it is {kind}; {_REMEDY}")

    def allows(self, host: str, port: int) -> bool:
        """Whether a host is allowed by its name, whatever its addresses are."""
        return any(allowance.covers_host(host, port) for allowance in self.allowed)

    def names(self, host: str, port: int) -> bool:
        """Whether a host is allowed by an allowance, not only as a public one; no resolving."""
        literal = _literal(host)
        if literal is not None:
            return self._allows_address(literal, port)
        return self.allows(host, port)

    def _allows_address(self, address: Address, port: int) -> bool:
        real = _embedded(address)
        return any(allowance.covers_address(real, port) for allowance in self.allowed)


def host_and_port(url: str) -> tuple[str, int]:
    """Of an http or https URL.

    Raises:
        EndpointRefused: it is not one that may be called.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise EndpointRefused("an endpoint is not a proper URL") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
        raise EndpointRefused("an endpoint looks like https://host or https://host:port")
    return parts.hostname, port or (443 if parts.scheme == "https" else 80)


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def _split(text: str) -> tuple[str, int | None]:
    """Host or network, and port."""
    if text.startswith("["):
        host, _, rest = text[1:].partition("]")
        return host, _port(text, rest.removeprefix(":")) if rest else None
    if text.count(":") == 1:
        host, _, port = text.partition(":")
        return host, _port(text, port)
    return text, None


def _port(text: str, port: str) -> int:
    if not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise ValueError(f"{text!r} has no proper port")
    return int(port)


def _name(host: str) -> str:
    return host.lower().rstrip(".")


def _bare(address: str) -> str:
    """Without the zone of a link-local address."""
    return address.partition("%")[0]


def _literal(host: str) -> Address | None:
    try:
        return ipaddress.ip_address(_bare(host))
    except ValueError:
        return None


def _embedded(address: Address) -> Address:
    """The IPv4 address that an IPv6 address leads to, if it does."""
    if isinstance(address, IPv4Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if address.teredo is not None:
        return address.teredo[1]
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address
