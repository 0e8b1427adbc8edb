from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from corral.cluster.node.container import cgroups
from corral.cluster.node.container.cgroups import Groups, Limits
from corral.cluster.node.container.launcher import oom_score
from corral.cluster.node.container.processes import Container, ContainerSpec, Engine, Mount
from corral.cluster.node.container.view import machine_view
from corral.cluster.node.isolation import (
    Capabilities,
    Isolation,
    Mode,
    Sandbox,
    rewrite,
)
from corral.cluster.node.network.addresses import POD_NETWORK
from corral.cluster.node.network.gateway import Gateway
from corral.cluster.node.network.holding import Keeper
from corral.cluster.node.network.names import hosts
from corral.cluster.node.network.services.directory import Record
from corral.cluster.node.resources import usage_of
from tests.unit.cluster.node.node_waiting import exists, until

NODE = f"corral-test-{os.getpid()}"
RANK: dict[str, int] = {"plain": 0, "user": 1, "root": 2}


@pytest.fixture(scope="module")
def capabilities() -> Capabilities:
    return Capabilities.detect(NODE)


def mounts_now(own: Path) -> list[str]:
    """What is mounted on the machine, but for what other cases mount in folders of theirs."""
    base = next(folder for folder in own.parents if folder.name.startswith("pytest-of-"))
    others = (f" {base}/", " /dev/shm/corral-")  # nodes have theirs in memory; there is none here
    found = Path("/proc/self/mounts").read_text().splitlines()
    return [
        line for line in found if f" {own}/" in line or not any(each in line for each in others)
    ]


# -- what can be had -------------------------------------------------------------------------------


def test_detection_degrades(tmp_path: Path) -> None:
    found = Capabilities.detect(NODE, highest="plain", cgroup_root=tmp_path)
    assert (found.mode, found.groups) == ("plain", None)
    assert any("mount paths" in words for words in found.missing)
    assert any("control group" in words for words in found.missing)


def test_detection_without_root() -> None:
    found = Capabilities.detect(NODE, highest="user")
    assert found.mode in ("user", "plain")
    if os.geteuid() != 0:
        assert any("needs root" in words for words in Capabilities.detect(NODE).missing)


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("/data", "/src/d"), ("/data/x.txt", "/src/d/x.txt"), ("--out=/data/x", "--out=/src/d/x"),
        ("/database", "/database"), ("/a/data", "/a/data"), ("no path", "no path"),
        ("/data:/data/sub/y", "/src/d:/data/s/y"), ("/data,/x", "/src/d,/x"),
    ],
)  # fmt: skip
def test_rewrite(text: str, result: str) -> None:
    assert rewrite(text, {"/data": "/src/d", "/data/sub/": "/data/s"}) == result


# -- one suite for every mode ----------------------------------------------------------------------


class Node:
    """An isolation with addresses, and a gateway of the test's own."""

    def __init__(self, isolation: Isolation, engine: Engine, folder: Path) -> None:
        self.isolation, self.engine, self.folder = isolation, engine, folder
        self.gateway: Gateway | None = None
        self.count = 1
        if isolation.mode == "root":
            keeper = Keeper(folder / "keeper")
            keeper.open()
            self.gateway = Gateway(folder / "machine" / "cluster", keeper, network=POD_NETWORK)
            self.gateway.open()

    async def pod(self, name: str) -> Sandbox:
        self.count += 1
        address = f"10.88.0.{self.count}" if self.gateway else f"127.77.1.{self.count}"
        path = self.folder / f"{name}.hosts"
        path.write_text(hosts.header(address, name))
        network = self.gateway.attach(name, address) if self.gateway else ""
        return Sandbox(uid=name, address=address, hostname=name, hosts=str(path), network=network)

    def close(self) -> None:
        if self.gateway:
            self.gateway.close(remove=True)

    async def run(self, sandbox: Sandbox, code: str, **more: Any) -> Container:
        name = more.pop("id", f"{sandbox.uid}-{len(list(self.engine._root.iterdir()))}")
        argv = more.pop("argv", [sys.executable, "-S", "-E", "-c", code])
        env = {"PATH": os.environ["PATH"], **more.pop("env", {})}
        log = str(self.folder / f"{name}.log")
        view = machine_view(self.folder / "view").to_dict()
        spec = ContainerSpec(id=name, argv=argv, env=env, log=log, view=view, **more)
        return await self.engine.start(self.isolation.dress(spec, sandbox))


def output(container: Container) -> str:
    path = Path(container.spec["log"])
    return "\n".join(line.split(" ", 3)[3] for line in path.read_text().splitlines())


async def finished(container: Container) -> str:
    async with asyncio.timeout(30):
        state = await container.wait()
    assert state.exit_code == 0, (state, output(container) if not state.error else "")
    return output(container)


@pytest.fixture(params=["root", "user", "plain"])
async def node(
    request: pytest.FixtureRequest, capabilities: Capabilities, engine: Engine, tmp_path: Path
) -> AsyncIterator[Node]:
    mode: Mode = request.param
    if RANK[capabilities.mode] < RANK[mode]:
        pytest.skip(f"this machine lets us have no more than mode {capabilities.mode}")
    before = mounts_now(tmp_path)
    node = Node(Isolation(mode), engine, tmp_path)
    yield node
    for container in await engine.adopt():
        await container.kill()
    node.close()
    assert mounts_now(tmp_path) == before, "nothing may be mounted outside the containers"


async def test_volumes_at_their_paths(node: Node, tmp_path: Path) -> None:
    """Below / and below folders that do not exist; read-only where asked for."""
    volume = tmp_path / "volume"
    volume.mkdir()
    (volume / "in").write_text("hello")
    code = (
        "import sys\n"
        "print(open(sys.argv[1]).read())\n"
        "open(sys.argv[2], 'w').write('made')\n"
        "try: open(sys.argv[3] + '/x', 'w'); print('writable')\n"
        "except OSError as err: print(err.strerror)"
    )
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o755)
    container = await node.run(
        await node.pod("p"),
        "",
        argv=[
            sys.executable, "-S", "-c", code,
            "/corral-data/in", "/var/run/corral-test/deep/out", "/corral-data/ro",
        ],
        mounts=[
            Mount(source=str(volume), target="/corral-data"),
            Mount(source=str(volume), target="/var/run/corral-test/deep"),
            Mount(source=str(closed), target="/corral-data/ro", read_only=True),
        ],
    )  # fmt: skip
    lines = (await finished(container)).splitlines()
    assert lines[0] == "hello" and (volume / "out").read_text() == "made"
    if node.isolation.mode != "plain":  # a path cannot be made read-only without a mount
        assert lines[1] == "Read-only file system"
        assert not exists("/corral-data", "/var/run/corral-test")


async def test_mount_paths_in_the_environment(node: Node, tmp_path: Path) -> None:
    (tmp_path / "v").mkdir()
    (tmp_path / "v/file").write_text("found")
    container = await node.run(
        await node.pod("p"),
        "import os; print(open(os.environ['CONFIG']).read(), os.getcwd() != '/')",
        env={"CONFIG": "/corral-data/file"},
        cwd="/corral-data",
        mounts=[Mount(source=str(tmp_path / "v"), target="/corral-data")],
    )
    assert await finished(container) == "found True"


async def test_own_name_and_hosts(node: Node) -> None:
    sandbox = await node.pod("pod-7")
    code = (
        "import os, socket\nprint(os.environ['HOSTNAME'], os.environ['CORRAL_POD_IP'])\n"
        "print(socket.gethostname())\n"
        "print([l for l in open('/etc/hosts') if 'pod-7' in l])"
    )
    lines = (await finished(await node.run(sandbox, code))).splitlines()
    assert lines[0] == f"pod-7 {sandbox.address}"
    if node.isolation.mode != "plain":
        assert lines[1] == "pod-7"
        assert json.loads(lines[2].replace("'", '"')) == [f"{sandbox.address}\tpod-7\n"]


async def test_hosts_file_follows(node: Node) -> None:
    """A pod that comes later is found by those that run."""
    if node.isolation.mode == "plain":
        path = "open(__import__('os').environ['CORRAL_HOSTS_FILE'])"
    else:
        path = "open('/etc/hosts')"
    sandbox = await node.pod("early")
    code = f"import time\nwhile 'late' not in {path}.read(): time.sleep(0.01)\nprint('seen')"
    container = await node.run(sandbox, code)
    file = hosts.HostsFile(Path(sandbox.hosts), hosts.header(sandbox.address, "early"))
    late = Record("ns", "late", "127.9.9.9")
    file.write(hosts.NamesBlock("ns", "cluster.local", [late]))
    assert await finished(container) == "seen"


SERVER = (
    "import os, socket\ns = socket.socket()\n"
    "s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)\n"
    "s.bind((os.environ['CORRAL_POD_IP'], 4711)); s.listen()\n"
    "print('up', flush=True)\nc, who = s.accept(); c.sendall(who[0].encode()); c.close()"
)
CLIENT = (
    "import os, socket, sys\n"
    "s = socket.create_connection((sys.argv[1], 4711), 10, (os.environ['CORRAL_POD_IP'], 0))\n"
    "print(s.recv(100).decode())"
)


async def test_same_port_in_two_pods(node: Node) -> None:
    """Each pod has its own address, and they reach each other by it."""
    one, two = await node.pod("one"), await node.pod("two")
    assert one.address != two.address
    servers = [await node.run(pod, SERVER) for pod in (one, two)]
    await until(lambda: all(output(server) == "up" for server in servers))
    for pod, other in ((one, two), (two, one)):
        argv = [sys.executable, "-S", "-c", CLIENT, other.address]
        assert await finished(await node.run(pod, "", argv=argv)) == pod.address


async def test_commands_see_the_same(node: Node, tmp_path: Path) -> None:
    container = await node.run(
        await node.pod("p"),
        "import time; time.sleep(600)",
        mounts=[Mount(source=str(tmp_path), target="/corral-data")],
    )
    (tmp_path / "inside").write_text("x")
    if node.isolation.mode == "plain":
        path = str(tmp_path / "inside")
    else:
        path = "/corral-data/inside"
    assert await (await container.exec(["cat", path])).collect() == (0, b"x")


async def test_terminal_message_in_a_system_folder(node: Node, tmp_path: Path) -> None:
    """/dev has to be shown anew for it, and still works."""
    message = tmp_path / "message"
    message.touch(mode=0o666)
    code = (
        "import sys\nopen(sys.argv[1], 'w').write('bye')\n"
        "open('/dev/null', 'w').write('x'); print(len(open('/dev/urandom', 'rb').read(4)))"
    )
    container = await node.run(
        await node.pod("p"),
        "",
        argv=[sys.executable, "-S", "-c", code, "/dev/termination-log"],
        mounts=[Mount(source=str(message), target="/dev/termination-log")],
    )
    assert await finished(container) == "4"
    assert message.read_text() == "bye"
    assert not exists("/dev/termination-log")


async def test_what_cannot_be_mounted(node: Node, tmp_path: Path) -> None:
    if node.isolation.mode == "plain":
        pytest.skip("plain processes mount nothing")
    mounts = [Mount(source=str(tmp_path / "none"), target="/corral-data")]
    container = await node.run(await node.pod("p"), "", mounts=mounts)
    assert "No such file or directory" in container.state.error


# -- control groups --------------------------------------------------------------------------------


@pytest.fixture
def control(capabilities: Capabilities) -> Any:
    if capabilities.groups is None:
        pytest.skip("this machine lets us make no control groups")
    yield capabilities.groups
    capabilities.groups.close()
    assert not any(parent.exists() for parent in capabilities.groups.parents)


async def test_out_of_memory(control: Groups, run: Callable[..., Any]) -> None:
    paths = control.create("oom", Limits(memory_bytes=48 << 20, cpu_milli=1500))
    try:
        container = await run(
            "import os\nif os.fork() == 0: os._exit(0)\nblock = b'x' * (300 << 20)", cgroups=paths
        )
        state = await container.wait()
        assert (state.exit_code, state.oom_killed) == (137, True)
    finally:
        cgroups.remove(paths)


async def test_group_usage_and_leftovers(control: Groups, run: Callable[..., Any]) -> None:
    paths = control.create("use", Limits(cpu_request_milli=100))
    try:
        assert control.leftovers() == paths
        container = await run(
            "block = b'x' * (40 << 20); print('up', flush=True); import time; time.sleep(600)",
            cgroups=paths,
        )
        streams = await container.attach()
        await streams.read()
        await streams.close()
        usage = usage_of(container.state.root, cgroups=paths)
        assert usage.cpu_seconds > 0 and usage.memory_bytes > 40 << 20
        assert not (await container.kill()).oom_killed
    finally:
        cgroups.remove(paths)
    assert control.leftovers() == []


def test_all_containers_together_have_less_than_the_machine() -> None:
    gib = 1 << 30
    for total, left in (
        (gib // 4, gib // 8),
        (gib, gib // 4),
        (20 * gib, gib),
        (999 * gib, 2 * gib),
    ):
        assert cgroups.most_memory(total) == total - left


@pytest.mark.parametrize(
    ("resources", "score"),
    [
        ({}, 1000), ({"requests": {"cpu": "1"}}, 1000), ({"requests": {"memory": "250M"}}, 750),
        ({"limits": {"memory": "1M"}}, 999), ({"requests": {"memory": "2G"}}, 2),
    ],
)  # fmt: skip
def test_who_is_ended_first_when_there_is_no_memory(resources: dict[str, Any], score: int) -> None:
    assert oom_score({"resources": resources}, 10**9) == score


def test_version_two_files(tmp_path: Path) -> None:
    """As far as files show it: the folder of a machine with version 2."""
    (tmp_path / "cgroup.controllers").touch()
    assert Groups.detect("n", root=tmp_path) is None
    (tmp_path / "cgroup.subtree_control").write_text("cpu memory")
    found = Groups.detect("n", root=tmp_path)
    assert found is not None and found.version == 2
    limits = Limits(memory_bytes=1000, cpu_milli=250, cpu_request_milli=1000)
    (path,) = found.create("c", limits)
    written = {file.name: file.read_text() for file in Path(path).iterdir()}
    assert written == {
        "memory.max": "1000", "memory.swap.max": "0", "cpu.max": "25000 100000", "cpu.weight": "39",
    }  # fmt: skip
