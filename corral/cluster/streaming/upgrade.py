"""Both ends of an HTTP/1.1 upgrade, and the choice of a protocol."""

from __future__ import annotations

import asyncio
import http.client
import io
import socket
import ssl
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from aiohttp import web
from multidict import CIMultiDict

from corral.cluster.streaming.wires import RequestWire, SocketWire

SPDY = "SPDY/3.1"
PROTOCOL_HEADER = "X-Stream-Protocol-Version"
ACCEPTED_HEADER = "X-Accepted-Stream-Protocol-Versions"
SOCKET_PROTOCOL_HEADER = "Sec-WebSocket-Protocol"
BEARER_PREFIX = "base64url.bearer.authorization.k8s.io."
"""A token in the clothes of a WebSocket protocol; it must not travel further."""
MAX_MESSAGE = 32 << 20
MAX_ERROR_BODY = 50_000
DIAL_TIMEOUT = 30.0
"""Seconds to connect and be answered."""


class Refused(Exception):
    """The far side answered, but not with an upgrade."""

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        super().__init__(f"the server answered {status}: {body[:200]!r}")
        self.status = status
        self.headers = headers
        self.body = body


class NoProtocol(Exception):
    """No protocol that the client offers is spoken here."""


def is_upgrade(request: web.BaseRequest) -> bool:
    return any("upgrade" in value.lower() for value in request.headers.getall("Connection", ()))


def is_websocket(request: web.BaseRequest) -> bool:
    return is_upgrade(request) and request.headers.get("Upgrade", "").lower() == "websocket"


def is_spdy(request: web.BaseRequest) -> bool:
    return is_upgrade(request) and SPDY.lower() in request.headers.get("Upgrade", "").lower()


def offered(request: web.BaseRequest, header: str) -> list[str]:
    """The protocols a client offers, without tokens that only look like one."""
    values = ",".join(request.headers.getall(header, ()))
    names = (name.strip() for name in values.split(","))
    return [name for name in names if name and not name.startswith(BEARER_PREFIX)]


def choose(wanted: Sequence[str], spoken: Iterable[str]) -> str:
    """The first of the client's protocols that is spoken; none wanted is the empty protocol.

    Raises NoProtocol.
    """
    spoken = list(spoken)
    for name in wanted or [""]:
        if name in spoken:
            return name
    raise NoProtocol(
        "unable to upgrade: unable to negotiate protocol: "
        f"client supports [{' '.join(wanted)}], server accepts [{' '.join(spoken)}]"
    )


async def accept_raw(
    request: web.BaseRequest, headers: Mapping[str, str]
) -> tuple[web.StreamResponse, RequestWire]:
    """Answer 101 and take over the connection; return the response when the wire is done with."""
    response = web.StreamResponse(status=101, headers=headers)
    response.force_close()
    writer = await response.prepare(request)
    assert writer is not None
    return response, RequestWire(request, writer)


async def accept_websocket(request: web.BaseRequest, protocol: str) -> web.WebSocketResponse:
    """Answer a WebSocket handshake; ``protocol`` was chosen from what the client offers."""
    response = web.WebSocketResponse(
        protocols=[protocol] if protocol else [], compress=False, max_msg_size=MAX_MESSAGE
    )
    await response.prepare(request)
    return response


async def accept_spdy(
    request: web.BaseRequest, protocol: str
) -> tuple[web.StreamResponse, RequestWire]:
    headers = {"Connection": "Upgrade", "Upgrade": SPDY}
    if protocol:
        headers[PROTOCOL_HEADER] = protocol
    return await accept_raw(request, headers)


# -- the client's end ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Upgraded:
    """A connection after its 101; closed when its context is left."""

    headers: http.client.HTTPMessage
    wire: SocketWire

    async def __aenter__(self) -> Upgraded:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.wire.close()


async def dial(
    host: str,
    port: int,
    *,
    tls: ssl.SSLContext | None,
    target: str,
    headers: CIMultiDict[str],
    method: str = "POST",
    patience: float = DIAL_TIMEOUT,
) -> Upgraded:
    """Ask for an upgrade. Raises OSError, TimeoutError; Refused for any answer but 101."""
    async with asyncio.timeout(patience):
        reader, writer = await asyncio.open_connection(host, port, ssl=tls)
        wire = SocketWire(reader, writer)
        # a machine that vanishes says nothing; the kernel finds out
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        try:
            lines = [f"{method} {target} HTTP/1.1"]
            lines += [f"{name}: {value}" for name, value in headers.items()]
            if method != "GET":
                lines.append("Content-Length: 0")
            await wire.write("\r\n".join([*lines, "", ""]).encode("latin-1"))
            status, answer = await _read_head(reader)
            if status != 101:
                raise Refused(status, dict(answer.items()), await _read_body(reader, answer))
        except BaseException:
            await wire.close()
            raise
    return Upgraded(answer, wire)


async def _read_head(reader: asyncio.StreamReader) -> tuple[int, http.client.HTTPMessage]:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
        first, _, rest = head.partition(b"\r\n")
        version, status, *_ = first.decode("latin-1").split(" ", 2)
        if not version.startswith("HTTP/1."):
            raise ValueError(f"malformed HTTP response {first!r}")
        return int(status), http.client.parse_headers(io.BytesIO(rest))
    except asyncio.IncompleteReadError as err:
        raise ConnectionResetError("unexpected EOF") from err
    except (ValueError, asyncio.LimitOverrunError) as err:
        raise ConnectionResetError(str(err)) from err


async def _read_body(reader: asyncio.StreamReader, headers: http.client.HTTPMessage) -> bytes:
    """The text of a refusal, as far as it matters."""
    length = headers.get("Content-Length", "")
    if length.isdigit():
        return await _read_up_to(reader, min(int(length), MAX_ERROR_BODY))
    if headers.get("Transfer-Encoding", "").lower() != "chunked":
        return await _read_up_to(reader, MAX_ERROR_BODY)
    body = b""
    while len(body) < MAX_ERROR_BODY:
        size = (await reader.readline()).partition(b";")[0].strip()
        if not size or not int(size, 16):
            break
        body += await _read_up_to(reader, min(int(size, 16), MAX_ERROR_BODY))
        await reader.readline()
    return body


async def _read_up_to(reader: asyncio.StreamReader, count: int) -> bytes:
    try:
        return await reader.readexactly(count)
    except asyncio.IncompleteReadError as err:
        return err.partial
