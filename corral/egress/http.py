"""Connections of aiohttp that hold to a policy."""

from __future__ import annotations

import socket
import ssl
from collections import OrderedDict
from typing import Any, Final

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import ThreadedResolver

from corral.egress.policy import EgressPolicy, EndpointRefused

__all__ = ["connector"]

_REMEMBERED: Final = 256


def connector(policy: EgressPolicy, *, tls: ssl.SSLContext | bool = True) -> aiohttp.TCPConnector:
    """Resolves as usual; an address that is not permitted is not connected to.

    A request whose host has no permitted address fails with `EndpointRefused`, which is an OSError.
    """
    guard = _Guard(policy)
    return aiohttp.TCPConnector(
        ssl=tls, resolver=guard, socket_factory=guard.socket, use_dns_cache=False
    )


class _Guard(AbstractResolver):
    """The resolver sees names, the factory of sockets sees every address, also one by number."""

    def __init__(self, policy: EgressPolicy) -> None:
        self._policy = policy
        self._resolver = ThreadedResolver()
        self._by_name: OrderedDict[tuple[str, int], None] = OrderedDict()
        """Addresses that are permitted for their host's sake."""

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        found = await self._resolver.resolve(host, port, family)
        permitted: list[ResolveResult] = []
        refusal: EndpointRefused | None = None
        for each in found:
            try:
                self._policy.check_address(host, port, each["host"])
            except EndpointRefused as error:
                refusal = error
                continue
            permitted.append(each)
            self._remember(each["host"], port)
        if not permitted and refusal is not None:
            raise refusal
        return permitted

    def socket(self, info: Any) -> socket.socket:
        family, kind, proto, _, where = info
        address, port = str(where[0]), int(where[1])
        if (address, port) not in self._by_name:
            self._policy.check_address(address, port, address)
        return socket.socket(family, kind, proto)

    def _remember(self, address: str, port: int) -> None:
        self._by_name[address, port] = None
        self._by_name.move_to_end((address, port))
        if len(self._by_name) > _REMEMBERED:
            self._by_name.popitem(last=False)

    async def close(self) -> None:
        await self._resolver.close()
