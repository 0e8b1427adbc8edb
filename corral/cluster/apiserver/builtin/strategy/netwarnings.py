"""Warnings about addresses that parse and are still written in a way to avoid."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network

__all__ = ["cidr_warnings", "ip_warnings"]


def ip_warnings(path: str, value: str) -> list[str]:
    """Nothing for a canonical address, and for what validation refuses anyway."""
    address = _address(value)
    plain = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    if address is None or plain is not None:
        plain = plain or _sloppy_v4(value)
        if plain is None:
            return []
        return [f'{path}: non-standard IP address "{value}" is invalid: use "{plain}"']
    if isinstance(address, IPv6Address) and str(address) != value:
        return [
            f'{path}: IPv6 address "{value}" should be in RFC 5952 canonical format ("{address}")'
        ]
    return []


def cidr_warnings(path: str, value: str) -> list[str]:
    """Warn of host bits and of spellings other than the canonical one."""
    try:
        network = ip_network(value, strict=False)
    except ValueError:
        return []
    host = value.partition("/")[0]
    address = _address(host)
    if address is None:
        return []
    if address != network.network_address:
        single = f"{address}/{network.max_prefixlen}"
        return [
            f'{path}: CIDR value "{value}" is ambiguous in this context '
            f'(should be "{network}" or "{single}"?)'
        ]
    if isinstance(network, IPv6Network) and str(network) != value:
        return [
            f'{path}: IPv6 CIDR value "{value}" should be in RFC 5952 canonical format '
            f'("{network}")'
        ]
    return []


def _address(value: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(value)
    except ValueError:
        return None


def _sloppy_v4(value: str) -> IPv4Address | None:
    """An IPv4 address whose numbers carry leading zeros."""
    parts = value.split(".")
    if len(parts) != 4 or not all(p.isascii() and p.isdigit() and int(p) < 256 for p in parts):
        return None
    return IPv4Address(".".join(str(int(part)) for part in parts))
