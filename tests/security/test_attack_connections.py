"""Sockets that are only held, at every HTTP server that strangers reach beside the API server."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from aiohttp import ClientSession, web

from corral.gateway.rest import server as gateway
from corral.runtime.serving.connection_limits import ConnectionLimits, LimitedRunner
from corral.runtime.serving.listening import Listen, bind

HALF = b"GET / HTTP/1.1\r\nHost: x\r\nA"
Serving = Callable[[ConnectionLimits], "asyncio.AbstractAsyncContextManager[int]"]  # type: ignore


@asynccontextmanager
async def aiohttp_server(limits: ConnectionLimits) -> AsyncIterator[int]:
    """As the registry, the report endpoint and webhooks are served."""

    async def answer(request: web.Request) -> web.Response:
        return web.Response(text="here")

    app = web.Application()
    app.router.add_get("/", answer)
    runner = LimitedRunner(app, shutdown_timeout=1.0, limits=limits)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


@asynccontextmanager
async def gateway_server(limits: ConnectionLimits) -> AsyncIterator[int]:
    """As the gateway is served."""

    async def app(scope: dict, receive: object, send: Callable) -> None:  # type: ignore[type-arg]
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"here"})

    sock = bind(Listen())
    server = gateway.RestServer(app, context=None, grace=1.0, limits=limits)  # type: ignore
    async with server.running(sock):
        yield sock.getsockname()[1]


@pytest.fixture(params=[aiohttp_server, gateway_server], ids=["aiohttp", "gateway"])
def serving(request: pytest.FixtureRequest) -> Serving:
    return request.param  # type: ignore[no-any-return]


async def get(port: int) -> str:
    async with ClientSession() as session, session.get(f"http://127.0.0.1:{port}/") as answer:
        return await answer.text()


async def hold(port: int, text: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(text)
    await writer.drain()
    return reader, writer


async def ended(reader: asyncio.StreamReader) -> bool:
    """Whether the server closes a connection, however it does it."""
    try:
        async with asyncio.timeout(30):
            await reader.read()
            return True
    except ConnectionResetError:
        return True


@pytest.mark.attack(
    "connections",
    "Holds connections of the gateway, the registry or the report endpoint without a whole request",
    "They are closed when the time for headers is over; others are served",
)
@pytest.mark.parametrize("text", [b"", HALF], ids=["silent", "half-headers"])
async def test_half_sent_headers_have_their_time(serving: Serving, text: bytes) -> None:
    async with serving(ConnectionLimits(header_seconds=0.5)) as port:
        reader, writer = await hold(port, text)
        assert await get(port) == "here"
        assert await ended(reader)
        writer.close()


@pytest.mark.attack(
    "connections",
    "Sends the second request of a connection by halves",
    "It has the same time as the first",
)
async def test_a_later_request_has_its_time(serving: Serving) -> None:
    async with serving(ConnectionLimits(header_seconds=0.5)) as port:
        reader, writer = await hold(port, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        async with asyncio.timeout(30):
            assert (await reader.readuntil(b"here")).startswith(b"HTTP/1.1 200")
        writer.write(HALF)
        assert await ended(reader)
        writer.close()


@pytest.mark.attack(
    "connections",
    "Holds hundreds of connections with half a request each",
    "They make room for each other, oldest first; others connect and are served",
)
async def test_held_connections_make_room(serving: Serving) -> None:
    async with serving(ConnectionLimits(most_waiting=20)) as port:
        held = [await hold(port, HALF) for _ in range(60)]
        assert await get(port) == "here"
        assert all([await ended(reader) for reader, _ in held[:40]])
        assert not any(reader.at_eof() for reader, _ in held[-10:])
        for _, writer in held:
            writer.transport.abort()


@pytest.mark.attack(
    "connections",
    "Holds a thousand connections, which is all that a shell's limit of open files allows",
    "Every process that serves has raised its limit before it listens",
)
def test_servers_may_open_files() -> None:
    program = (
        "import resource\n"
        "from corral.runtime.serving import eventloop\n"
        "hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))\n"
        "async def main():\n"
        "    return resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)\n"
        "print(eventloop.run(main()))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "True", done.stderr


async def test_slow_requests_are_not_cut_off(serving: Serving) -> None:
    """The time is for headers: who waits between requests keeps the connection."""
    async with serving(ConnectionLimits(header_seconds=0.2)) as port:
        url = f"http://127.0.0.1:{port}/"
        async with ClientSession() as session:
            for _ in range(2):
                async with session.get(url) as answer:
                    assert await answer.text() == "here"
                reader = asyncio.StreamReader()
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.5):
                        await reader.read()
            assert session.connector is not None
            assert sum(map(len, session.connector._conns.values())) == 1  # type: ignore


def test_who_uses_the_limits() -> None:
    """Every server of ours that strangers reach, beside the API server, which has its own."""
    from corral.cluster.node.server import service
    from corral.cluster.registry import process
    from corral.operator.reports import server as reports
    from corral.runtime.webhooks import server as webhooks

    assert all("LimitedRunner" in vars(module) for module in (process, reports, webhooks))
    assert "limited" in vars(service)
