"""exec, attach and port-forward as an API server asks for them, without one in between."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from multidict import CIMultiDict
from node_waiting import until
from server_node import WAIT, HandPods, pod_object

from corral.cluster.node.access import AccessError
from corral.cluster.node.container.processes import Engine
from corral.cluster.node.server import sessions as sessions_module
from corral.cluster.node.server.sessions import Sessions
from corral.cluster.streaming import channels as ch
from corral.cluster.streaming import commands, forwarding, upgrade
from corral.cluster.streaming.spdy import Connection, Stream

EXEC = "input=1&output=1&error=1"


class Server:
    """The sessions of one pod's container over plain HTTP."""

    def __init__(self, pods: HandPods) -> None:
        self.pods = pods
        self.pod = pod_object("p", node="n")
        self.sessions = Sessions(pods, limit=3)
        self.port = 0

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        _, kind, *where = request.path.split("/")
        handler = getattr(self.sessions, {"portForward": "forward"}.get(kind, kind))
        try:
            response: web.StreamResponse = await handler(request, *where)
            return response
        except AccessError as err:
            return web.Response(status=err.code, text=str(err))

    async def spdy(self, target: str, protocol: str = ch.V4) -> upgrade.Upgraded:
        headers = CIMultiDict({"Host": "x", "Connection": "Upgrade", "Upgrade": upgrade.SPDY})
        headers[upgrade.PROTOCOL_HEADER] = protocol
        return await upgrade.dial(
            "127.0.0.1", self.port, tls=None, target=target, headers=headers, patience=30.0
        )


@pytest.fixture
async def server(engine: Engine, tmp_path: Path) -> AsyncIterator[Server]:
    made = Server(HandPods(engine, tmp_path))
    await made.pods.run(made.pod, "main", WAIT)
    runner = web.ServerRunner(
        web.Server(made.handle, handler_cancellation=True), shutdown_timeout=1.0
    )
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    made.port = runner.addresses[0][1]
    try:
        async with asyncio.timeout(60):
            yield made
    finally:
        await runner.cleanup()


async def run(server: Server, target: str, options: commands.Options, stdin: bytes = b"") -> Any:
    """stdout, stderr and the status of a command."""
    async with await server.spdy(target) as upgraded:
        async with Connection(upgraded.wire, server=False) as connection:
            remote = await commands.Remote.open(connection, ch.V4, options)
            if commands.STDIN in remote.streams:
                await remote.streams[commands.STDIN].write(stdin)
                await remote.streams[commands.STDIN].close()
            numbers = [n for n in (commands.STDOUT, commands.STDERR) if n in remote.streams]
            out = [await remote.streams[n].read_all(1 << 20) for n in numbers]
            return *out, json.loads(await remote.streams[commands.ERROR].read_all(1 << 20))


async def test_exec_with_and_without_uid(server: Server) -> None:
    options = commands.Options(stdin=True, stdout=True, stderr=True)
    uid = server.pod["metadata"]["uid"]
    for where in ("default/p/main", f"default/p/{uid}/main"):
        target = f"/exec/{where}?{EXEC}&command=sh&command=-c&command=cat%3B+exit+9"
        out, err, status = await run(server, target, options, b"hello")
        assert (out, err) == (b"hello", b"")
        assert status["details"]["causes"] == [{"reason": "ExitCode", "message": "9"}]


@pytest.mark.parametrize(
    ("target", "code", "words"),
    [
        ("/exec/default/p/main?command=ls", 400, "you must specify at least 1 of stdin, stdout"),
        (f"/exec/default/no/main?{EXEC}", 404, 'pod "no" does not exist'),
        (f"/exec/default/p/side?{EXEC}", 404, 'container "side" not found in pod "p"'),
        (f"/exec/default/p/wrong-uid/main?{EXEC}", 500, 'container not found ("main")'),
        (f"/attach/default/p/side?{EXEC}", 404, 'container "side" not found in pod "p"'),
        ("/portForward/default/no", 404, "pod does not exist"),
        ("/portForward/default/p/wrong-uid", 404, "pod not found"),
    ],
)
async def test_refusals(server: Server, target: str, code: int, words: str) -> None:
    with pytest.raises(upgrade.Refused) as caught:
        await server.spdy(target)
    assert caught.value.status == code
    assert words in caught.value.body.decode()


async def test_a_container_that_has_ended(server: Server) -> None:
    await server.pods.attempts["p/main"][-1].kill()
    for kind, words in (
        ("exec", 'container not found ("main")'),
        ("attach", "container main not found in pod p_default"),
    ):
        with pytest.raises(upgrade.Refused) as caught:
            await server.spdy(f"/{kind}/default/p/main?{EXEC}&command=ls")
        assert (caught.value.status, caught.value.body.decode()) == (500, words)


async def test_no_command_for_a_client_that_cannot_be_served(
    server: Server, tmp_path: Path
) -> None:
    mark = tmp_path / "ran"
    target = f"/exec/default/p/main?{EXEC}&command=touch&command={mark}"
    with pytest.raises(upgrade.Refused) as caught:
        await server.spdy(target, protocol="v9.channel.k8s.io")
    assert caught.value.status == 403
    url = f"http://127.0.0.1:{server.port}{target}"
    async with aiohttp.ClientSession() as session, session.post(url) as answer:
        assert answer.status == 400
    assert not mark.exists()


async def test_a_container_that_ends_before_its_command(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server.pods, "is_running", lambda *_: True)
    await server.pods.attempts["p/main"][-1].kill()
    options = commands.Options(stdout=True)
    *_, status = await run(server, "/exec/default/p/main?output=1&command=ls", options)
    assert status["reason"] == "InternalError" and "not running" in status["message"]


async def test_too_many_sessions(server: Server) -> None:
    target = "/exec/default/p/main?output=1&command=sleep&command=600"
    opened = [await server.spdy(target) for _ in range(3)]
    with pytest.raises(upgrade.Refused) as caught:
        await server.spdy(target)
    assert caught.value.status == 503
    for one in opened:
        await one.wire.close()
    await until(lambda: server.sessions.running == 0)


@pytest.mark.parametrize("protocol", [ch.V5, ch.V4, ch.V4_BASE64])
async def test_websocket_channels(server: Server, protocol: str) -> None:
    target = f"/exec/default/p/main?{EXEC}&command=sh&command=-c&command=read+x%3B+echo+%24x"
    url = f"http://127.0.0.1:{server.port}{target}"
    async with aiohttp.ClientSession() as session:
        async with session.ws_connect(url, protocols=[protocol]) as socket:
            channels = ch.Channels(socket, protocol, readable=(1, 2, 3))
            reading = asyncio.create_task(channels.run())
            await channels.write(commands.STDIN, b"hi\n")
            assert await channels.read(commands.STDOUT) == b"hi\n"
            assert json.loads(await channels.read(commands.ERROR))["status"] == "Success"
            await reading


async def test_websocket_attach_reports_success(server: Server) -> None:
    await server.pods.run(
        server.pod, "main", "import sys; sys.exit(len(sys.stdin.read()))", stdin=True,
        stdin_once=True,
    )  # fmt: skip
    url = f"http://127.0.0.1:{server.port}/attach/default/p/main?{EXEC}"
    async with aiohttp.ClientSession() as session:
        async with session.ws_connect(url, protocols=[ch.V5]) as socket:
            channels = ch.Channels(socket, ch.V5, readable=(1, 2, 3))
            reading = asyncio.create_task(channels.run())
            await channels.write(commands.STDIN, b"abc")
            await channels.close_channel(commands.STDIN)
            assert json.loads(await channels.read(commands.ERROR)) == commands.success()
            await reading
    assert (await server.pods.attempts["p/main"][-1].wait()).exit_code == 3


# -- port-forward --------------------------------------------------------------------------------


async def pair(connection: Connection, port: int, number: int) -> tuple[Stream, Stream]:
    headers = {forwarding.PORT: str(port), forwarding.REQUEST_ID: str(number)}
    error = await connection.open({commands.STREAM_TYPE: "error", **headers})
    return await connection.open({commands.STREAM_TYPE: "data", **headers}), error


async def test_half_close_both_ways(server: Server) -> None:
    heard: asyncio.Queue[bytes] = asyncio.Queue()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.put_nowait(await reader.read())  # until the client has said all
        writer.write(b"z" * 1_000_000)
        writer.close()

    listener = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    uid = server.pod["metadata"]["uid"]
    async with (
        listener,
        await server.spdy(f"/portForward/default/p/{uid}", forwarding.PROTOCOL) as upgraded,
        Connection(upgraded.wire, server=False) as connection,
    ):
        data, error = await pair(connection, port, 0)
        await data.write(b"question")
        await data.close()
        assert await heard.get() == b"question"
        assert len(await data.read_all(1 << 24)) == 1_000_000
        assert await error.read() == b""


async def test_many_connections_one_of_them_slow(server: Server) -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        writer.close()

    listener = await asyncio.start_server(echo, "127.0.0.1", 0, backlog=1000)
    port = listener.sockets[0].getsockname()[1]
    async with (
        listener,
        await server.spdy("/portForward/default/p", forwarding.PROTOCOL) as upgraded,
        Connection(upgraded.wire, server=False) as connection,
    ):
        slow, _ = await pair(connection, port, 0)
        stuck = asyncio.create_task(slow.write(b"s" * 5_000_000))

        async def one(number: int) -> None:
            data, _ = await pair(connection, port, number)
            text = b"%d " % number * 1000
            await data.write(text)
            await data.close()
            assert await data.read_all(1 << 20) == text

        await asyncio.gather(*(one(number) for number in range(1, 301)))
        assert not stuck.done()  # nobody reads its echo, and nobody else waits for that
        await slow.reset()
        await asyncio.gather(stuck, return_exceptions=True)


async def test_ports_where_nobody_listens(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    async with (
        await server.spdy("/portForward/default/p", forwarding.PROTOCOL) as upgraded,
        Connection(upgraded.wire, server=False) as connection,
    ):
        data, error = await pair(connection, 9, 0)
        said = (await error.read_all(1 << 16)).decode()
        assert said == (
            "error forwarding port 9 to pod p, uid : failed to connect to localhost:9 inside the "
            "pod: dial tcp 127.0.0.1:9: connect: connection refused"
        )
        assert await data.read() == b""

        async def never(*_: object) -> Any:
            await asyncio.get_running_loop().create_future()

        monkeypatch.setattr(server.pods, "dial", never)
        monkeypatch.setattr(sessions_module, "DIAL_TIMEOUT", 0.01)
        _, error = await pair(connection, 9, 1)
        assert b"i/o timeout" in await error.read_all(1 << 16)
        monkeypatch.undo()
        server.pods.forget("default", "p")
        _, error = await pair(connection, 9, 2)
        assert b'pod "p" does not exist' in await error.read_all(1 << 16)


async def test_forward_to_a_pod_that_does_not_run(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    pod = server.pods.pods()[0]
    monkeypatch.setattr(server.pods, "pods", lambda: [pod | {"status": {"phase": "Pending"}}])
    with pytest.raises(upgrade.Refused) as caught:
        await server.spdy("/portForward/default/p", forwarding.PROTOCOL)
    assert (caught.value.status, caught.value.body) == (500, b'pod not found ("p_default")')
