"""kubectl through an API server to the node's server, with every combination of transports."""

from __future__ import annotations

import asyncio
import os
import pty
import re
import struct
import termios
from collections.abc import AsyncIterator
from contextlib import suppress
from fcntl import ioctl
from pathlib import Path

import pytest
from node_waiting import until
from server_node import KUBECTL, WAIT, HandNode, Kubectl, hand_node

from corral.cluster.node.container.processes import Engine
from tests.backends import Backend
from tests.support.components import needs
from tests.support.matrix import matrix

pytestmark = needs("kubectl", found=bool(KUBECTL))


WEBSOCKETS = ("websocket-node", "websocket-client")


@pytest.fixture(
    params=matrix(
        ("plain-node", "spdy-client"),
        WEBSOCKETS,
        full=[("plain-node", "websocket-client"), ("websocket-node", "spdy-client")],
    ),
    ids="-".join,
)
def streams(request: pytest.FixtureRequest) -> tuple[str, str]:
    """How the node and kubectl stream."""
    chosen: tuple[str, str] = request.param
    return chosen


@pytest.fixture
async def node(
    streams: tuple[str, str], backend: Backend, engine: Engine, tmp_path: Path
) -> AsyncIterator[HandNode]:
    websockets = streams[0] == WEBSOCKETS[0]
    async with hand_node(backend, engine, tmp_path, websockets=websockets) as made:
        yield made


@pytest.fixture
def kubectl(streams: tuple[str, str], node: HandNode, tmp_path: Path) -> Kubectl:
    return Kubectl(node, tmp_path, websockets=streams[1] == WEBSOCKETS[1])


# -- exec --------------------------------------------------------------------------------------


async def test_exec(node: HandNode, kubectl: Kubectl) -> None:
    await node.start("one")
    done = await kubectl("exec", "one", "--", "sh", "-c", "echo out; echo err >&2; exit 7")
    assert done == (7, b"out\n", b"err\ncommand terminated with exit code 7\n")
    size = 3_000_000
    code, out, _ = await kubectl("exec", "-i", "one", "--", "cat", stdin=b"x" * size)
    assert (code, len(out)) == (0, size)


async def test_exec_refused(node: HandNode, kubectl: Kubectl) -> None:
    await node.start("one")
    code, _, err = await kubectl("exec", "one", "--", "no-such-command")
    assert code == 1 and b"executable file not found" in err
    await node.pods.attempts["one/main"][-1].kill()
    code, _, err = await kubectl("exec", "one", "--", "true")
    assert code == 1 and b'container not found ("main")' in err


async def test_exec_in_a_terminal(node: HandNode, kubectl: Kubectl) -> None:
    await node.start("one")
    master, slave = pty.openpty()
    ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
    seen = bytearray()
    loop = asyncio.get_running_loop()

    def read() -> None:
        with suppress(OSError):
            seen.extend(os.read(master, 65536))

    loop.add_reader(master, read)
    try:
        streams = {"stdin": slave, "stdout": slave, "stderr": slave, "start_new_session": True}
        async with kubectl.open("exec", "-it", "one", "--", "sh", **streams) as process:
            os.write(master, b"stty size\n")
            await until(lambda: b"30 100" in seen)
            ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
            process.send_signal(28)  # SIGWINCH: nobody's foreground, so nobody else tells it
            while b"40 120" not in seen:
                os.write(master, b"stty size\n")
                size = len(seen)
                await until(lambda size=size: len(seen) > size + 12)  # type: ignore[misc]
            os.write(master, b"tty; exit 3\n")
            assert await process.wait() == 3
        assert b"/dev/pts/" in seen
    finally:
        loop.remove_reader(master)
        os.close(master)
        os.close(slave)


async def test_client_leaves(node: HandNode, kubectl: Kubectl, tmp_path: Path) -> None:
    await node.start("one")
    mark = tmp_path / "pid"
    command = f"echo $$ > {mark}; echo on; exec sleep 600"
    async with kubectl.open("exec", "one", "--", "sh", "-c", command) as process:
        assert process.stdout is not None
        assert await process.stdout.readline() == b"on\n"
    pid = mark.read_text().strip()
    await until(lambda: not Path(f"/proc/{pid}").exists())


async def test_container_ends_under_a_command(node: HandNode, kubectl: Kubectl) -> None:
    await node.start("one")
    async with kubectl.open("exec", "one", "--", "sh", "-c", "echo on; sleep 600") as process:
        assert process.stdout is not None
        assert await process.stdout.readline() == b"on\n"
        await node.pods.attempts["one/main"][-1].kill()
        assert await process.wait() == 137


async def test_slow_reader(node: HandNode, kubectl: Kubectl) -> None:
    await node.start("one")
    command = "head -c 30000000 /dev/zero; echo; echo done >&2"
    async with kubectl.open("exec", "one", "--", "sh", "-c", command) as process:
        assert process.stdout is not None and process.stderr is not None
        assert len(await process.stdout.readexactly(1000)) == 1000
        out, err = await process.communicate()
        assert (len(out), err) == (30_000_001 - 1000, b"done\n")


async def test_copy(node: HandNode, kubectl: Kubectl, tmp_path: Path) -> None:
    await node.start("one")
    source, there, back = tmp_path / "source", tmp_path / "there", tmp_path / "back"
    (source / "deep").mkdir(parents=True)
    there.mkdir()
    (source / "big").write_bytes(os.urandom(2_000_000))
    (source / "deep" / "small").write_text("hello")
    code, _, err = await kubectl("cp", str(source), f"one:{there}")
    assert code == 0, err
    assert (there / "source" / "big").read_bytes() == (source / "big").read_bytes()
    code, _, err = await kubectl("cp", f"one:{there}/source", str(back))
    assert code == 0, err
    assert (back / "deep" / "small").read_text() == "hello"
    assert (back / "big").read_bytes() == (source / "big").read_bytes()


# -- attach ------------------------------------------------------------------------------------

ECHO = "import sys\nfor line in sys.stdin: print('got', line.strip())\nsys.exit(5)"


async def test_attach(node: HandNode, kubectl: Kubectl) -> None:
    await node.start("one", ECHO, stdin=True, stdin_once=True)
    code, out, _ = await kubectl("attach", "-i", "one", stdin=b"a\nb\n")
    assert (code, out) == (0, b"got a\ngot b\n")


async def test_attach_to_a_terminal(node: HandNode, kubectl: Kubectl) -> None:
    await node.start("one", "", argv=["sh"], stdin=True, tty=True)
    master, slave = pty.openpty()
    seen = bytearray()
    loop = asyncio.get_running_loop()
    loop.add_reader(master, lambda: seen.extend(os.read(master, 65536)))
    try:
        streams = {"stdin": slave, "stdout": slave, "stderr": slave, "start_new_session": True}
        async with kubectl.open("attach", "-it", "one", **streams) as process:
            await until(lambda: b"pressing enter" in seen)
            os.write(master, b"echo $((40 + 2))\n")
            await until(lambda: b"42" in seen)
            os.write(master, b"exit 4\n")
            assert await process.wait() == 0
    finally:
        loop.remove_reader(master)
        os.close(master)
        os.close(slave)


# -- port-forward ------------------------------------------------------------------------------


async def _shout(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data.upper())
        await writer.drain()
    writer.write(b"!")
    writer.close()


async def test_port_forward_under_load(node: HandNode, kubectl: Kubectl) -> None:
    await node.start("one")
    server = await asyncio.start_server(_shout, "127.0.0.1", 0, backlog=1024)
    port = server.sockets[0].getsockname()[1]

    async def talk(local: int, number: int) -> None:
        text = b"%d-abc" % number * 2000
        reader, writer = await asyncio.open_connection("127.0.0.1", local)
        writer.write(text)
        writer.write_eof()
        assert await reader.read() == text.upper() + b"!"
        writer.close()

    async with server, kubectl.open("port-forward", "pod/one", f":{port}") as process:
        assert process.stdout is not None
        line = (await process.stdout.readline()).decode()
        match = re.search(r"127.0.0.1:(\d+) -> ", line)
        assert match is not None, (line, await process.stderr.read() if process.stderr else b"")
        local = int(match[1])
        await asyncio.gather(*(talk(local, number) for number in range(200)))
        await talk(local, 1000)


async def test_port_forward_to_nobody(node: HandNode, kubectl: Kubectl) -> None:
    await node.start("one")
    async with kubectl.open("port-forward", "pod/one", ":9") as process:
        assert process.stdout is not None and process.stderr is not None
        line = (await process.stdout.readline()).decode()
        match = re.search(r"127.0.0.1:(\d+) -> ", line)
        assert match is not None, line
        reader, writer = await asyncio.open_connection("127.0.0.1", int(match[1]))
        assert await reader.read() == b""
        writer.close()
        said = await process.stderr.readline()
        assert b"error forwarding port 9 to pod" in said
        assert b"connection refused" in said


# -- logs --------------------------------------------------------------------------------------


async def test_logs(node: HandNode, tmp_path: Path) -> None:
    kubectl = Kubectl(node, tmp_path, websockets=True)
    pod = await node.start("one", "import sys\nfor i in range(5): print('line', i)\nsys.exit(1)")
    await node.pods.attempts["one/main"][-1].wait()
    await node.pods.run(pod, "main", "print('again')\n" + WAIT)
    await node.sync(pod)
    log = Path(node.pods.attempts["one/main"][-1].spec["log"])
    await until(lambda: b"again" in log.read_bytes())
    lines = b"".join(b"line %d\n" % i for i in range(5))
    assert await kubectl("logs", "one") == (0, b"again\n", b"")
    assert await kubectl("logs", "one", "--previous") == (0, lines, b"")
    assert await kubectl("logs", "one", "-p", "--tail=2") == (0, b"line 3\nline 4\n", b"")
    assert await kubectl("logs", "one", "-p", "--tail=0") == (0, b"", b"")
    assert await kubectl("logs", "one", "-p", "--limit-bytes=10") == (0, lines[:10], b"")
    assert await kubectl("logs", "one", "--since=1h") == (0, b"again\n", b"")
    assert await kubectl("logs", "one", "--since-time=2099-01-01T00:00:00Z") == (0, b"", b"")
    code, out, _ = await kubectl("logs", "one", "--timestamps")
    assert code == 0 and re.fullmatch(rb"\d{4}-\d\d-\d\dT[\d:.]+Z again\n", out)


async def test_followed_logs(node: HandNode, tmp_path: Path) -> None:
    kubectl = Kubectl(node, tmp_path, websockets=True)
    go = tmp_path / "go"
    code = f"""
import os, time
print('first')
while not os.path.exists({str(go)!r}): time.sleep(0.01)
for i in range(3000): print('x' * 100, i)
"""
    await node.start("one", code, max_log_bytes=100_000, max_log_files=5)
    async with kubectl.open("logs", "-f", "one") as process:
        assert process.stdout is not None
        assert await process.stdout.readline() == b"first\n"
        go.touch()
        rest = await process.stdout.read()
        assert await process.wait() == 0
    assert rest.splitlines() == [b"x" * 100 + b" %d" % i for i in range(3000)]


async def test_no_logs(node: HandNode, tmp_path: Path) -> None:
    kubectl = Kubectl(node, tmp_path, websockets=True)
    pod = await node.pod("one", "main", "side")
    words = 'container "side" in pod "one" is waiting to start: ContainerCreating'
    code, _, err = await kubectl("logs", "one", "-c", "side")
    assert code == 1 and words.encode() in err
    await node.pods.run(pod, "main", WAIT)
    code, _, err = await kubectl("logs", "one", "-c", "main", "--previous")
    assert code == 1 and b'previous terminated container "main" in pod "one" not found' in err


# -- the rest ----------------------------------------------------------------------------------


async def test_raw(node: HandNode, tmp_path: Path, backend: Backend) -> None:
    if backend.name != "embedded":
        pytest.skip("kube-apiserver proxies to no loopback address")
    kubectl = Kubectl(node, tmp_path, websockets=True)
    await node.start("one")
    root = f"/api/v1/nodes/{node.name}/proxy"
    assert await kubectl("get", "--raw", f"{root}/healthz") == (0, b"ok", b"")
    code, out, _ = await kubectl("get", "--raw", f"{root}/metrics/resource")
    assert code == 0 and b"node_cpu_usage_seconds_total " in out
    code, out, _ = await kubectl("get", "--raw", f"{root}/pods")
    assert code == 0 and b'"name":"one"' in out.replace(b" ", b"")
    code, out, _ = await kubectl("get", "--raw", f"{root}/stats/summary")
    assert code == 0 and b'"podRef"' in out
    code, _, err = await kubectl("get", "--raw", f"{root}/no-such-page")
    assert code == 1 and b"could not find the requested resource" in err


async def test_top(node: HandNode, tmp_path: Path, backend: Backend) -> None:
    if backend.name != "embedded":
        pytest.skip("a real control plane has no metrics of its own")
    kubectl = Kubectl(node, tmp_path, websockets=True)
    await node.start("one", "while True: pass")
    code, out, err = await kubectl("top", "pod", "one", "--no-headers")
    assert code == 0, err
    assert re.match(rb"one\s+\d+m\s+\d+Mi", out)
    assert int(out.split()[1].rstrip(b"m")) > 100
    code, out, err = await kubectl("top", "node", node.name, "--no-headers")
    assert code == 0, err
    assert out.split()[0] == node.name.encode()
