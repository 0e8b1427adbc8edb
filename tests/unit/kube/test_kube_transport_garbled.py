"""An answer that goes on with nonsense: reading it fails, and does not wait for ever."""

from __future__ import annotations

import asyncio

import pytest

from corral.kube.client import KubeClient, KubeConnectionError
from corral.kube.connection.config import ClusterConfig
from corral.kube.podstreams.logs import LogRequest, open_log, read_log

HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    "rest", [b"", b"HTTP/1.1 500 Oops\r\n\r\n", b"zz\r\n", b"5\r\nab"], ids=repr
)
async def test_a_body_that_breaks_off(rest: bytes) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(HEAD + b"4\r\none\n\r\n")
        await writer.drain()
        await got.wait()
        writer.write(rest)
        writer.close()
        await writer.wait_closed()

    got = asyncio.Event()
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    request = LogRequest("p", "ns", follow=True)
    async with server, asyncio.timeout(30):
        async with KubeClient(ClusterConfig(f"http://127.0.0.1:{port}")) as client:
            async with await open_log(client.transport, request) as answer:
                assert await read_log(client.transport, answer) == b"one\n"
                got.set()
                with pytest.raises(KubeConnectionError):
                    while await read_log(client.transport, answer):
                        continue
