"""exec, attach and port-forward through the API server, every client on every kubelet."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from multidict import CIMultiDict
from nodes_fakes import Cluster, node, pod, running_cluster

from corral.cluster.streaming import commands, upgrade
from corral.cluster.streaming.spdy import Connection, Stream
from corral.cluster.streaming.wires import WebSocketWire

PODS = "/api/v1/namespaces/default/pods"
INSECURE = ssl._create_unverified_context()
EIGHT = 8 << 20
LIMIT = 10.0
"""Seconds after which a test that hangs fails."""
SUCCESS = {"metadata": {}, "status": "Success"}


@pytest.fixture(params=["spdy-kubelet", "websocket-kubelet"])
async def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Cluster]:
    websockets = request.param == "websocket-kubelet"
    async with running_cluster(tmp_path, websockets=websockets) as made:
        yield made


@pytest.fixture
async def spdy_cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with running_cluster(tmp_path) as made:
        yield made


@asynccontextmanager
async def socket(
    cluster: Cluster, path: str, *protocols: str
) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
    headers = {"Authorization": "Bearer secret"}
    async with (
        asyncio.timeout(LIMIT),
        aiohttp.ClientSession(headers=headers) as session,
        session.ws_connect(
            cluster.url + PODS + path, ssl=INSECURE, protocols=protocols, max_msg_size=0
        ) as ws,
    ):
        yield ws


@asynccontextmanager
async def spdy(cluster: Cluster, path: str, protocol: str) -> AsyncIterator[Connection]:
    headers = CIMultiDict(
        {
            "Host": "x",
            "Authorization": "Bearer secret",
            "Connection": "Upgrade",
            "Upgrade": "SPDY/3.1",
            "X-Stream-Protocol-Version": protocol,
        }
    )
    upgraded = await upgrade.dial(
        "127.0.0.1", cluster.port, tls=INSECURE, target=PODS + path, headers=headers
    )
    assert upgraded.headers["X-Stream-Protocol-Version"] == protocol
    async with asyncio.timeout(LIMIT), Connection(upgraded.wire, server=False) as connection:
        yield connection


async def collect(ws: aiohttp.ClientWebSocketResponse) -> dict[int, bytes]:
    """Everything until the server closes, by channel."""
    found: dict[int, bytes] = {}
    async for message in ws:
        if message.type is aiohttp.WSMsgType.TEXT:
            number, data = int(message.data[0]), base64.b64decode(message.data[1:])
        else:
            number, data = message.data[0], message.data[1:]
        found[number] = found.get(number, b"") + data
    return found


# -- exec over WebSocket -------------------------------------------------------------------


@pytest.mark.parametrize(
    "protocol",
    [
        "v5.channel.k8s.io",
        "v4.channel.k8s.io",
        "v4.base64.channel.k8s.io",
        "channel.k8s.io",
        "base64.channel.k8s.io",
    ],
)
async def test_exec_output(cluster: Cluster, protocol: str) -> None:
    query = "/one/exec?command=echo&command=a+b&command=c&stdout=true&stderr=true"
    async with socket(cluster, query, protocol) as ws:
        assert ws.protocol == protocol
        found = await collect(ws)
    assert found[1] == b"a b c\n"
    assert found[2] == b"err\n"
    if protocol.startswith("v"):
        assert json.loads(found[3]) == SUCCESS
    else:
        assert found.get(3, b"") == b""
    method, path, headers = cluster.kubelet.seen[-1]
    assert path == "/exec/default/one/a?command=echo&command=a+b&command=c&error=1&output=1"
    assert "Authorization" not in headers
    websockets = cluster.objects.get("/nodes", "n1").decode()["status"].get("declaredFeatures")
    assert headers["Upgrade"].lower() == ("websocket" if websockets else "spdy/3.1")
    assert method == ("GET" if websockets else "POST")


@pytest.mark.parametrize("protocol", ["v5.channel.k8s.io", "v4.channel.k8s.io"])
async def test_exec_exit_code(cluster: Cluster, protocol: str) -> None:
    async with socket(cluster, "/one/exec?command=exit&command=7&stdout=1", protocol) as ws:
        found = await collect(ws)
    status = json.loads(found[3])
    assert status["status"] == "Failure"
    assert status["reason"] == "NonZeroExitCode"
    assert status["details"]["causes"] == [{"reason": "ExitCode", "message": "7"}]


async def test_exec_exit_code_in_words_before_v4(cluster: Cluster) -> None:
    async with socket(cluster, "/one/exec?command=exit&command=7", "channel.k8s.io") as ws:
        found = await collect(ws)
    assert found[3] == b"command terminated with non-zero exit code: exit status 7"


async def test_exec_bearer_protocol_stays_here(cluster: Cluster) -> None:
    token = "base64url.bearer.authorization.k8s.io.c2VjcmV0"
    async with socket(
        cluster, "/one/exec?command=exit&command=0", token, "v4.channel.k8s.io"
    ) as ws:
        assert ws.protocol == "v4.channel.k8s.io"
        await collect(ws)
    assert token not in str(cluster.kubelet.seen)


async def test_exec_stdin_ends_with_v5(cluster: Cluster) -> None:
    async with socket(cluster, "/one/exec?command=cat&stdin=1&stdout=1", "v5.channel.k8s.io") as ws:
        await ws.send_bytes(b"\x00hello ")
        await ws.send_bytes(b"\x00world")
        await ws.send_bytes(b"\xff\x00")
        found = await collect(ws)
    assert found[1] == b"hello world"
    assert json.loads(found[3]) == SUCCESS


async def test_exec_stdin_base64(cluster: Cluster) -> None:
    path = "/one/exec?command=cat&stdin=1&stdout=1"
    async with socket(cluster, path, "v4.base64.channel.k8s.io") as ws:
        await ws.send_str("0" + base64.b64encode(b"hi").decode())
        seen = b""
        while seen != b"hi":
            message = await ws.receive()
            assert message.data[0] == "1"
            seen += base64.b64decode(message.data[1:])


async def test_exec_resize(cluster: Cluster) -> None:
    path = "/one/exec?command=resize&tty=1&stdout=1&stdin=1"
    async with socket(cluster, path, "v5.channel.k8s.io") as ws:
        await ws.send_bytes(b'\x04{"Width":80,"Height":24}')
        found = await collect(ws)
    assert json.loads(found[1]) == {"Width": 80, "Height": 24}


async def test_exec_large_transfer_out(cluster: Cluster) -> None:
    path = f"/one/exec?command=flood&command={EIGHT}&stdout=1"
    async with socket(cluster, path, "v5.channel.k8s.io") as ws:
        found = await collect(ws)
    assert len(found[1]) == EIGHT


async def test_exec_large_transfer_both_ways(cluster: Cluster) -> None:
    path = "/one/exec?command=cat&stdin=1&stdout=1"
    async with socket(cluster, path, "v5.channel.k8s.io") as ws:

        async def send() -> None:
            for _ in range(EIGHT // 32768):
                await ws.send_bytes(b"\x00" + b"y" * 32768)
            await ws.send_bytes(b"\xff\x00")

        sending = asyncio.create_task(send())
        found = await collect(ws)
        await sending
    assert found[1] == b"y" * EIGHT


async def test_exec_client_leaves(cluster: Cluster) -> None:
    path = "/one/exec?command=hang&stdout=1"
    async with socket(cluster, path, "v5.channel.k8s.io") as ws:
        seen = b""
        while b"hanging\n" not in seen:
            seen += (await ws.receive()).data
    await asyncio.wait_for(cluster.kubelet.ended.wait(), LIMIT)


async def test_stop_ends_sessions(cluster: Cluster) -> None:
    path = "/one/exec?command=hang&stdout=1"
    async with socket(cluster, path, "v5.channel.k8s.io") as ws:
        seen = b""
        while b"hanging\n" not in seen:
            seen += (await ws.receive()).data
        await cluster.access.stop()
        await cluster.kubelet.ended.wait()


async def test_attach(cluster: Cluster) -> None:
    async with socket(cluster, "/one/attach?stdin=1&stdout=1", "v5.channel.k8s.io") as ws:
        await ws.send_bytes(b"\x00in")
        await ws.send_bytes(b"\xff\x00")
        found = await collect(ws)
    assert found[1] == b"in"
    assert cluster.kubelet.seen[-1][1] == "/attach/default/one/a?input=1&output=1"


async def test_kubelet_refuses_v5(spdy_cluster: Cluster) -> None:
    async with socket(spdy_cluster, "/one/exec?command=refuse&stdout=1", "v5.channel.k8s.io") as ws:
        found = await collect(ws)
    status = json.loads(found[3])
    assert status["code"] == 500
    assert status["message"] == (
        "Internal error occurred: unable to upgrade connection: no such container"
    )


async def test_kubelet_refuses_v4(cluster: Cluster) -> None:
    with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
        async with socket(cluster, "/one/exec?command=refuse", "v4.channel.k8s.io"):
            pass
    assert caught.value.status == 500


async def test_unknown_protocol(cluster: Cluster) -> None:
    with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
        async with socket(cluster, "/one/exec?command=x", "v9.channel.k8s.io"):
            pass
    assert caught.value.status == 403


# -- exec over SPDY ------------------------------------------------------------------------


async def read_all(stream: Stream) -> bytes:
    return await stream.read_all(1 << 30)


async def test_spdy_exec(cluster: Cluster) -> None:
    path = "/one/exec?command=cat&stdin=1&stdout=1&stderr=1"
    async with spdy(cluster, path, "v4.channel.k8s.io") as connection:
        options = commands.Options(stdin=True, stdout=True, stderr=True)
        remote = await commands.Remote.open(connection, "v4.channel.k8s.io", options)
        streams = remote.streams

        async def send() -> None:
            for _ in range(EIGHT // 32768):
                await streams[commands.STDIN].write(b"z" * 32768)
            await streams[commands.STDIN].close()

        sending = asyncio.create_task(send())
        assert await read_all(streams[commands.STDOUT]) == b"z" * EIGHT
        await sending
        assert json.loads(await read_all(streams[commands.ERROR])) == SUCCESS
    assert cluster.kubelet.seen[-1][2]["Upgrade"] == "SPDY/3.1"


async def test_spdy_client_leaves(cluster: Cluster) -> None:
    path = "/one/exec?command=hang&stdout=1"
    async with spdy(cluster, path, "v4.channel.k8s.io") as connection:
        options = commands.Options(stdout=True)
        remote = await commands.Remote.open(connection, "v4.channel.k8s.io", options)
        assert await remote.streams[commands.STDOUT].read() == b"hanging\n"
    await asyncio.wait_for(cluster.kubelet.ended.wait(), LIMIT)


# -- port-forward --------------------------------------------------------------------------


@pytest.fixture
async def echo_port() -> AsyncIterator[int]:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


@asynccontextmanager
async def forwarder(cluster: Cluster, form: str) -> AsyncIterator[Connection]:
    if form == "spdy":
        async with spdy(cluster, "/one/portforward", "portforward.k8s.io") as connection:
            yield connection
        return
    tunnel = "SPDY/3.1+portforward.k8s.io"
    async with socket(cluster, "/one/portforward", tunnel) as ws:
        assert ws.protocol == tunnel
        async with Connection(WebSocketWire(ws), server=False) as connection:
            yield connection


async def pair(connection: Connection, port: int, request: int) -> tuple[Stream, Stream]:
    headers = {"port": str(port), "requestID": str(request)}
    error = await connection.open({"streamType": "error", **headers})
    data = await connection.open({"streamType": "data", **headers})
    await error.close()
    return data, error


@pytest.mark.parametrize("form", ["spdy", "tunnel"])
async def test_portforward_several_connections(cluster: Cluster, echo_port: int, form: str) -> None:
    async with forwarder(cluster, form) as connection:

        async def one(number: int) -> bytes:
            data, error = await pair(connection, echo_port, number)
            payload = bytes([number]) * (1 << 20)

            async def send() -> None:
                await data.write(payload)
                await data.close()

            sending = asyncio.create_task(send())
            got = await read_all(data)
            await sending
            assert await read_all(error) == b""
            return got

        answers = await asyncio.gather(*(one(number) for number in range(5)))
    assert answers == [bytes([number]) * (1 << 20) for number in range(5)]


@pytest.mark.parametrize("form", ["spdy", "tunnel"])
async def test_portforward_refused_port(cluster: Cluster, form: str) -> None:
    async with forwarder(cluster, form) as connection:
        data, error = await pair(connection, 1, 0)
        text = await read_all(error)
        assert text.startswith(b"error forwarding port 1 to pod one, uid : ")
        assert await data.read() == b""
        data, _ = await pair(connection, 1, 1)


@pytest.mark.parametrize("protocol", ["v4.channel.k8s.io", "portforward.k8s.io"])
async def test_portforward_channels(cluster: Cluster, echo_port: int, protocol: str) -> None:
    async with socket(cluster, f"/one/portforward?ports={echo_port},1", protocol) as ws:
        first = dict.fromkeys(range(4), b"")
        await ws.send_bytes(b"\x00ping")
        while first[0][2:] != b"ping" or len(first[3]) < 10:
            message = await ws.receive()
            first[message.data[0]] += message.data[1:]
    assert first[0][:2] == first[1][:2] == struct.pack("<H", echo_port)
    assert first[2] == struct.pack("<H", 1)
    assert first[3].startswith(struct.pack("<H", 1) + b"error forwarding port 1")
    assert cluster.kubelet.seen[-1][1] == f"/portForward/default/one?port={echo_port}%2C1"


# -- refusals ------------------------------------------------------------------------------


async def get(cluster: Cluster, path: str, **extra: Any) -> tuple[int, dict[str, Any]]:
    async with (
        aiohttp.ClientSession() as session,
        session.request(
            extra.pop("method", "GET"), cluster.url + PODS + path, ssl=INSECURE, **extra
        ) as response,
    ):
        return response.status, json.loads(await response.read())


UPGRADE = {"Connection": "Upgrade", "Upgrade": "SPDY/3.1"}
DEAD = "error dialing backend: dial tcp 127.0.0.1:1: connect: connection refused"
REFUSALS = {
    "no upgrade": ("/one/exec", 400, "BadRequest", "Upgrade request required"),
    "no pod": ("/nope/exec", 404, "NotFound", 'pods "nope" not found'),
    "no container": ("/two/exec", 400, "BadRequest", "a container name must be specified for pod "
                     "two, choose one of: [a b]"),
    "bad container": ("/two/exec?container=z", 400, "BadRequest",
                      "container z is not valid for pod two"),
    "no node": ("/free/exec", 400, "BadRequest", "pod free does not have a host assigned"),
    "no node, forward": ("/free/portforward", 400, "BadRequest",
                         "pod free does not have a host assigned"),
    "node gone": ("/gone/exec", 404, "NotFound", 'pods "missing" not found'),
    "bare node": ("/bare/exec", 500, None, "no preferred addresses found; known addresses: []"),
    "bad ports": ("/one/portforward?ports=80,x", 400, "BadRequest",
                  'cannot convert to []int32: strconv.ParseUint: parsing "x": invalid syntax'),
    "dead kubelet": ("/dead/exec", 500, None, DEAD),
    "dead kubelet, forward": ("/dead/portforward", 500, None, DEAD),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSALS)
async def test_refusals(spdy_cluster: Cluster, name: str) -> None:
    objects = spdy_cluster.objects
    objects.put("/pods", pod("two", "n1", containers=("a", "b")))
    objects.put("/pods", pod("free"))
    objects.put("/pods", pod("gone", "missing"))
    objects.put("/pods", pod("bare", "bare"))
    objects.put("/nodes", {"metadata": {"name": "bare"}})
    objects.put("/pods", pod("dead", "dead"))
    objects.put("/nodes", node("dead", 1))
    path, code, reason, message = REFUSALS[name]
    headers = UPGRADE if "dead" in name else {}
    status, body = await get(spdy_cluster, path, headers=headers, method="POST")
    assert (status, body.get("reason"), body["message"]) == (code, reason, message)
    assert body["code"] == code


async def test_dead_kubelet_on_the_error_channel(spdy_cluster: Cluster) -> None:
    spdy_cluster.objects.put("/pods", pod("dead", "dead"))
    spdy_cluster.objects.put("/nodes", node("dead", 1))
    async with socket(
        spdy_cluster, "/dead/exec?command=ls&stdout=1&tty=1", "v5.channel.k8s.io"
    ) as ws:
        found = await collect(ws)
    assert found[1] == b""
    why = (
        'error sending request: Post "https://127.0.0.1:1/exec/default/dead/a?command=ls'
        '&output=1&tty=1": dial tcp 127.0.0.1:1: connect: connection refused'
    )
    assert json.loads(found[3]) == {
        "metadata": {},
        "status": "Failure",
        "message": f"Internal error occurred: {why}",
        "reason": "InternalError",
        "details": {"causes": [{"message": why}]},
        "code": 500,
    }


async def test_method_not_allowed(spdy_cluster: Cluster) -> None:
    status, body = await get(spdy_cluster, "/one/exec", method="DELETE")
    assert (status, body["reason"]) == (405, "MethodNotAllowed")
