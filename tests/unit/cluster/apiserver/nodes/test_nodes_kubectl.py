"""The real kubectl against the handlers: Go's SPDY and WebSocket code at the other end."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from nodes_fakes import Cluster, pod, running_cluster

from tests.cluster.binaries import built, on_machine
from tests.support.components import needs
from tests.support.matrix import matrix

KUBECTL = on_machine("kubectl") or built("kubectl")
pytestmark = needs("kubectl", found=bool(KUBECTL))
LIMIT = 60.0
COMMANDS = "KUBECTL_REMOTE_COMMAND_WEBSOCKETS"
FORWARDS = "KUBECTL_PORT_FORWARD_WEBSOCKETS"


@pytest.fixture(
    params=matrix(
        ("spdy-kubelet", "spdy-client"),
        ("websocket-kubelet", "websocket-client"),
        full=[("spdy-kubelet", "websocket-client"), ("websocket-kubelet", "spdy-client")],
    ),
    ids="-".join,
)
def streams(request: pytest.FixtureRequest) -> tuple[str, str]:
    """How the kubelet and kubectl stream."""
    chosen: tuple[str, str] = request.param
    return chosen


@pytest.fixture
async def cluster(streams: tuple[str, str], tmp_path: Path) -> AsyncIterator[Cluster]:
    websockets = streams[0] == "websocket-kubelet"
    async with running_cluster(tmp_path, websockets=websockets) as made:
        yield made


@pytest.fixture
def environment(streams: tuple[str, str], cluster: Cluster, tmp_path: Path) -> dict[str, str]:
    websockets = "true" if streams[1] == "websocket-client" else "false"
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "KUBECONFIG": str(cluster.kubeconfig(tmp_path)),
        COMMANDS: websockets,
        FORWARDS: websockets,
    }


@asynccontextmanager
async def kubectl(
    environment: dict[str, str], *args: str
) -> AsyncIterator[asyncio.subprocess.Process]:
    pipe = asyncio.subprocess.PIPE
    assert KUBECTL is not None
    process = await asyncio.create_subprocess_exec(
        KUBECTL, *args, env=environment, stdin=pipe, stdout=pipe, stderr=pipe
    )
    try:
        async with asyncio.timeout(LIMIT):
            yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def run(
    environment: dict[str, str], *args: str, stdin: bytes = b""
) -> tuple[int, bytes, bytes]:
    async with kubectl(environment, *args) as process:
        out, err = await process.communicate(stdin)
        assert process.returncode is not None
        return process.returncode, out, err


async def test_kubectl_exec(cluster: Cluster, environment: dict[str, str]) -> None:
    code, out, err = await run(environment, "exec", "one", "--", "echo", "a", "b")
    assert (code, out, err) == (0, b"a b\n", b"err\n")
    declared = cluster.objects.get("/nodes", "n1").decode()["status"].get("declaredFeatures")
    websocket = environment[COMMANDS] == "true" and declared
    spoken = cluster.kubelet.seen[-1][2]["Upgrade"].lower()
    assert spoken == ("websocket" if websocket else "spdy/3.1")


async def test_kubectl_exit_code(cluster: Cluster, environment: dict[str, str]) -> None:
    code, _, err = await run(environment, "exec", "one", "--", "exit", "7")
    assert code == 7
    assert b"command terminated with exit code 7" in err


async def test_kubectl_stdin_both_ways(cluster: Cluster, environment: dict[str, str]) -> None:
    payload = os.urandom(8 << 20)
    code, out, err = await run(environment, "exec", "-i", "one", "--", "cat", stdin=payload)
    assert (code, err) == (0, b"")
    assert out == payload


async def test_kubectl_killed(cluster: Cluster, environment: dict[str, str]) -> None:
    async with kubectl(environment, "exec", "one", "--", "hang") as process:
        assert process.stdout is not None
        assert await process.stdout.readline() == b"hanging\n"
        process.kill()
        await cluster.kubelet.ended.wait()


async def test_kubectl_logs(cluster: Cluster, environment: dict[str, str]) -> None:
    assert await run(environment, "logs", "one") == (0, b"one\ntwo\n", b"")
    cluster.kubelet.more_logs.put_nowait(b"second\n")
    cluster.kubelet.more_logs.put_nowait(b"")
    assert await run(environment, "logs", "-f", "one") == (0, b"first\nsecond\n", b"")


async def test_kubectl_refused(cluster: Cluster, environment: dict[str, str]) -> None:
    cluster.objects.put("/pods", pod("two", "n1", containers=("a", "b")))
    code, _, err = await run(environment, "exec", "two", "-c", "zz", "--", "ls")
    assert code == 1
    assert b"container zz" in err


async def test_kubectl_port_forward(cluster: Cluster, environment: dict[str, str]) -> None:
    async def shout(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data.upper())
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(shout, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    cluster.objects.put("/pods", pod("one", "n1"))

    async def talk(local: int, text: bytes) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", local)
        writer.write(text * 100_000)
        writer.write_eof()
        got = await reader.read()
        writer.close()
        return got

    async with server, kubectl(environment, "port-forward", "pod/one", f":{port}") as process:
        assert process.stdout is not None
        line = (await process.stdout.readline()).decode()
        match = re.search(r"127.0.0.1:(\d+) -> ", line)
        assert match is not None, line
        local = int(match[1])
        answers = await asyncio.gather(*(talk(local, t) for t in (b"abc", b"def", b"ghi")))
        assert answers == [t * 100_000 for t in (b"ABC", b"DEF", b"GHI")]
        assert await talk(local, b"again") == b"AGAIN" * 100_000
