"""IP addresses and CIDR blocks, with the strictness the API applies to new values."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence, Set
from typing import TypeAlias

from corral.cluster.apiserver.builtin.validation.fields.errors import Errors
from corral.cluster.apiserver.errors import show

__all__ = [
    "LOOPBACK_REFUSED",
    "Address",
    "Network",
    "check_cidr",
    "check_endpoint_ip",
    "check_ip",
    "check_strict_cidr",
    "check_strict_ip",
    "dual_stack",
    "is_ip",
    "parse_cidr",
    "parse_ip",
]

LOOPBACK_REFUSED = "may not be in the loopback range (127.0.0.0/8, ::1/128)"

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

_LOOSE_V4 = re.compile(r"\d{1,10}(\.\d{1,10}){3}").fullmatch
_LEADING_ZERO = re.compile(r"(^|[.:/])0+(?=\d)")


def _drop_zeros(text: str) -> str:
    return _LEADING_ZERO.sub(r"\1", text)


def parse_ip(text: str) -> Address | None:
    """Read an address as leniently as old objects need: leading zeros pass."""
    if "%" in text:
        return None
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        if not _LOOSE_V4(text):
            return None
    try:
        return ipaddress.ip_address(_drop_zeros(text))
    except ValueError:
        return None


def is_ip(text: str) -> bool:
    return parse_ip(text) is not None


def parse_cidr(text: str) -> Network | None:
    """Read a block leniently: leading zeros and host bits pass."""
    address, slash, size = text.partition("/")
    found = parse_ip(address)
    if not slash or found is None or not size.isdigit():
        return None
    try:
        return ipaddress.ip_network((found, int(size)), strict=False)
    except ValueError:
        return None


def _is_mapped(address: Address) -> bool:
    return isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None


def check_ip(errs: Errors, text: str, path: str, known: Set[str] = frozenset()) -> Address | None:
    """An address in a field that older objects fill loosely; ``known`` values always pass."""
    found = parse_ip(text)
    if text in known:
        return found
    if found is None:
        errs.invalid(path, text, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)")
    elif found.version == 4 and _drop_zeros(text) != text:
        errs.invalid(path, text, "must not have leading 0s")
    elif _is_mapped(found):
        errs.invalid(path, text, "must not be an IPv4-mapped IPv6 address")
    return found


def check_strict_ip(errs: Errors, text: str, path: str) -> Address | None:
    """An address that must also be in its canonical form."""
    before = len(errs)
    found = check_ip(errs, text, path)
    if found is not None and len(errs) == before and str(found) != text:
        errs.invalid(path, text, f"must be in canonical form ({show(str(found))})")
    return found


def check_cidr(errs: Errors, text: str, path: str, known: Set[str] = frozenset()) -> None:
    if text in known:
        return
    network = parse_cidr(text)
    if network is None:
        errs.invalid(path, text, "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)")
        return
    address, _, size = text.partition("/")
    found = parse_ip(address)
    if (network.version == 4 and _drop_zeros(address) != address) or str(int(size)) != size:
        errs.invalid(path, text, "must not have leading 0s in IP or prefix length")
    elif found is not None and _is_mapped(found):
        errs.invalid(path, text, "must not have an IPv4-mapped IPv6 address")
    elif found != network.network_address:
        errs.invalid(path, text, "must not have bits set beyond the prefix length")


def check_strict_cidr(errs: Errors, text: str, path: str) -> None:
    before = len(errs)
    check_cidr(errs, text, path)
    network = parse_cidr(text)
    if network is not None and len(errs) == before and str(network) != text:
        errs.invalid(path, text, f"must be in canonical form ({show(str(network))})")


def check_endpoint_ip(errs: Errors, text: str, path: str) -> None:
    """Endpoints may not point at the machine itself or at link-local ranges."""
    found = parse_ip(text)
    if found is None:
        errs.invalid(path, text, "must be a valid IP address")
        return
    if found.is_unspecified:
        errs.invalid(path, text, f"may not be unspecified ({text})")
    if found.is_loopback:
        errs.invalid(path, text, LOOPBACK_REFUSED)
    if found.is_link_local:
        errs.invalid(path, text, "may not be in the link-local range (169.254.0.0/16, fe80::/10)")
    if _is_link_local_multicast(found):
        why = "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"
        errs.invalid(path, text, why)


def _is_link_local_multicast(address: Address) -> bool:
    if address.version == 4:
        return address.packed[:3] == b"\xe0\x00\x00"
    return address.packed[0] == 0xFF and address.packed[1] & 0x0F == 0x02


def dual_stack(addresses: Sequence[str]) -> bool:
    """Whether both families are among the addresses (or blocks)."""
    versions = set()
    for text in addresses:
        found = parse_cidr(text) if "/" in text else parse_ip(text)
        if found is not None:
            versions.add(found.version)
    return len(versions) == 2
