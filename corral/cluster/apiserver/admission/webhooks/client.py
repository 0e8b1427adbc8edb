"""HTTPS to webhooks: where they are, and what calling them failed with, in Go's words.

Webhooks are trusted by their CA bundle (the system's authorities without one). A service is
reached at the address a resolver gives, and proves to be ``NAME.NAMESPACE.svc``.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import os
import ssl
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple, TypeAlias
from urllib.parse import urlsplit

import aiohttp
from yarl import URL

from corral.cluster.apiserver.fairness.dispatch import elsewhere
from corral.cluster.apiserver.store import Store
from corral.cluster.apiserver.turns import Turns
from corral.kube.types import Obj

__all__ = ["CallError", "Endpoint", "Resolve", "ServiceResolver", "WebhookClient", "endpoint_of"]

Resolve: TypeAlias = Callable[[str, str, int], tuple[str, int]]
"""(namespace, service, port) → (host, port). Raises LookupError with the reason."""

SERVICES, ENDPOINTS = "/services", "/endpoints"
SLICES = "discovery.k8s.io/endpointslices"
_MAX_ANSWER = 3 * 1024 * 1024


class CallError(Exception):
    """A call that got no usable answer; the text is the reason."""


class Endpoint(NamedTuple):
    """Where a webhook listens: a URL, or a service by namespace, name, port and path."""

    url: str
    ca: bytes
    service: tuple[str, str, int] | None = None

    @property
    def server_name(self) -> str | None:
        return f"{self.service[1]}.{self.service[0]}.svc" if self.service else None


def endpoint_of(config: Obj) -> Endpoint:
    """Read a ``clientConfig``."""
    try:
        ca = base64.b64decode(config.get("caBundle") or "")
    except (binascii.Error, ValueError):
        ca = b""
    service = config.get("service")
    if service is None:
        return Endpoint(config.get("url", ""), ca)
    namespace, name = service.get("namespace", ""), service.get("name", "")
    port = service.get("port") or 443
    path = (service.get("path") or "").lstrip("/")
    url = f"https://{name}.{namespace}.svc:{port}/{path}"
    return Endpoint(url, ca, (namespace, name, port))


CALLS = 64
"""Calls of one webhook at a time; the others wait."""
WAITING_PER_FLOW, WAITING = 64, 512
_MOST_KNOWN = 1024


class ServiceResolver:
    """Finds the first ready address behind a service in the store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __call__(self, namespace: str, name: str, port: int) -> tuple[str, int]:
        entry = self._store.get(SERVICES, f"{namespace}/{name}")
        if entry is None:
            raise LookupError(f'service "{name}" not found')
        spec = entry.decode().get("spec") or {}
        if spec.get("type") == "ExternalName":
            return spec["externalName"], port
        found = [p for p in spec.get("ports") or () if p.get("port") == port]
        if not found:
            raise LookupError(f'no service port {port} found for service "{name}"')
        port_name = found[0].get("name", "")
        address = self._slice(namespace, name, port_name) or self._endpoints(
            namespace, name, port_name
        )
        if address is None:
            raise LookupError(f'no endpoints available for service "{name}"')
        return address

    def _slice(self, namespace: str, name: str, port_name: str) -> tuple[str, int] | None:
        for entry in self._store.scan(SLICES, f"{namespace}/"):
            if entry.labels.get("kubernetes.io/service-name") != name:
                continue
            slice_ = entry.decode()
            ports = [
                p["port"]
                for p in slice_.get("ports") or ()
                if p.get("port") and p.get("name", "") == port_name
            ]
            for endpoint in slice_.get("endpoints") or ():
                ready = (endpoint.get("conditions") or {}).get("ready") is not False
                if ready and ports and endpoint.get("addresses"):
                    return endpoint["addresses"][0], ports[0]
        return None

    def _endpoints(self, namespace: str, name: str, port_name: str) -> tuple[str, int] | None:
        entry = self._store.get(ENDPOINTS, f"{namespace}/{name}")
        for subset in (entry.decode() if entry else {}).get("subsets") or ():
            for port in subset.get("ports") or ():
                if port.get("name", "") == port_name and subset.get("addresses"):
                    return subset["addresses"][0]["ip"], port["port"]
        return None


class WebhookClient:
    """One connection pool for all webhooks. ``close`` when done."""

    def __init__(self, resolve: Resolve) -> None:
        self._resolve = resolve
        self._session: aiohttp.ClientSession | None = None
        self._turns: dict[str, Turns] = {}
        """By webhook: a slow one holds up its own calls only, and those of each flow in turn."""

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def post(self, endpoint: Endpoint, body: bytes, *, seconds: int, flow: str = "") -> bytes:
        """The body of a good answer that came in time.

        Raises:
            CallError: with the reason that follows "failed to call webhook: ".
            TooManyRequests: too many calls of the flow wait for this webhook.
        """
        turns = self._turns.get(endpoint.url)
        if turns is None:
            turns = self._turns_of(endpoint.url)
        return await elsewhere(self._in_turn(turns, flow, endpoint, body, seconds))

    async def _in_turn(
        self, turns: Turns, flow: str, endpoint: Endpoint, body: bytes, seconds: int
    ) -> bytes:
        await turns.take(flow)
        try:
            return await self._timed(endpoint, body, seconds)
        finally:
            turns.give()

    def _turns_of(self, url: str) -> Turns:
        if len(self._turns) >= _MOST_KNOWN:
            self._turns = {url: t for url, t in self._turns.items() if t.taken}
        made = Turns(CALLS, waiting_per_flow=WAITING_PER_FLOW, waiting=WAITING)
        self._turns[url] = made
        return made

    async def _timed(self, endpoint: Endpoint, body: bytes, seconds: int) -> bytes:
        shown = _with_timeout(endpoint.url, seconds)
        try:
            async with asyncio.timeout(seconds):
                return await self._post(endpoint, shown, body)
        except TimeoutError:
            why = "context deadline exceeded"
        except aiohttp.ClientConnectorCertificateError as err:
            why = _certificate_text(err.certificate_error)
        except aiohttp.ClientSSLError as err:
            why = f"tls: {err.os_error}"
        except aiohttp.ClientConnectorDNSError as err:
            why = f"dial tcp: lookup {err.host}: no such host"
        except aiohttp.ClientConnectorError as err:
            why = f"dial tcp {err.host}:{err.port}: connect: {_os_text(err.os_error)}"
        except aiohttp.ServerDisconnectedError:
            why = "EOF"
        except (aiohttp.ClientError, ssl.SSLError, LookupError, OSError) as err:
            why = str(err.args[0] if isinstance(err, LookupError) and err.args else err)
        raise CallError(f'Post "{shown}": {why}')

    async def _post(self, endpoint: Endpoint, shown: str, body: bytes) -> bytes:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,  # what was sent is what is read: nothing grows
                timeout=aiohttp.ClientTimeout(),
            )
        url = URL(shown, encoded=True)
        headers = {"Content-Type": "application/json", "Accept": "application/json, */*"}
        headers["Accept-Encoding"] = "identity"
        if endpoint.service is not None:
            headers["Host"] = url.authority
            host, port = self._resolve(*endpoint.service)
            url = url.with_host(host).with_port(port)
        async with self._session.post(
            url,
            data=body,
            headers=headers,
            ssl=_context(endpoint.ca),
            server_hostname=endpoint.server_name,
            allow_redirects=False,
        ) as answer:
            content = await _whole(answer)
            if not 200 <= answer.status <= 206:
                raise CallError(_status_text(answer.status, content))
            return content


async def _whole(answer: aiohttp.ClientResponse) -> bytes:
    """The body as it was sent. Raises CallError over the limit."""
    chunks: list[bytes] = []
    size = 0
    async for chunk in answer.content.iter_any():
        chunks.append(chunk)
        size += len(chunk)
        if size > _MAX_ANSWER:
            raise CallError(f"the answer is larger than {_MAX_ANSWER} bytes")
    return b"".join(chunks)


def _with_timeout(url: str, timeout: int) -> str:
    parts = urlsplit(url)
    query = f"{parts.query}&" if parts.query else ""
    path = parts.path or "/"
    return f"{parts.scheme}://{parts.netloc}{path}?{query}timeout={timeout}s"


@lru_cache(maxsize=256)
def _context(ca: bytes) -> ssl.SSLContext:
    if ca:
        try:
            context = ssl.create_default_context(cadata=ca.decode("ascii", "ignore"))
        except ssl.SSLError as err:
            raise CallError("unable to load root certificates: unable to parse bytes") from err
    else:
        context = ssl.create_default_context()
    context.hostname_checks_common_name = False
    # Trust what the bundle holds, as Go does: a server's own certificate is enough, and
    # extensions that only the strict profile of RFC 5280 asks for may be missing.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


def _certificate_text(error: Exception) -> str:
    text = str(getattr(error, "verify_message", "") or error)
    if "expired" in text or "not yet valid" in text:
        text = "certificate has expired or is not yet valid"
    elif (
        "issuer" in text
        or "signature failure" in text
        or "self-signed" in text
        or "self signed" in text
    ):
        text = "certificate signed by unknown authority"
    return f"tls: failed to verify certificate: x509: {text}"


def _os_text(error: OSError) -> str:
    return os.strerror(error.errno).lower() if error.errno else str(error)


_STATUS_TEXTS = {
    400: "the server rejected our request for an unknown reason",
    401: "the server has asked for the client to provide credentials",
    404: "the server could not find the requested resource",
    405: "the server does not allow this method on the requested resource",
    406: "the server was unable to respond with a content type that the client supports",
    409: "the server reported a conflict",
    415: "the server was unable to respond with a content type that the client supports",
    422: "the server rejected our request due to an error in our request",
    429: "the server has received too many requests and has asked us to try again later",
    503: "the server is currently unable to handle the request",
    504: "the server was unable to return a response in the time allotted, but may still be "
    "processing the request",
}


def _status_text(code: int, content: bytes) -> str:
    body = content[:2048].decode("utf-8", "replace").strip()
    if code == 403:
        return body or "unknown"
    if code in _STATUS_TEXTS:
        return _STATUS_TEXTS[code]
    if code >= 500:
        shown = json.dumps(body or "unknown", ensure_ascii=False)
        return f"an error on the server ({shown}) has prevented the request from succeeding"
    return f"the server responded with the status code {code} but did not return more information"
