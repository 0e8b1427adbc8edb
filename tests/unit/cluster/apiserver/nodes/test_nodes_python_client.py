"""The official Python client: its exec and its own form of port-forward."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client, stream
from nodes_fakes import Cluster, running_cluster


@pytest.fixture(params=["spdy-kubelet", "websocket-kubelet"])
async def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Cluster]:
    websockets = request.param == "websocket-kubelet"
    async with running_cluster(tmp_path, websockets=websockets) as made:
        yield made


def core(cluster: Cluster) -> Any:
    settings = client.Configuration()
    settings.host = cluster.url
    settings.verify_ssl = False
    settings.api_key["authorization"] = "Bearer t"
    return client.CoreV1Api(client.ApiClient(settings))


def run(cluster: Cluster, *command: str) -> tuple[str, int]:
    shell = stream.stream(
        core(cluster).connect_get_namespaced_pod_exec,
        "one",
        "default",
        command=list(command),
        stdout=True,
        stderr=True,
        _preload_content=False,
    )
    shell.run_forever(timeout=20)
    result = shell.read_stdout(), shell.returncode
    shell.sock.shutdown()  # the client leaves its socket open when the server ends the session
    return result


async def test_exec(cluster: Cluster) -> None:
    assert await asyncio.to_thread(run, cluster, "echo", "hello") == ("hello\n", 0)
    assert (await asyncio.to_thread(run, cluster, "exit", "7"))[1] == 7


async def test_portforward(cluster: Cluster) -> None:
    async def shout(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write((await reader.readline()).upper())
        writer.close()

    server = await asyncio.start_server(shout, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]

    pause = threading.Event()

    def work() -> bytes:
        forward = stream.portforward(
            core(cluster).connect_get_namespaced_pod_portforward, "one", "default", ports=str(port)
        )
        socket = forward.socket(port)
        socket.settimeout(20)
        socket.sendall(b"hello\n")
        answer = socket.recv(100)
        socket.close()
        while forward.connected:  # the client's own thread closes the WebSocket
            pause.wait(0.01)
        forward.websocket.shutdown()
        return bytes(answer)

    async with server:
        assert await asyncio.to_thread(work) == b"HELLO\n"
