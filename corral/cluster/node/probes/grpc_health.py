"""One question of the gRPC health protocol, over just as much HTTP/2 as it needs.

The answer is in the body; headers are never read, so none has to be decoded: a server that refuses
answers without a body.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Iterator
from typing import Final

from corral.cluster.node.probes.reach import DIRECT, Reach

__all__ = ["run_grpc"]

_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _RST, _SETTINGS, _PING, _GOAWAY = 0, 1, 3, 4, 6, 7
_END_STREAM, _END_HEADERS, _ACK, _PADDED = 0x1, 0x4, 0x1, 0x8
_MAX_ANSWER: Final = 1 << 18
"""Bytes of all frames of an answer."""
_STATUS: Final = {0: "UNKNOWN", 1: "SERVING", 2: "NOT_SERVING", 3: "SERVICE_UNKNOWN"}


async def run_grpc(host: str, port: int, service: str, reach: Reach = DIRECT) -> str | None:
    """Ask for the health of a service; None when it serves, else the words for the event."""
    target = f"{host}:{port}"
    try:
        reader, writer = await reach.dial(host, port)
    except OSError as err:
        why = f'connection error: desc = "transport: Error while dialing: {err.strerror or err}"'
        return f'error: health rpc failed: rpc error: code = Unavailable desc = {why}, "{target}"'
    try:
        writer.write(_PREFACE + _frame(_SETTINGS, 0, 0, b"") + _request(target, service))
        await writer.drain()
        message = await _answer(reader, writer)
    except (OSError, asyncio.IncompleteReadError) as err:
        return f"error: health rpc failed: {err}"
    finally:
        writer.close()
    if message is None:
        return "error: this server does not implement the grpc health protocol"
    status = _serving_status(message)
    if status == 1:
        return None
    return f'service unhealthy (responded with "{_STATUS.get(status, str(status))}")'


def _request(target: str, service: str) -> bytes:
    name = service.encode()
    message = b"\x0a" + _varint(len(name)) + name if name else b""
    body = b"\0" + struct.pack(">I", len(message)) + message
    headers = _header_block(
        {
            ":method": "POST",
            ":scheme": "http",
            ":path": "/grpc.health.v1.Health/Check",
            ":authority": target,
            "content-type": "application/grpc",
            "te": "trailers",
            "user-agent": "kube-probe/1.37",
        }
    )
    return _frame(_HEADERS, _END_HEADERS, 1, headers) + _frame(_DATA, _END_STREAM, 1, body)


def _header_block(headers: dict[str, str]) -> bytes:
    """HPACK at its plainest: literal names and values, nothing to be remembered."""
    return b"".join(
        b"\0" + _string(name.encode()) + _string(value.encode()) for name, value in headers.items()
    )


def _string(data: bytes) -> bytes:
    if len(data) < 127:
        return bytes([len(data)]) + data
    return b"\x7f" + _varint(len(data) - 127) + data


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    head = struct.pack(">IBI", len(payload) << 8 | kind, flags, stream)
    return head + payload


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes | None:
    """The message of the answer; None when there is none."""
    body = b""
    left = _MAX_ANSWER
    while True:
        size_and_kind, flags, stream = struct.unpack(">IBI", await reader.readexactly(9))
        kind, size = size_and_kind & 0xFF, size_and_kind >> 8
        left -= 9 + size
        if left < 0:
            raise OSError(f"the answer has more than {_MAX_ANSWER} bytes")
        payload = await reader.readexactly(size)
        if kind == _SETTINGS and not flags & _ACK:
            writer.write(_frame(_SETTINGS, _ACK, 0, b""))
        elif kind == _PING and not flags & _ACK:
            writer.write(_frame(_PING, _ACK, 0, payload))
        elif kind == _GOAWAY or (kind == _RST and stream & 0x7FFFFFFF == 1):
            break
        elif kind == _DATA:
            body += payload[1 : len(payload) - payload[0]] if flags & _PADDED else payload
        if kind in (_DATA, _HEADERS) and flags & _END_STREAM:
            break
    if len(body) < 5:
        return None
    (size,) = struct.unpack(">I", body[1:5])
    return body[5 : 5 + size]


def _serving_status(message: bytes) -> int:
    """Field 1 of a HealthCheckResponse; 0 where it is left out."""
    for number, value in _fields(message):
        if number == 1:
            return value
    return 0


def _fields(message: bytes) -> Iterator[tuple[int, int]]:
    """Numbers and values of fields; others than whole numbers end it."""
    place = 0
    while place + 1 < len(message) and message[place] & 7 == 0:
        number, value, shift = message[place] >> 3, 0, 0
        place += 1
        while place < len(message):
            value |= (message[place] & 0x7F) << shift
            shift, place = shift + 7, place + 1
            if not message[place - 1] & 0x80:
                break
        yield number, value
