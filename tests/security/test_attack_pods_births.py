"""What a pod can reach of the node through how it is started: processes, program, view.

Whoever starts a process is of the node until it has become the container's program.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from corral.cluster.node.container.processes import Container, ContainerSpec, Engine
from corral.cluster.node.container.security import DEFAULT
from corral.cluster.node.container.view import machine_view
from corral.cluster.node.isolation import Capabilities, Isolation, Mode, Sandbox
from corral.kube import KubeClient
from tests.cluster.pods.pods import python
from tests.security.hostile_pods import Attacker, attacker, backend, nodes
from tests.unit.cluster.node.node_waiting import until

__all__ = ["attacker", "backend", "nodes"]

COMMANDS = 80
MOST_TRIES = 300
COMMANDS_AFTER = 8
"""One that has not ended this many commands later is stopped."""
LOOK = """
import os
own, newest = os.stat("/"), os.getpid()
print("ready", flush=True)
while True:
    for pid in range(newest + 1, newest + 6):
        try:
            found = os.stat(f"/proc/{pid}/root")
        except (FileNotFoundError, ProcessLookupError):
            continue
        except PermissionError:
            print("refused", flush=True)
        else:
            if (found.st_dev, found.st_ino) != (own.st_dev, own.st_ino):
                print("OUTSIDE", flush=True)
        newest = max(newest, pid - 1)
"""
"""Look into every process of the container as soon as it is there."""

CHANGE = """
import os
print("began", flush=True)
fd = os.open("/proc/self/exe", os.O_RDONLY)
os.fchmod(fd, os.fstat(fd).st_mode & 0o7777)
"""


@pytest.mark.attack(
    "pods",
    "has CAP_SYS_PTRACE and looks into commands that are run in it before they are its own",
    "Nobody may look into them: the machine's files are not seen",
)
async def test_commands_are_closed_while_they_begin(attacker: Attacker) -> None:
    context = {"runAsUser": 0, "capabilities": {"add": ["SYS_PTRACE"]}}
    attacker.run("watching", python(LOOK, securityContext=context))
    attacker.wait("watching", lambda pod: pod["status"].get("phase") == "Running")
    attacker.wait("watching", lambda _: "ready" in attacker.log("watching"))
    path = str(attacker.objects.backend.kubeconfig)
    async with KubeClient.from_kubeconfig(path) as client:
        for _ in range(COMMANDS):
            await client.run("watching", ["true"], namespace=attacker.namespace)
    found = attacker.log("watching")
    assert "OUTSIDE" not in found
    assert "refused" in found, "it saw none of them"


STOP = """
import os, signal
print("ready", flush=True)
while True:
    try:
        os.kill(-1, signal.SIGSTOP)
    except OSError:
        continue
"""
"""Stop every process of the container as soon as that is allowed."""


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[Engine]:
    """Containers by themselves, of the user who runs the cases and owns the interpreter."""
    engine = Engine(tmp_path / "containers")
    yield engine
    for container in await engine.adopt():
        await container.kill()
    engine.close()


async def start(
    engine: Engine, folder: Path, mode: Mode, argv: list[str], *, name: str, **more: Any
) -> Container:
    """A container of a mode, with its log in the folder, under its name."""
    (folder / "hosts").touch()
    more = {"view": machine_view(folder / "view").to_dict(), **more}
    spec = ContainerSpec(
        id=name,
        argv=argv,
        env={"PATH": os.defpath},
        log=str(folder / name),
        privileges={"capabilities": sorted(DEFAULT), "seccomp": True},
        **more,
    )
    sandbox = Sandbox(uid=name, address="", hostname="p", hosts=str(folder / "hosts"))
    container = await engine.start(Isolation(mode).dress(spec, sandbox))
    assert not container.state.error
    return container


async def run(engine: Engine, folder: Path, mode: Mode, argv: list[str], **more: Any) -> str:
    """Run a container to its end; what it wrote."""
    container = await start(engine, folder, mode, argv, name="attacker", **more)
    async with asyncio.timeout(30):
        await container.wait()
    return (folder / "attacker").read_text()


@pytest.mark.attack(
    "pods",
    "has /proc/self/exe as its program, to change the mode of the node's own interpreter",
    "What it has is a copy in memory; the file is as it was",
)
@pytest.mark.parametrize("mode", ["root", "user"])
async def test_the_interpreter_of_the_node(engine: Engine, tmp_path: Path, mode: Mode) -> None:
    """With the machine's users in mode root, for only then is its root the machine's."""
    if Capabilities.detect("probe", highest=mode).mode != mode:
        pytest.skip(f"pods cannot be isolated as {mode} here")
    before = os.stat(sys.executable)
    if before.st_uid != os.geteuid():
        pytest.skip("the interpreter is somebody else's")
    argv = ["/proc/self/exe", "-S", "-E", "-c", CHANGE]
    shares = ["user"] if mode == "root" else []
    said = await run(engine, tmp_path, mode, argv, shares=shares)
    assert "began" in said
    assert os.stat(sys.executable).st_ctime_ns == before.st_ctime_ns


@pytest.mark.attack(
    "pods",
    "reads the data folder of a cluster that lies in the folder of the Python it is shown",
    "The data folder is seen empty, and all else as it is",
)
@pytest.mark.parametrize("mode", ["root", "user"])
async def test_a_data_folder_in_what_is_shown(engine: Engine, tmp_path: Path, mode: Mode) -> None:
    if Capabilities.detect("probe", highest=mode).mode != mode:
        pytest.skip(f"pods cannot be isolated as {mode} here")
    prefix = tmp_path / "prefix"
    node = prefix / "var/data/nodes/one"
    node.mkdir(parents=True)
    for name in ("module.py", "var/data/kubeconfig"):
        (prefix / name).write_text("seen")
    (prefix / "var/data").chmod(0o700)
    view = machine_view(node, expose=[prefix]).to_dict()
    code = "cat $1/module.py; cat $1/var/data/kubeconfig; ls -A $1/var"
    argv = ["sh", "-c", code, "sh", str(prefix)]
    said = await run(engine, tmp_path, mode, argv, view=view)
    assert [line.split(" ", 3)[3] for line in said.splitlines() if " stdout " in line] == [
        "seendata"
    ]


@pytest.mark.attack(
    "pods",
    "stops the commands that are run in it before they begin, for whoever starts them waits",
    "Nobody waits for them; commands in containers of other pods run meanwhile",
)
async def test_stopped_commands_stop_nobody_else(engine: Engine, tmp_path: Path) -> None:
    if Capabilities.detect("probe", highest="root").mode != "root":
        pytest.skip("containers do not share a process that stands by them here")
    attacking = [sys.executable, "-S", "-E", "-c", STOP]
    bad = await start(engine, tmp_path, "root", attacking, name="bad")
    good = await start(engine, tmp_path, "root", ["sleep", "600"], name="good")
    await until(lambda: "ready" in (tmp_path / "bad").read_text())
    stopped = []
    for _ in range(MOST_TRIES):
        streams = await bad.exec(["true"])
        stopped.append(asyncio.create_task(streams.collect()))
        assert await (await good.exec(["echo", "on"])).collect() == (0, b"on\n")
        if not all(one.done() for one in stopped[:-COMMANDS_AFTER]):
            break  # it does not always come in time: they begin soon
    assert not all(one.done() for one in stopped), "it stopped none of them"
    await bad.kill()
    codes = [code for code, _ in await asyncio.gather(*stopped)]
    assert set(codes) <= {0, 137}, "one was given up because it had not begun"
