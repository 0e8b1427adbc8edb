"""The gRPC health protocol against a server that is fed by hand."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from corral.cluster.node.probes.grpc_health import run_grpc

Serve = Callable[[bytes], Awaitable[int]]


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return struct.pack(">IBI", len(payload) << 8 | kind, flags, stream) + payload


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """A server that gives one fixed answer; what it was asked is checked."""
    servers = []

    async def start(answer: bytes) -> int:
        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            assert (await reader.readexactly(24)).startswith(b"PRI * HTTP/2.0")
            seen: dict[int, bytes] = {}
            while 0 not in seen:
                head = struct.unpack(">IBI", await reader.readexactly(9))
                seen[head[0] & 0xFF] = await reader.readexactly(head[0] >> 8)
            assert b"/grpc.health.v1.Health/Check" in seen[1]
            assert seen[0][5:] in (b"", b"\x0a\x03web")
            writer.write(answer)
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(talk, "127.0.0.1", 0)
        servers.append(server)
        port: int = server.sockets[0].getsockname()[1]
        return port

    yield start
    for server in servers:
        server.close()
        await server.wait_closed()


def message(status: int) -> bytes:
    text = bytes([8, status]) if status else b""
    return b"\0" + struct.pack(">I", len(text)) + text


NO_HEALTH = "error: this server does not implement the grpc health protocol"
HEADERS = frame(1, 4, 1, b"\x88")
TRAILERS = frame(1, 5, 1, b"\x00\x0bgrpc-status\x010")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (frame(4, 0, 0) + HEADERS + frame(0, 0, 1, message(1)) + TRAILERS, None),
        (frame(6, 0, 0, b"12345678") + HEADERS + frame(0, 1, 1, message(1)), None),
        (HEADERS + frame(0, 9, 1, b"\x02" + message(1) + b"\0\0"), None),
        (
            HEADERS + frame(0, 0, 1, message(2)) + TRAILERS,
            'service unhealthy (responded with "NOT_SERVING")',
        ),
        (
            HEADERS + frame(0, 1, 1, message(0)),
            'service unhealthy (responded with "UNKNOWN")',
        ),
        (TRAILERS, "error: this server does not implement the grpc health protocol"),
        (
            frame(7, 0, 0, b"\0" * 8),
            "error: this server does not implement the grpc health protocol",
        ),
    ],
)
async def test_answers(serve: Serve, answer: bytes, words: str | None) -> None:
    port = await serve(answer)
    assert await run_grpc("127.0.0.1", port, "web") == words
    assert await run_grpc("127.0.0.1", port, "") == words


async def test_no_server_and_half_an_answer(serve: Serve) -> None:
    port = await serve(HEADERS[:5])
    assert "health rpc failed" in (await run_grpc("127.0.0.1", port, "") or "")
    found = await run_grpc("127.0.0.1", 1, "")
    assert found is not None and "Unavailable" in found
