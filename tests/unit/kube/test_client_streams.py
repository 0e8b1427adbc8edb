from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Callable
from typing import Any

import orjson
import pytest
from aiohttp import WSMsgType, web
from kube_fake_api import FakeApi, refuse

from corral.kube import ExecResult, KubeConnectionError, errors
from corral.kube.podstreams.streams import STDERR, STDOUT, exit_code

Serve = Callable[..., Awaitable[FakeApi]]

OK = {"kind": "Status", "status": "Success"}


def failed(code: int) -> dict[str, Any]:
    return {
        "kind": "Status",
        "status": "Failure",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
        "message": f"command terminated with non-zero exit code: exit status {code}",
    }


# --- logs ----------------------------------------------------------------------------------------


def log(*pieces: bytes, drop: bool = False) -> Callable[[web.Request], Awaitable[Any]]:
    async def handle(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await response.prepare(request)
        for piece in pieces:
            await response.write(piece)
        if drop:
            assert request.transport is not None
            request.transport.abort()
        return response

    return handle


async def test_log_lines_do_not_depend_on_pieces(serve: Serve) -> None:
    api = await serve(log(b"one\ntw", b"o", b"\n\nfour\xff\nlast"))
    lines = [line async for line in api.client(namespace="team").log_lines("p")]
    assert lines == ["one", "two", "", "four\ufffd", "last"]
    assert api.seen[0].path == "/api/v1/namespaces/team/pods/p/log"
    assert api.seen[0].query == []


async def test_log_options(serve: Serve) -> None:
    api = await serve(log(b"x"))
    chunks = api.client().log_chunks(
        "p",
        "n",
        container="c",
        follow=True,
        previous=True,
        timestamps=True,
        tail_lines=0,
        since_seconds=5,
        limit_bytes=9,
    )
    assert b"".join([c async for c in chunks]) == b"x"
    assert dict(api.seen[0].query) == {
        "container": "c",
        "follow": "true",
        "previous": "true",
        "timestamps": "true",
        "tailLines": "0",
        "sinceSeconds": "5",
        "limitBytes": "9",
    }


async def test_lost_log_is_an_error(serve: Serve) -> None:
    api = await serve(log(b"one\n", drop=True))
    with pytest.raises(KubeConnectionError):
        [line async for line in api.client().log_lines("p")]


# --- exec ----------------------------------------------------------------------------------------


class Shell:
    """Plays a container: echoes standard input, then ends with ``status``."""

    def __init__(self, status: Any = OK, *, protocols: tuple[str, ...] = ("v5.channel.k8s.io",)):
        self.status = status
        self.protocols = protocols
        self.frames: list[tuple[int, bytes]] = []
        self.offered = ""

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        self.offered = request.headers["Sec-WebSocket-Protocol"]
        socket = web.WebSocketResponse(protocols=self.protocols)
        await socket.prepare(request)
        await socket.send_bytes(b"\x01")
        await socket.send_bytes(b"\x02oops")
        if request.query.get("stdin"):
            async for message in socket:
                channel, data = message.data[0], message.data[1:]
                self.frames.append((channel, data))
                if channel == 255:
                    break
                if channel == 0:
                    await socket.send_bytes(b"\x01" + data)
        if self.status is not None:
            await socket.send_bytes(b"\x03" + orjson.dumps(self.status))
        await socket.close()
        return socket


async def test_run_collects_output_and_exit_code(serve: Serve) -> None:
    shell = Shell(failed(7))
    api = await serve(shell)
    result = await api.client().run("p", ["sh", "-c", "a b"], container="c", stdin=b"hello")
    assert result == ExecResult(7, b"hello", b"oops")
    assert api.seen[0].path == "/api/v1/namespaces/default/pods/p/exec"
    assert api.seen[0].query == [
        ("command", "sh"), ("command", "-c"), ("command", "a b"), ("container", "c"),
        ("stdin", "true"), ("stdout", "true"), ("stderr", "true"),
    ]  # fmt: skip
    assert shell.offered == "v5.channel.k8s.io,v4.channel.k8s.io"
    assert shell.frames == [(0, b"hello"), (255, b"\x00")]


async def test_interactive_session(serve: Serve) -> None:
    shell = Shell()
    api = await serve(shell)
    async with api.client().exec("p", ["sh"], stdin=True, tty=True) as process:
        assert process.protocol == "v5.channel.k8s.io" and process.can_close_stdin
        await process.resize(120, 40)
        await process.write(b"hi")
        await process.close_stdin()
        output = [piece async for piece in process]
    assert output == [(STDERR, b"oops"), (STDOUT, b"hi")]
    assert process.exit_code == 0
    assert shell.frames[0][0] == 4
    assert orjson.loads(shell.frames[0][1]) == {"Width": 120, "Height": 40}
    assert ("stderr", "true") not in api.seen[0].query
    assert ("tty", "true") in api.seen[0].query


async def test_old_servers_cannot_end_standard_input(serve: Serve) -> None:
    api = await serve(Shell(protocols=("v4.channel.k8s.io",)))
    client = api.client()
    assert (await client.run("p", ["true"])).exit_code == 0
    with pytest.raises(KubeConnectionError, match="cannot end standard input"):
        await client.run("p", ["cat"], stdin=b"x")


async def test_attach(serve: Serve) -> None:
    api = await serve(Shell())
    async with api.client().attach("p", container="c") as process:
        assert [piece async for piece in process] == [(STDERR, b"oops")]
    assert api.seen[0].path.endswith("/pods/p/attach")


async def test_refused_exec_is_typed(serve: Serve) -> None:
    async def missing(request: web.Request) -> web.StreamResponse:
        return refuse(404, "NotFound", 'pods "p" not found')

    with pytest.raises(errors.NotFound, match='pods "p" not found'):
        await (await serve(missing)).client().run("p", ["true"])


async def test_server_without_the_protocols(serve: Serve) -> None:
    with pytest.raises(KubeConnectionError, match="speaks neither"):
        await (await serve(Shell(protocols=()))).client().run("p", ["true"])


async def test_lost_exec_has_no_exit_code(serve: Serve) -> None:
    with pytest.raises(KubeConnectionError, match="outcome is not known"):
        await (await serve(Shell(None))).client().run("p", ["true"])


def test_exit_codes() -> None:
    assert exit_code(OK) == 0
    assert exit_code(failed(137)) == 137
    with pytest.raises(errors.InternalError, match="no such file"):
        exit_code({"status": "Failure", "reason": "InternalError", "message": "no such file"})


# --- port-forward --------------------------------------------------------------------------------


class EchoPod:
    """Plays a pod's port over the channel form: echoes upper case, ends on ``bye``."""

    def __init__(self, *, error: str = "", port: int | None = None) -> None:
        self.error = error
        self.port = port

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse(protocols=("v4.channel.k8s.io",))
        await socket.prepare(request)
        port = struct.pack("<H", self.port or int(request.query["ports"]))
        await socket.send_bytes(b"\x00" + port)
        await socket.send_bytes(b"\x01" + port)
        if self.error:
            await socket.send_bytes(b"\x01" + self.error.encode())
        async for message in socket:
            assert message.type is WSMsgType.BINARY and message.data[0] == 0
            await socket.send_bytes(b"\x00" + message.data[1:].upper())
            if message.data[1:] == b"bye":
                break
        await socket.close()
        return socket


async def test_port_forward_carries_connections(serve: Serve) -> None:
    api = await serve(EchoPod())
    async with api.client().port_forward("p", 8080, namespace="n") as forward:
        streams = [await asyncio.open_connection("127.0.0.1", forward.local_port) for _ in range(2)]
        for number, (reader, writer) in enumerate(streams):
            writer.write(b"hello%d" % number)
            assert await reader.readexactly(6) == b"HELLO%d" % number
        for reader, writer in streams:
            writer.write(b"bye")
            assert await reader.read() == b"BYE"
            writer.close()
            await writer.wait_closed()
    assert {(s.path, tuple(s.query)) for s in api.seen} == {
        ("/api/v1/namespaces/n/pods/p/portforward", (("ports", "8080"),))
    }
    assert forward.last_error is None


async def test_port_forward_answers_after_the_local_side_has_ended(serve: Serve) -> None:
    api = await serve(EchoPod())
    async with api.client().port_forward("p", 80) as forward:
        reader, writer = await asyncio.open_connection("127.0.0.1", forward.local_port)
        writer.write(b"bye")
        writer.write_eof()
        assert await reader.read() == b"BYE"
        writer.close()
        await writer.wait_closed()


@pytest.mark.parametrize(
    ("pod", "message"),
    [
        (EchoPod(error="connection refused"), "connection refused"),
        (EchoPod(port=81), "another port than 80"),
    ],
    ids=["error channel", "wrong port"],
)
async def test_port_forward_failures_close_the_local_connection(
    serve: Serve, pod: EchoPod, message: str
) -> None:
    api = await serve(pod)
    async with api.client().port_forward("p", 80) as forward:
        reader, writer = await asyncio.open_connection("127.0.0.1", forward.local_port)
        assert await reader.read() == b""
        writer.close()
        await writer.wait_closed()
    assert message in str(forward.last_error)


async def test_open_connections_end_with_the_forward(serve: Serve) -> None:
    api = await serve(EchoPod())
    async with api.client().port_forward("p", 80) as forward:
        reader, writer = await asyncio.open_connection("127.0.0.1", forward.local_port)
        writer.write(b"a")
        assert await reader.readexactly(1) == b"A"
    assert await reader.read() == b""
    writer.close()
    await writer.wait_closed()
