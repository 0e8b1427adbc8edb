"""Connections to kubelets and proxied backends: TLS, plain requests, upgrades, error texts."""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
from aiohttp import web
from multidict import CIMultiDict
from yarl import URL

from corral.cluster.apiserver.nodes.lookup import Backend, Kubelet
from corral.cluster.streaming import upgrade
from corral.kube import errors

CONNECT_TIMEOUT = 30.0
READ_BUFFER = 1 << 18
"""Bytes of a backend's answer that are read ahead; logs are passed on in pieces of about that."""
HOP_BY_HOP = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
_PRIVATE = frozenset({"authorization"})
"""Headers that are between the client and the API server."""
_UPGRADE = frozenset({"connection", "upgrade"})


class Kubelets:
    """The HTTP client side; ``start`` and ``stop`` bracket its use."""

    def __init__(
        self, *, cert_file: Path | None, key_file: Path | None, ca_file: Path | None
    ) -> None:
        self._tls = _context(ca_file)
        if cert_file is not None:
            self._tls.load_cert_chain(cert_file, key_file)
        self._plain_tls = _context(None)
        self._session: aiohttp.ClientSession | None = None

    def use_certificate(self, cert_file: Path, key_file: Path) -> None:
        """Show this certificate from now on. Raises OSError, ssl.SSLError."""
        self._tls.load_cert_chain(cert_file, key_file)

    async def start(self) -> None:
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT)
        connector = aiohttp.TCPConnector(limit=0, ssl=self._tls)
        # DummyCookieJar: nothing of one client may reach another
        self._session = aiohttp.ClientSession(
            connector=connector,
            timeout=timeout,
            auto_decompress=False,
            read_bufsize=READ_BUFFER,
            cookie_jar=aiohttp.DummyCookieJar(),
            skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
        )

    async def stop(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    @asynccontextmanager
    async def get(self, kubelet: Kubelet, target: str) -> AsyncIterator[aiohttp.ClientResponse]:
        """A GET; ``target`` is path and query. Raises OSError, aiohttp.ClientError."""
        url = URL(f"https://{kubelet.authority}{target}", encoded=True)
        async with self._client.get(url, allow_redirects=False) as response:
            yield response

    @asynccontextmanager
    async def request(
        self, backend: Backend, method: str, target: str, *, request: web.BaseRequest
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Pass a request on, its body streaming."""
        url = URL(f"{backend.scheme}://{backend.authority}{target}", encoded=True)
        async with self._client.request(
            method,
            url,
            headers=forward_headers(request),
            data=request.content if request.can_read_body else None,
            allow_redirects=False,
            ssl=self._tls if backend.kubelet else self._plain_tls,
        ) as response:
            yield response

    async def dial(
        self, backend: Backend, target: str, headers: CIMultiDict[str], *, method: str
    ) -> upgrade.Upgraded:
        """Ask for an upgrade. Raises OSError, TimeoutError, upgrade.Refused."""
        tls = self._tls if backend.kubelet else self._plain_tls
        return await upgrade.dial(
            backend.host,
            backend.port,
            tls=tls if backend.scheme == "https" else None,
            target=target,
            headers=headers,
            method=method,
            patience=CONNECT_TIMEOUT,
        )

    @property
    def _client(self) -> aiohttp.ClientSession:
        assert self._session is not None, "start() comes first"
        return self._session


def _context(ca_file: Path | None) -> ssl.SSLContext:
    """Without a CA the far side is not verified, like kube-apiserver without a kubelet CA."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if ca_file is not None:
        context.load_verify_locations(ca_file)
    else:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def backend_of(kubelet: Kubelet) -> Backend:
    return Backend("https", kubelet.host, kubelet.port, kubelet=True)


# -- headers -------------------------------------------------------------------------------


def forward_headers(request: web.BaseRequest, *, upgrading: bool = False) -> CIMultiDict[str]:
    """The client's headers for the far side: no credentials, no hop-by-hop ones."""
    named = ",".join(request.headers.getall("Connection", ())).lower()
    dropped = HOP_BY_HOP | _PRIVATE | {n.strip() for n in named.split(",") if n.strip()}
    if upgrading:
        dropped -= _UPGRADE
    out: CIMultiDict[str] = CIMultiDict()
    for name, value in request.headers.items():
        lower = name.lower()
        if lower in dropped or lower.startswith("impersonate-") or lower == "content-length":
            continue
        if lower == "sec-websocket-protocol":
            value = ", ".join(upgrade.offered(request, name))
            if not value or name in out:
                continue
        out.add(name, value)
    length = request.headers.get("Content-Length")
    if length is not None and not upgrading:
        out["Content-Length"] = length
    if request.remote:
        before = request.headers.get("X-Forwarded-For")
        out["X-Forwarded-For"] = f"{before}, {request.remote}" if before else request.remote
    return out


def returned_headers(headers: Iterable[tuple[str, str]]) -> CIMultiDict[str]:
    """The far side's headers for the client."""
    out: CIMultiDict[str] = CIMultiDict()
    for name, value in headers:
        lower = name.lower()
        if lower not in HOP_BY_HOP and not lower.startswith("access-control-allow-"):
            out.add(name, value)
    return out


# -- what went wrong -------------------------------------------------------------------------


def explain(err: BaseException, authority: str) -> str:
    """A failed connection in the words people know from kube-apiserver."""
    if isinstance(err, aiohttp.ClientConnectorError):
        err = err.os_error
    dial = f"dial tcp {authority}"
    if isinstance(err, ssl.SSLError):
        return f"tls: {err.reason or err}"
    if isinstance(err, TimeoutError | asyncio.TimeoutError):
        return f"{dial}: i/o timeout"
    if isinstance(err, socket.gaierror):
        return f"dial tcp: lookup {authority.rpartition(':')[0]}: no such host"
    if isinstance(err, OSError) and err.errno in _ERRNO:
        return f"{dial}: connect: {_ERRNO[err.errno]}"
    if isinstance(err, ConnectionResetError | aiohttp.ServerDisconnectedError):
        return "EOF"
    return f"{dial}: {err}"


_ERRNO = {
    errno.ECONNREFUSED: "connection refused",
    errno.EHOSTUNREACH: "no route to host",
    errno.ENETUNREACH: "network is unreachable",
    errno.ETIMEDOUT: "connection timed out",
}


def answered(code: int, resource: str, name: str, body: str) -> errors.ApiError:
    """The error for a kubelet's answer that is not a success."""
    if code == 500:
        why = f"Internal error occurred: {body}"
        return errors.InternalError(why, details={"causes": [{"message": body}]})
    if code == 400:
        return errors.BadRequest(body)
    reason, message = _ANSWERS.get(code, ("", ""))
    if not message:
        message = (
            f"an error on the server ({_quote(body)}) has prevented the request from succeeding"
            if code > 500
            else f"the server responded with the status code {code} but did not return more "
            "information"
        )
        reason = "InternalError" if code > 500 else ""
    text = body if message == "{}" else message
    details = {"name": name, "kind": resource}
    return errors.ApiError(
        f"{text} ( {resource} {name})", details=details, code=code, reason=reason
    )


def _quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


_ANSWERS = {
    401: ("Unauthorized", "the server has asked for the client to provide credentials"),
    403: ("Forbidden", "{}"),
    404: ("NotFound", "the server could not find the requested resource"),
    405: (
        "MethodNotAllowed",
        "the server does not allow this method on the requested resource",
    ),
    409: ("Conflict", "the server reported a conflict"),
    429: (
        "TooManyRequests",
        "the server has received too many requests and has asked us to try again later",
    ),
    503: ("ServiceUnavailable", "the server is currently unable to handle the request"),
    504: (
        "Timeout",
        "the server was unable to return a response in the time allotted, but may still be "
        "processing the request",
    ),
}
