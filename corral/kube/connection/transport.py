"""HTTP to one API server: connections, credentials, retries and the mapping of errors.

Guarantees:
- An answer of 400 and above is raised as the typed `ApiError` of its ``Status``; a request that got
  no answer is a `KubeConnectionError`. Nothing else about HTTP leaves this module.
- A request is sent again only when that is safe: the server asked for it (429 or 503 with
  ``Retry-After``), it refused the credential and there is a newer one, or the connection broke
  under a GET. Retries are bounded.
- Long-lived answers (watches, logs, WebSockets) have a connection pool of their own, so that any
  number of them cannot starve ordinary requests.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import urlencode

import aiohttp
import orjson
from multidict import CIMultiDict
from yarl import URL

from corral import __version__
from corral.egress.reading import read_body
from corral.kube.connection.config import ClusterConfig
from corral.kube.connection.credentials import Credential, credential_source, impersonation_headers
from corral.kube.connection.proxy import proxy_for
from corral.kube.connection.tls import TlsContexts
from corral.kube.errors import ApiError, error_from_status

__all__ = ["ClientSettings", "IdleTimeout", "KubeConnectionError", "Query", "Transport"]

logger = logging.getLogger(__name__)

Query = Iterable[tuple[str, str]]
_BEHIND_SOCKET = "http://localhost"
_MAX_REFUSAL = 1 << 20
"""Bytes that are read of the refusal of a stream."""
"""What requests over a socket are addressed to: the socket says which server it is."""
_T = TypeVar("_T")


class KubeConnectionError(Exception):
    """The server gave no (complete) answer: unreachable, TLS refused, connection lost, too slow."""


class IdleTimeout(KubeConnectionError):
    """A long-lived answer was silent for longer than its idle timeout allows."""


class _Refused(Exception):
    """An answer of the server that is an error, until it is known whether to send again."""

    def __init__(self, error: ApiError, retry_after: int = -1) -> None:
        super().__init__(str(error))
        self.error = error
        self.retry_after = retry_after
        """Seconds of the ``Retry-After`` header; negative without one."""


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """How patient a client is."""

    connect_timeout: float = 15.0
    """Seconds to open a connection, TLS included."""
    read_timeout: float = 65.0
    """Longest silence in an ordinary answer; just above the minute a server gives a request."""
    max_retries: int = 5
    """How often one request is sent again at most."""
    max_retry_wait: float = 30.0
    """Longest wait in seconds that a server's ``Retry-After`` is followed for."""
    reset_backoff: float = 0.1
    """First wait in seconds after a broken connection; doubles each time, with jitter."""
    max_connections: int = 100
    """Ordinary requests at the same time; more wait their turn."""
    max_answer: int | None = None
    """Bytes of an answer, unpacked, where the server is not the cluster's own; None: any number."""
    user_agent: str = f"corral/{__version__}"


class Transport:
    """The connections to one server, opened when first needed; `close` ends them."""

    def __init__(
        self,
        config: ClusterConfig,
        *,
        settings: ClientSettings | None = None,
        on_warning: Callable[[str], None] | None = None,
        on_answer: Callable[[str, str], None] | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        """``on_answer`` hears the method of every request and what came of it.

        That is ``2xx``, the code of a refusal, or ``<error>`` where there was no answer; a request
        that was sent again is heard of once.
        """
        self.config = config
        self.settings = settings or ClientSettings()
        self._on_answer = on_answer
        self._on_warning = on_warning or _log_warning
        self._sleep = sleep
        self._credentials = credential_source(config)
        self._tls = TlsContexts(config)
        self._proxy = None
        if not config.socket:
            self._proxy = proxy_for(config, os.environ if environ is None else environ)
        self._fixed_headers = self._build_fixed_headers()
        self._base = _BEHIND_SOCKET if config.socket else config.server
        self._timeout = aiohttp.ClientTimeout(
            total=None,
            sock_connect=self.settings.connect_timeout,
            sock_read=self.settings.read_timeout,
        )
        self._closed = False
        self._session: aiohttp.ClientSession | None = None
        self._stream_session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Close all connections for good; streams that are open fail."""
        self._closed = True
        for session in (self._session, self._stream_session):
            if session is None:
                continue
            if session.connector is not None:
                # no farewell: it would go on behind our back, and nobody answers it
                await session.connector.close(abort_ssl=True)
            await session.close()
        self._session = self._stream_session = None

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        body: bytes | None = None,
        content_type: str = "application/json",
        accept: str = "application/json",
    ) -> bytes:
        """Send a request and return the whole body of its answer.

        Raises:
            ApiError: the server refused.
            KubeConnectionError: there was no complete answer.
        """
        url = self._url(path, query)
        headers = {"Accept": accept}
        if body is not None:
            headers["Content-Type"] = content_type

        async def attempt(credential: Credential) -> bytes:
            session = self._session or self._open_session()
            async with session.request(
                method,
                url,
                data=body,
                allow_redirects=method == "GET",
                **self._options(credential, headers),
            ) as response:
                content = await self._read(response)
                if response.status >= 400:
                    raise _refusal(response, content)
                self._warn(response)
                return content

        return await self._send(method, attempt)

    async def open_stream(
        self,
        path: str,
        *,
        query: Query = (),
        accept: str = "application/json",
        idle_timeout: float | None = None,
    ) -> aiohttp.ClientResponse:
        """GET an answer that goes on; the caller must close the response.

        ``idle_timeout`` is the longest silence in seconds until reading from it fails.
        """
        url = self._url(path, query)
        timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=self.settings.connect_timeout, sock_read=idle_timeout
        )

        async def attempt(credential: Credential) -> aiohttp.ClientResponse:
            session = self._stream_session or self._open_stream_session()
            response = await session.get(
                url,
                timeout=timeout,
                raise_for_status=False,
                **self._options(credential, {"Accept": accept, "Accept-Encoding": "identity"}),
            )
            if response.status >= 400:
                async with response:
                    raise _refusal(response, await _error_body(response))
            self._warn(response)
            fail_when_lost(response)
            return response

        return await self._send("GET", attempt)

    async def open_websocket(
        self,
        path: str,
        *,
        query: Query = (),
        protocols: tuple[str, ...],
        heartbeat: float | None = None,
    ) -> aiohttp.ClientWebSocketResponse:
        """Upgrade to a WebSocket; ``protocol`` of the result says which protocol was agreed on."""
        url = self._url(path, query)

        async def attempt(credential: Credential) -> aiohttp.ClientWebSocketResponse:
            session = self._stream_session or self._open_stream_session()
            socket: aiohttp.ClientWebSocketResponse = await session.ws_connect(
                url,
                protocols=protocols,
                heartbeat=heartbeat,
                max_msg_size=0,
                **self._options(credential, {}),
            )
            return socket

        # Not as a GET: an exec that was started must not be started twice.
        return await self._with_retries("CONNECT", attempt)

    def failure(self, cause: BaseException) -> KubeConnectionError:
        """The error to raise for what went wrong while reading an open stream."""
        return connection_error(self.config.server, cause)

    async def _send(self, method: str, attempt: Callable[[Credential], Awaitable[_T]]) -> _T:
        """Do it, again where that is wise, and say what came of it."""
        outcome = "2xx"
        try:
            return await self._with_retries(method, attempt)
        except ApiError as error:
            outcome = str(error.status_code)
            raise
        except KubeConnectionError:
            outcome = "<error>"
            raise
        finally:
            if self._on_answer is not None:
                self._on_answer(method, outcome)

    async def _with_retries(
        self, method: str, attempt: Callable[[Credential], Awaitable[_T]]
    ) -> _T:
        renewed, tries = False, 0
        while True:
            if self._closed:
                raise KubeConnectionError("the client is closed")
            credential = await self._credentials.current()
            try:
                return await attempt(credential)
            except _Refused as refused:
                if refused.error.status_code == 401 and not renewed:
                    renewed = True
                    if await self._credentials.renew(credential):
                        continue
                if tries >= self.settings.max_retries or not self._may_resend(refused):
                    raise refused.error from None
                wait = float(refused.retry_after)
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                if method != "GET" or tries >= self.settings.max_retries or not _broke(error):
                    raise connection_error(self.config.server, error) from error
                wait = self.settings.reset_backoff * 2**tries * random.uniform(1, 2)
            tries += 1
            await self._sleep(wait)

    def _may_resend(self, refused: _Refused) -> bool:
        """Whether the server asked for the same request again, and within reason."""
        return (
            refused.error.status_code in (429, 503)
            and 0 <= refused.retry_after <= self.settings.max_retry_wait
        )

    def _options(self, credential: Credential, headers: Mapping[str, str]) -> dict[str, Any]:
        merged: CIMultiDict[str] = CIMultiDict(self._fixed_headers)
        merged.update(headers)
        if credential.authorization:
            merged["Authorization"] = credential.authorization
        options: dict[str, Any] = {"headers": merged}
        context = None if self.config.socket else self._tls.context(credential)
        if context is not None:
            options["ssl"] = context
            if self.config.tls_server_name:
                options["server_hostname"] = self.config.tls_server_name
        if self._proxy:
            options["proxy"] = self._proxy
        return options

    def _build_fixed_headers(self) -> CIMultiDict[str]:
        headers: CIMultiDict[str] = CIMultiDict({"User-Agent": self.settings.user_agent})
        headers["Accept-Encoding"] = "identity" if self.config.disable_compression else "gzip"
        for name, value in impersonation_headers(self.config.impersonation):
            headers.add(name, value)
        return headers

    def _url(self, path: str, query: Query) -> URL:
        text = f"{self._base}{path}"
        encoded = urlencode(list(query))
        if encoded:
            text += ("&" if "?" in path else "?") + encoded
        return URL(text, encoded=True)

    async def _read(self, response: aiohttp.ClientResponse) -> bytes:
        limit = self.settings.max_answer
        return await response.read() if limit is None else await read_body(response, limit)

    def _connector(self, limit: int) -> aiohttp.BaseConnector:
        if self.config.socket:
            return aiohttp.UnixConnector(self.config.socket, limit=limit)
        return aiohttp.TCPConnector(limit=limit)

    def _open_session(self) -> aiohttp.ClientSession:
        self._session = aiohttp.ClientSession(
            connector=self._connector(self.settings.max_connections),
            timeout=self._timeout,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=self.settings.max_answer is None,
        )
        return self._session

    def _open_stream_session(self) -> aiohttp.ClientSession:
        self._stream_session = aiohttp.ClientSession(
            connector=self._connector(0),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=self.settings.connect_timeout),
            # For WebSockets: the handshake error of aiohttp would lose the Status in the body.
            raise_for_status=_raise_unless_upgraded,
            read_bufsize=2**18,
            cookie_jar=aiohttp.DummyCookieJar(),
        )
        return self._stream_session

    def _warn(self, response: aiohttp.ClientResponse) -> None:
        for value in response.headers.getall("Warning", ()):
            text = parse_warning(value)
            if text:
                self._on_warning(text)


def parse_warning(header: str) -> str:
    """The text of a ``Warning: 299 - "text"`` header; empty for any other code."""
    match = _WARNING.match(header)
    return re.sub(r"\\(.)", r"\1", match[1]) if match else ""


_WARNING = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')


def _log_warning(text: str) -> None:
    logger.warning("the API server warns: %s", text)


def connection_error(server: str, cause: BaseException) -> KubeConnectionError:
    """One line about why there was no answer."""
    if isinstance(cause, aiohttp.SocketTimeoutError):
        return IdleTimeout(f"no data from {server} for too long")
    if isinstance(cause, aiohttp.ClientConnectorCertificateError):
        reason = f"its certificate is not trusted: {cause.certificate_error}"
    elif isinstance(cause, TimeoutError):
        reason = "it did not answer in time"
    else:
        reason = str(cause) or type(cause).__name__
    return KubeConnectionError(f"cannot talk to {server}: {reason}")


def _broke(error: BaseException) -> bool:
    """Whether an established connection was lost, as opposed to never made."""
    if isinstance(error, aiohttp.ClientConnectorError):
        return False
    lost = (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError, aiohttp.ClientPayloadError)
    return isinstance(error, (*lost, ConnectionResetError))


def fail_when_lost(response: aiohttp.ClientResponse) -> None:
    """See to it that reading fails when the connection is lost, whatever came last.

    A body that goes on with something else than the next chunk ends the connection, but aiohttp
    would let its reader wait for ever.
    """
    protocol = response.connection.protocol if response.connection is not None else None
    closed = protocol.closed if protocol is not None else None
    if closed is not None:
        closed.add_done_callback(lambda lost: _fail(response.content, lost))


def _fail(content: aiohttp.StreamReader, lost: asyncio.Future[None]) -> None:
    cause = None if lost.cancelled() else lost.exception()
    if not content.is_eof() and content.exception() is None:
        content.set_exception(aiohttp.ClientPayloadError(str(cause or "the connection was lost")))


async def _raise_unless_upgraded(response: aiohttp.ClientResponse) -> None:
    if response.status != 101:
        raise _refusal(response, await _error_body(response))


async def _error_body(response: aiohttp.ClientResponse) -> bytes:
    """Why a stream is refused, as far as that is read."""
    pieces, size = [], 0
    async for piece in response.content.iter_any():
        pieces.append(piece)
        size += len(piece)
        if size > _MAX_REFUSAL:
            response.close()
            break
    return b"".join(pieces)[:_MAX_REFUSAL]


def _refusal(response: aiohttp.ClientResponse, content: bytes) -> _Refused:
    """An answer that is no success; proxies may give one without a Status."""
    status: Any = None
    if content[:1] == b"{":
        try:
            status = orjson.loads(content)
        except orjson.JSONDecodeError:
            status = None
    if not isinstance(status, dict) or status.get("kind") != "Status":
        text = content[:2048].decode(errors="replace").strip()
        status = {"message": text or response.reason or ""}
    error = error_from_status(status, response.status if response.status >= 400 else 500)
    after = response.headers.get("Retry-After", "")
    if not after.isdigit():
        return _Refused(error)
    error.details.setdefault("retryAfterSeconds", int(after))
    return _Refused(error, int(after))
