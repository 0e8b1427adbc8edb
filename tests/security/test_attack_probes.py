"""Probes, hooks and commands: what a container answers them is the container's to choose."""

from __future__ import annotations

import asyncio
import os
import struct
import sys
import threading
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from corral.cluster.node.container.processes import Engine, Mount
from corral.cluster.node.isolation import Capabilities, Mode
from corral.cluster.node.probes.grpc_health import run_grpc
from corral.cluster.node.probes.probe import run_exec
from corral.cluster.node.shim.loop import Loop
from corral.cluster.node.shim.supervisor import Supervisor, claim
from corral.cluster.node.shim.tasks import Task
from corral.cluster.node.shim.wire import STDOUT
from tests.security.test_attack_pods_births import engine, start
from tests.unit.cluster.node.node_waiting import until

__all__ = ["engine"]

MIB = 1 << 20
FLOOD = 64 * MIB


@contextmanager
def little_memory(most: int = 8 * MIB) -> Iterator[None]:
    """What this process needs more at once stays below so many bytes."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < most
    finally:
        tracemalloc.stop()


@pytest.mark.attack(
    "probes",
    "fills the node's memory by what a probe's or a hook's command writes",
    "10 KiB of it are kept, the rest is forgotten; whether it succeeds is seen all the same",
)
@pytest.mark.parametrize("mode", ["root", "user"])
async def test_commands_that_write_a_lot(engine: Engine, tmp_path: Path, mode: Mode) -> None:
    if Capabilities.detect("probe", highest=mode).mode != mode:
        pytest.skip(f"pods cannot be isolated as {mode} here")
    container = await start(engine, tmp_path, mode, ["sleep", "600"], name="chatty")
    flood = f"head -c {FLOOD} /dev/zero"
    with little_memory():
        assert await run_exec(container, ["sh", "-c", flood]) is None
        assert await run_exec(container, ["sh", "-c", f"{flood}; exit 1"]) == "\0" * 10240


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return struct.pack(">IBI", len(payload) << 8 | kind, flags, stream) + payload


@pytest.mark.attack(
    "probes",
    "fills the node's memory by its answer to a gRPC probe: data or pings without end, long frames",
    "256 KiB of an answer are read; the probe fails with words that say so",
)
@pytest.mark.parametrize(
    "piece",
    [frame(0, 0, 1, b"\0" * 16384), frame(6, 0, 0, b"12345678"), frame(0, 0, 1, b"\0" * 0xFFFFFF)],
    ids=["data", "pings", "long frames"],
)
async def test_answers_to_grpc_probes(piece: bytes) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            many = piece * (1 + 16384 // len(piece))
            for _ in range(FLOOD // len(many)):
                writer.write(many)
                await writer.drain()
            await reader.read()
        except ConnectionError:
            return
        finally:
            writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        async with asyncio.timeout(60):
            said = await run_grpc("127.0.0.1", port, "")
    finally:
        server.close()
    assert said == "error: health rpc failed: the answer has more than 262144 bytes"


class Alone:
    """Stands for the process that a supervisor is in."""

    def __init__(self) -> None:
        self.loop = Loop()

    def born(self, pid: int, supervisor: Supervisor) -> None: ...

    def relatives(self, supervisor: Supervisor) -> set[int]:
        return set()

    def over(self, supervisor: Supervisor) -> None: ...


class Nowhere:
    """No namespaces."""

    shared = False

    def made(self, spec: dict[str, Any], folder: str) -> None:
        return None


WITHOUT_END = (
    "leaves processes behind that write to its command's output for ever, to have the process "
    "that stands by all containers of the node read for ever"
)


@pytest.mark.attack("probes", WITHOUT_END, "No more is read than a pipe holds")
def test_output_of_a_command_that_has_ended(tmp_path: Path) -> None:
    """The output never runs dry: as where many write on other processors."""
    (tmp_path / "spec.json").write_text("{}")
    fds = claim(str(tmp_path))
    assert fds is not None
    endless = os.open("/dev/zero", os.O_RDONLY)
    task = Task(1 << 30, -1, {endless: STDOUT}, tty=False)
    company = Alone()
    supervisor = Supervisor(str(tmp_path), fds, -1, company, Nowhere())
    supervisor._tasks[task.pid] = supervisor._owner[endless] = task
    reading = threading.Thread(target=supervisor.gone, args=(task.pid, 0), daemon=True)
    reading.start()
    reading.join(30)
    assert not reading.is_alive(), "it goes on reading"
    assert not task.outputs
    for fd in fds:
        os.close(fd)


LEAVE = """
import fcntl, os
fcntl.fcntl(1, fcntl.F_SETPIPE_SZ, 1 << 20)
os.set_blocking(1, False)
mother = os.getpid()
for number in range(2):
    if os.fork() == 0:
        while os.getppid() == mother:
            pass
        os.close(os.open(f"/data/{number}", os.O_CREAT))
        while True:
            try:
                os.write(1, b"x" * 65536)
            except BlockingIOError:
                pass
"""
"""They end when nobody reads any more (EPIPE)."""


@pytest.mark.attack("probes", WITHOUT_END, "Commands in containers of other pods run meanwhile")
async def test_commands_that_leave_writers(engine: Engine, tmp_path: Path) -> None:
    if Capabilities.detect("probe", highest="root").mode != "root":
        pytest.skip("containers do not share a process that stands by them here")
    data = tmp_path / "data"
    data.mkdir()
    data.chmod(0o777)
    mounts = [Mount(source=str(data), target="/data")]
    bad = await start(engine, tmp_path, "root", ["sleep", "600"], name="bad", mounts=mounts)
    good = await start(engine, tmp_path, "root", ["sleep", "600"], name="good")
    streams = await bad.exec([sys.executable, "-S", "-E", "-c", LEAVE])
    await until(lambda: len(list(data.iterdir())) == 2)
    await streams.close()  # as when a probe's time is over
    async with asyncio.timeout(30):
        assert await (await good.exec(["echo", "on"])).collect() == (0, b"on\n")
