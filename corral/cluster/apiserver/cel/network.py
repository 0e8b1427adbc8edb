"""IP addresses, networks and URLs for the CEL libraries of the same names.

Addresses and networks travel through CEL as their canonical text, URLs as their source text.
"""

from __future__ import annotations

import ipaddress
import re
from urllib.parse import SplitResult, parse_qs, quote, unquote, urlsplit

__all__ = ["canonical_cidr", "canonical_ip", "contains", "is_global_unicast", "parse_url"]

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_HOST_BAD = re.compile(r"[\s<>\"\\^`{|}]")


def address(text: str) -> Address:
    """Parse strictly: no zones and no IPv4-mapped IPv6 addresses."""
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        raise ValueError(f'IP Address "{text}" parse error: unable to parse IP') from None
    if "%" in text:
        raise ValueError(f'IP address "{text}" with zone value is not allowed')
    if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is not None:
        raise ValueError(f'IPv4-mapped IPv6 address "{text}" is not allowed')
    return found


def canonical_ip(text: str) -> str:
    return str(address(text))


def canonical_cidr(text: str) -> str:
    """``address/bits`` with the address kept as given (not masked)."""
    try:
        head, _, bits = text.partition("/")
        if not bits or (len(bits) > 1 and bits[0] == "0") or not bits.isdigit():
            raise ValueError
        return str(ipaddress.ip_interface(f"{address(head)}/{bits}"))
    except ValueError:
        raise ValueError(
            "network address parse error during conversion from string: "
            f"netip.ParsePrefix(\"{text}\"): no '/'"
        ) from None


def contains(network: str, other: str) -> bool:
    """Whether a network holds an address (``1.2.3.4``) or another network (``1.2.3.0/24``)."""
    outer = ipaddress.ip_interface(network).network
    if "/" not in other:
        found = address(other)
        return found.version == outer.version and found in outer
    inner = ipaddress.ip_interface(canonical_cidr(other)).network
    if isinstance(outer, ipaddress.IPv4Network):
        return isinstance(inner, ipaddress.IPv4Network) and inner.subnet_of(outer)
    return isinstance(inner, ipaddress.IPv6Network) and inner.subnet_of(outer)


def is_global_unicast(text: str) -> bool:
    """As Go has it: everything that is not unspecified, loopback, multicast or link-local."""
    found = ipaddress.ip_address(text)
    special = found.is_unspecified or found.is_loopback or found.is_multicast
    return not (special or found.is_link_local or str(found) == "255.255.255.255")


def is_link_local_multicast(found: Address) -> bool:
    networks = ("224.0.0.0/24", "ff02::/16")
    return any(found in net for net in map(ipaddress.ip_network, networks))


def parse_url(text: str) -> SplitResult:
    """Parse an absolute URL or an absolute path.

    Raises:
        ValueError: the text is neither; the message is the one Kubernetes gives.
    """
    where = f'URL parse error during conversion from string: parse "{text}": '
    if not text:
        raise ValueError(f"{where}empty url")
    try:
        url = urlsplit(text)
        _ = url.port
    except ValueError as why:
        raise ValueError(f"{where}{why}") from None
    if text.startswith(":"):
        raise ValueError(f"{where}missing protocol scheme")
    if (not url.scheme and not text.startswith("/")) or _HOST_BAD.search(url.netloc):
        raise ValueError(f"{where}invalid URI for request")
    return url


def host(url: SplitResult) -> str:
    return url.netloc.rpartition("@")[2]


def escaped_path(url: SplitResult) -> str:
    return quote(unquote(url.path), safe="/$&+,:;=@!*'()~") if "%" not in url.path else url.path


def query(url: SplitResult) -> dict[str, list[str]]:
    return parse_qs(url.query, keep_blank_values=True)
