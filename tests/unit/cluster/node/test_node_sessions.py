from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from corral.cluster.node.container.sessions import join
from corral.cluster.streaming.commands import RESIZE, STDERR, STDIN, STDOUT

Run = Callable[..., Any]
WAIT = "import time; time.sleep(600)"


class Client:
    """A session in memory."""

    def __init__(self, *stdin: bytes, sizes: bytes = b"") -> None:
        self._inputs = {STDIN: [*stdin, b""], RESIZE: [sizes, b""] if sizes else [b""]}
        self.output: dict[int, bytes] = {STDOUT: b"", STDERR: b""}
        self.status: Mapping[str, Any] = {}
        self.gone = asyncio.Event()

    async def read(self, number: int) -> bytes:
        return self._inputs[number].pop(0)

    async def write(self, number: int, data: bytes) -> None:
        self.output[number] += data

    async def finish(self, status: Mapping[str, Any]) -> None:
        self.status = status

    async def wait_gone(self) -> None:
        await self.gone.wait()


async def test_exec(run: Run) -> None:
    container, client = await run(WAIT), Client(b"abc", b"def")
    streams = await container.exec(["sh", "-c", "cat; echo e >&2; exit 4"], stdin=True)
    await join(client, streams)
    assert client.output == {STDOUT: b"abcdef", STDERR: b"e\n"}
    assert client.status["details"]["causes"] == [{"reason": "ExitCode", "message": "4"}]


async def test_success_in_a_terminal(run: Run) -> None:
    container = await run(WAIT)
    client = Client(b"x\n", sizes=b'{"Width":77,"Height":20}\nnonsense\n')
    code = "stty size; read line; echo got $line; stty size"
    streams = await container.exec(["sh", "-c", code], stdin=True, tty=True)
    await join(client, streams, tty=True)
    assert client.status["status"] == "Success"
    assert b"got x" in client.output[STDOUT] and b"20 77" in client.output[STDOUT]


async def test_command_that_cannot_start(run: Run) -> None:
    container, client = await run(WAIT), Client()
    await join(client, await container.exec(["no-such"]))
    assert client.status["reason"] == "InternalError"
    assert "executable file not found" in client.status["message"]


async def test_client_leaves(run: Run) -> None:
    container, client = await run(WAIT), Client()
    client.gone.set()
    async with asyncio.timeout(20):
        await join(client, await container.exec(["sleep", "600"]))
    assert client.status == {}


async def test_container_is_lost(run: Run) -> None:
    container, client = await run(WAIT), Client()
    streams = await container.exec(["sleep", "600"])
    task = asyncio.create_task(join(client, streams))
    await asyncio.sleep(0)
    import os

    os.kill(container.state.shim, 9)
    async with asyncio.timeout(20):
        await task
        await container.wait()
    assert client.status["reason"] == "InternalError"
