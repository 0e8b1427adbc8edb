"""Connections that hold to a policy: the address is checked that is connected to, not its name."""

from __future__ import annotations

import asyncio
import http.client
import math
import socket
import ssl
import time
import urllib.error
import urllib.request
from typing import Any

from corral.egress.policy import EgressPolicy, EndpointRefused, host_and_port

__all__ = ["checked", "checked_async", "connect", "open_connection", "opener"]


def connect(policy: EgressPolicy, host: str, port: int, timeout: float | None) -> socket.socket:
    """A connection to one of a host's addresses that the policy permits.

    Raises:
        EndpointRefused: it permits none of them.
        OSError: nobody answers.
    """
    failure: OSError = OSError(f"{host} has no address")
    for family, kind, proto, _, where in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        try:
            policy.check_address(host, port, str(where[0]))
        except EndpointRefused as error:
            failure = error
            continue
        made = socket.socket(family, kind, proto)
        try:
            made.settimeout(timeout)
            made.connect(where)
        except OSError as error:
            made.close()
            failure = error
        else:
            return made
    raise failure


async def open_connection(
    policy: EgressPolicy, host: str, port: int, *, limit: int = 64 << 10
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """The same for streams of asyncio. Raises EndpointRefused, OSError."""
    failure: OSError = OSError(f"{host} has no address")
    loop = asyncio.get_running_loop()
    for *_, where in await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        try:
            policy.check_address(host, port, str(where[0]))
            return await asyncio.open_connection(str(where[0]), port, limit=limit)
        except OSError as error:
            failure = error
    raise failure


def checked(policy: EgressPolicy, url: str) -> None:
    """Whether a URL may be called as its host is resolved now. Raises EndpointRefused, OSError."""
    policy.check_url(url)
    host, port = host_and_port(url)
    if policy.allows(host, port):
        return
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    policy.check(url, [str(where[0]) for *_, where in found])


async def checked_async(policy: EgressPolicy, url: str) -> None:
    """`checked` without holding up the loop. Raises EndpointRefused, OSError."""
    policy.check_url(url)
    host, port = host_and_port(url)
    if policy.allows(host, port):
        return
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    policy.check(url, [str(where[0]) for *_, where in found])


# --- urllib ----------------------------------------------------------------------------------


class _Ending(socket.socket):
    """A connection that is read for a while, however often something comes."""

    until = math.inf

    def recv_into(self, *args: Any, **kwargs: Any) -> int:
        if time.monotonic() > self.until:
            raise TimeoutError("the server takes too long")
        return super().recv_into(*args, **kwargs)


class _SecureEnding(_Ending, ssl.SSLSocket):
    """The same with TLS."""


def opener(policy: EgressPolicy, *, seconds: float = 120.0) -> urllib.request.OpenerDirector:
    """For urllib: no proxies, no redirects, and every connection as the policy permits.

    One lasts so many ``seconds`` at most, and the time that its server may be silent.
    """

    class Plain(http.client.HTTPConnection):
        def connect(self) -> None:
            plain = connect(policy, self.host, self.port, self.timeout)
            self.sock = ending = _Ending(plain.family, plain.type, plain.proto, plain.detach())
            ending.settimeout(self.timeout)
            ending.until = time.monotonic() + seconds

    class Secure(http.client.HTTPSConnection):
        def connect(self) -> None:
            plain = connect(policy, self.host, self.port, self.timeout)
            tls = ssl.create_default_context()
            tls.sslsocket_class = _SecureEnding
            made = tls.wrap_socket(plain, server_hostname=self.host)
            assert isinstance(made, _SecureEnding)
            made.until = time.monotonic() + seconds
            self.sock = made

    class PlainHandler(urllib.request.HTTPHandler):
        def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
            return self.do_open(Plain, req)

    class SecureHandler(urllib.request.HTTPSHandler):
        def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
            return self.do_open(Secure, req)

    class NoRedirects(urllib.request.HTTPRedirectHandler):
        def redirect_request(self, *args: Any, **kwargs: Any) -> None:
            return None  # then it is an error of its status

    no_proxies = urllib.request.ProxyHandler({})
    return urllib.request.build_opener(no_proxies, PlainHandler, SecureHandler, NoRedirects)
