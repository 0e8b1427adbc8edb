from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from corral.cluster.node.container.processes import (
    Container,
    ContainerError,
    ContainerSpec,
    Engine,
    _started,
)
from tests.unit.cluster.node.node_waiting import until

Run = Callable[..., Any]
WAIT = "import time; print('up', flush=True); time.sleep(600)"


def alive(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def resident(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def lines(container: Container) -> list[str]:
    return Path(container.spec["log"]).read_text().splitlines()


def texts(container: Container) -> list[tuple[str, str, str]]:
    """(stream, tag, text) of every entry."""
    return [tuple(line.split(" ", 3)[1:]) for line in lines(container)]  # type: ignore[misc]


async def until_logged(container: Container, text: str) -> None:
    await until(lambda: text in "\n".join(lines(container)))


# -- how it ends -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "exit_code", "number"),
    [
        pytest.param("pass", 0, 0, id="success"),
        pytest.param("raise SystemExit(7)", 7, 0, id="code"),
        pytest.param("import os; os.kill(os.getpid(), 15)", 143, 15, id="signal"),
        pytest.param("import os; os.kill(os.getpid(), 9)", 137, 9, id="killed"),
    ],
)
async def test_exit(run: Run, code: str, exit_code: int, number: int) -> None:
    state = await (await run(code)).wait()
    assert (state.phase, state.exit_code, state.signal) == ("exited", exit_code, number), state
    assert 0 < state.started_at <= state.finished_at
    assert not state.oom_killed and not state.error and not state.lost


@pytest.mark.parametrize(
    ("argv", "cwd", "message"),
    [
        pytest.param(
            ["no-such-program"],
            "/",
            'exec: "no-such-program": executable file not found in $PATH',
            id="not on the path",
        ),
        pytest.param(
            ["/no/such/program"],
            "/",
            'exec: "/no/such/program": stat /no/such/program: no such file or directory',
            id="absolute",
        ),
        pytest.param(["/etc"], "/", 'exec: "/etc": permission denied', id="a folder"),
        pytest.param(
            ["/bin/true"],
            "/no/folder",
            'exec: "/bin/true": /no/folder: no such file or directory',
            id="working folder",
        ),
    ],
)
async def test_start_errors(run: Run, shim: str, argv: list[str], cwd: str, message: str) -> None:
    container = await run(argv=argv, cwd=cwd)
    if shim == "shared" and cwd != "/":  # a root of its own, in which the folder is made
        assert (await container.wait()).exit_code == 0
        return
    assert (container.state.phase, container.state.exit_code) == ("exited", 128)
    assert container.state.error == message


async def test_same_name_twice(engine: Engine, spec: Callable[..., ContainerSpec]) -> None:
    await engine.start(spec(WAIT, id="one"))
    with pytest.raises(ContainerError, match="container one exists"):
        await engine.start(spec(WAIT, id="one"))


async def test_remove(run: Run) -> None:
    container = await run(WAIT)
    with pytest.raises(ContainerError, match="is running"):
        container.remove()
    await container.kill()
    container.remove()
    assert not container.folder.exists()


# -- output --------------------------------------------------------------------------------------


async def test_log_format(run: Run) -> None:
    container = await run(
        "import sys, os; os.write(1, b'one\\n\\nthree'); os.write(2, b'err\\n'); "
        "os.write(1, b'\\n' + b'x' * 20000 + b'\\nlast')"
    )
    await container.wait()
    out = [entry[1:] for entry in texts(container) if entry[0] == "stdout"]
    assert out == [
        ("F", "one"), ("F", ""), ("F", "three"),
        ("P", "x" * 16384), ("F", "x" * 3616), ("P", "last"),
    ]  # fmt: skip
    assert [entry for entry in texts(container) if entry[0] == "stderr"] == [("stderr", "F", "err")]
    stamp = lines(container)[0].split(" ")[0]
    assert len(stamp) == len("2006-01-02T15:04:05.000000000Z") and stamp.endswith("Z")


async def test_log_rotation(run: Run) -> None:
    code = "for i in range(3000): print(f'{i:06d}' + 'y' * 90, flush=i % 50 == 0)"
    container = await run(code, max_log_bytes=100_000, max_log_files=3)
    await container.wait()
    log = Path(container.spec["log"])
    kept = sorted(path.name for path in log.parent.iterdir())
    assert kept == [log.name, f"{log.name}.1", f"{log.name}.2"]
    assert all(path.stat().st_size <= 100_000 for path in log.parent.iterdir())
    newest = lines(container)[-1]
    assert newest.endswith("002999" + "y" * 90)


async def test_streams_are_closed_and_signals_default(run: Run) -> None:
    """Nothing of the shim's leaks into the program."""
    container = await run(
        "import os; print(sorted(map(int, os.listdir('/proc/self/fd')))[:4], "
        "hex(int(open('/proc/self/status').read().split('SigIgn:')[1].split()[0], 16)"
        " & 0x7fffffff), "
        "os.getsid(0) == os.getpid())"
    )
    await container.wait()
    # descriptor 3 is the listing's own; Python itself ignores SIGPIPE and SIGXFSZ; signals 32 and
    # 33 are the C library's, nobody can set them back
    assert texts(container) == [("stdout", "F", "[0, 1, 2, 3] 0x1001000 True")]


async def test_attach(run: Run) -> None:
    container = await run(
        "import sys\nfor line in sys.stdin: print('got', line.strip(), flush=True)\nprint('end')",
        stdin=True,
        stdin_once=True,
    )
    streams = await container.attach(stdin=True)
    await streams.write(b"a\nb\n")
    first = b""
    while b"got b" not in first:
        piece = await streams.read()
        assert piece is not None
        first += piece[1]
    await streams.close_stdin()
    assert await streams.collect() == (0, b"end\n")
    await streams.close()
    assert (await container.wait()).exit_code == 0
    assert [text for _, _, text in texts(container)] == ["got a", "got b", "end"]


async def test_attached_until_after_the_end(run: Run) -> None:
    """Who still gives input when the container is over learns how it ended, and all it said."""
    container = await run("print('got', input())", stdin=True, stdin_once=True)
    streams = await container.attach(stdin=True)
    await streams.write(b"a\n")
    state = container.folder / "state.json"
    await until(lambda: '"exited"' in state.read_text())
    await streams.write(b"more\n")
    await streams.close_stdin()
    assert await streams.collect() == (0, b"got a\n")
    assert (await container.wait()).exit_code == 0


async def test_attach_again_after_leaving(run: Run) -> None:
    """Without stdinOnce the input stays open for the next one."""
    container = await run("print(input() + input())", stdin=True)
    first = await container.attach(stdin=True)
    await first.write(b"one\n")
    await first.close_stdin()
    await first.close()
    second = await container.attach(stdin=True)
    await second.write(b"two\n")
    assert await second.collect() == (0, b"onetwo\n")
    await second.close()


async def test_terminal(run: Run) -> None:
    container = await run(
        "import os, sys\nprint(os.isatty(0), flush=True)\ninput()\nprint(os.get_terminal_size())",
        stdin=True,
        tty=True,
    )
    await until_logged(container, "True")
    streams = await container.attach(stdin=True)
    streams.resize(132, 43)
    await streams.write(b"go\n")
    code, output = await streams.collect()
    await streams.close()
    assert code == 0
    assert b"columns=132, lines=43" in output
    assert {stream for stream, _, _ in texts(container)} == {"stdout"}


# -- commands --------------------------------------------------------------------------------------


async def test_exec(run: Run, tmp_path: Path) -> None:
    container = await run(WAIT, env={"COLOUR": "red"}, cwd=str(tmp_path))
    streams = await container.exec(
        ["sh", "-c", 'echo "$COLOUR $(pwd)"; cat >&2; exit 3'], stdin=True
    )
    await streams.write(b"input")
    await streams.close_stdin()
    pieces = []
    while (piece := await streams.read()) is not None:
        pieces.append(piece)
    await streams.close()
    assert streams.exit_code == 3
    assert pieces == [(1, f"red {tmp_path}\n".encode()), (2, b"input")]
    assert container.state.running


async def test_exec_that_cannot_start(run: Run) -> None:
    container = await run(WAIT)
    streams = await container.exec(["nothing-here"])
    with pytest.raises(ContainerError, match="executable file not found"):
        await streams.collect()
    await streams.close()


async def test_exec_in_a_terminal(run: Run) -> None:
    container = await run(WAIT)
    code = "import os; input(); print(os.get_terminal_size().columns, os.environ['TERM'])"
    streams = await container.exec([sys.executable, "-S", "-c", code], stdin=True, tty=True)
    streams.resize(99, 20)
    await streams.write(b"x\n")
    status, output = await streams.collect()
    await streams.close()
    assert (status, output.splitlines()[-1]) == (0, b"99 xterm")


async def test_exec_much_data_both_ways(run: Run) -> None:
    """Far more than any buffer holds, through a reader that is slow to begin."""
    container = await run(WAIT)
    streams = await container.exec(["cat"], stdin=True)
    size = 8 << 20

    async def feed() -> None:
        for _ in range(size >> 16):
            await streams.write(b"z" * 65536)
        await streams.close_stdin()

    feeding = asyncio.create_task(feed())
    async with asyncio.timeout(60):
        code, output = await streams.collect()
        await feeding
    await streams.close()
    assert (code, len(output)) == (0, size)


async def test_slow_reader_holds_the_command_back(run: Run) -> None:
    container = await run(WAIT)
    streams = await container.exec(["sh", "-c", "head -c 20000000 /dev/zero; echo done >&2"])
    first = await streams.read()
    assert first is not None
    shim = container.state.shim
    for _ in range(20):
        await (await container.exec(["true"])).collect()
    assert resident(shim) < 60 << 20
    code, output = await streams.collect()
    await streams.close()
    assert (code, len(first[1]) + len(output)) == (0, 20_000_000 + 5)


# writes until nobody takes any more, and ends with all of that unread
FULL = """
import os, pathlib, sys, time
os.set_blocking(1, False)
written = refused = 0
while refused < 100:
    try:
        written += os.write(1, b"x" * 4096)
        refused = 0
    except BlockingIOError:
        refused += 1
        time.sleep(0.002)
pathlib.Path(sys.argv[1]).write_text(f"{written}\\n")
"""


@pytest.mark.parametrize("background", ["", "sleep 600 &"], ids=["alone", "held open"])
async def test_command_that_ends_before_its_reader_begins(
    run: Run, tmp_path: Path, background: str
) -> None:
    """Its end is told when it was read, however much was on its way."""
    container = await run(WAIT)
    said = tmp_path / "written"
    command = f'{background} exec "$@"'
    program = [sys.executable, "-S", "-c", FULL, str(said)]
    streams = await container.exec(["sh", "-c", command, "sh", *program])
    await until(lambda: said.exists() and said.read_text().endswith("\n"))
    assert await (await container.exec(["true"])).collect() == (0, b"")
    async with asyncio.timeout(60):
        code, output = await streams.collect()
    assert (code, len(output)) == (0, int(said.read_text()))
    assert len(output) > 1 << 20


async def test_reader_that_leaves_holds_nobody_back(run: Run, tmp_path: Path) -> None:
    """Who attached, read nothing and left costs the container neither time nor its log."""
    said = tmp_path / "written"
    container = await run(
        "import pathlib, sys\ninput()\n"
        "for _ in range(400): print('x' * 16000)\n"
        f"print('end', flush=True)\npathlib.Path({str(said)!r}).touch()",
        stdin=True,
    )
    streams = await container.attach(stdin=True)
    streams._reader._transport.pause_reading()  # type: ignore[attr-defined]
    await streams.write(b"go\n")
    await until(lambda: len(lines(container)) > 60)
    assert not said.exists()
    await streams.close()
    async with asyncio.timeout(60):
        assert (await container.wait()).exit_code == 0
    assert texts(container)[-1][2] == "end" and said.exists()


async def test_exec_goes_with_its_client(run: Run) -> None:
    container = await run(WAIT)
    streams = await container.exec(["sh", "-c", "sleep 600 & echo $$ $!; wait"])
    piece = await streams.read()
    assert piece is not None
    pids = [int(pid) for pid in piece[1].split()]
    await streams.close()
    await until(lambda: not any(alive(pid) for pid in pids))
    assert container.state.running


async def test_exec_when_the_container_ends(run: Run) -> None:
    container = await run(WAIT)
    streams = await container.exec(["sleep", "600"])
    await container.signal(signal.SIGTERM)
    assert (await container.wait()).exit_code == 143
    assert await streams.collect() == (137, b"")
    await streams.close()
    with pytest.raises(ContainerError, match="not running"):
        await container.exec(["true"])


# -- the whole tree ------------------------------------------------------------------------------

DAEMON = (
    "import os, time\n"
    "if os.fork() == 0:\n"
    "    os.setsid()\n"
    "    if os.fork(): os._exit(0)\n"
    "    os.write(1, f'daemon {os.getpid()}\\n'.encode())\n"
    "    time.sleep(600)\n"
    "time.sleep(0 if %s else 600)\n"
)


@pytest.mark.parametrize("ends", [True, False], ids=["main ends", "killed"])
async def test_no_orphan_survives(run: Run, ends: bool) -> None:
    code = DAEMON % ends if not ends else DAEMON % ends + "\nos.wait(); time.sleep(0.05)"
    container = await run(code)
    if not ends:
        await until_logged(container, "daemon")
        await container.kill()
    state = await container.wait()
    assert state.exit_code == (0 if ends else 137)
    daemons = [int(text.split()[1]) for _, _, text in texts(container) if "daemon" in text]
    assert not [pid for pid in daemons if alive(pid)]
    if not state.shared:
        await until(lambda: not alive(state.shim))


# -- agents that die -------------------------------------------------------------------------------

AGENT = """
import asyncio, os, pathlib, sys
from corral.cluster.node.container.processes import ContainerSpec, Engine
async def main():
    engine = Engine(pathlib.Path(sys.argv[1]))
    for name, code in (("long", sys.argv[2]), ("short", "raise SystemExit(5)")):
        c = await engine.start(ContainerSpec(id=name, argv=[sys.executable, "-S", "-c", code],
            log=sys.argv[1] + f"/../{name}.log", labels={"pod": "p"}))
    print(engine._forker.process.pid, flush=True)
    os.kill(os.getpid(), 9)
asyncio.run(main())
"""


async def test_adoption_after_the_agent_was_killed(tmp_path: Path) -> None:
    root = tmp_path / "containers"
    code = "import time\nwhile True: print('tick', flush=True); time.sleep(0.01)"
    agent = await asyncio.create_subprocess_exec(
        sys.executable, "-c", AGENT, str(root), code,
        stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    output, _ = await agent.communicate()
    assert agent.returncode == -9
    engine = Engine(root)
    found = {container.id: container for container in await engine.adopt()}
    assert (await found["short"].wait()).exit_code == 5
    long = found["long"]
    assert long.state.running and long.labels == {"pod": "p"}
    before = len(lines(long))
    await until(lambda: len(lines(long)) > before)
    assert await (await long.exec(["echo", "hi"])).collect() == (0, b"hi\n")
    assert (await long.kill()).exit_code == 137
    await until(lambda: not alive(int(output)))  # what forked them went with its agent
    engine.close()


async def test_adoption_at_the_very_end(engine: Engine, spec: Callable[..., ContainerSpec]) -> None:
    """A container that ends while it is adopted ended as it did."""
    for number in range(20):
        container = await engine.start(spec("raise SystemExit(5)", id=f"c{number}"))
        container.release()
        async with asyncio.timeout(30):
            while (found := (await engine.adopt())[-1]).state.running:
                found.release()  # and again, so that one comes at the worst of moments
                await asyncio.sleep(0)
        assert (found.state.exit_code, found.state.lost) == (5, False)
        found.remove()


async def test_what_was_never_started(engine: Engine, spec: Callable[..., ContainerSpec]) -> None:
    folder = engine._root / "half"
    folder.mkdir()
    (engine._root / "empty").mkdir()
    (folder / "spec.json").write_text('{"id": "half", "argv": ["true"]}')
    (container,) = await engine.adopt()
    assert (container.state.phase, container.state.exit_code) == ("exited", 128)
    assert "before the container was started" in container.state.error
    # a shim that comes too late finds the container decided
    report, news = await engine._forker.start(folder)
    os.close(news)
    assert report == b""
    state = await _started(folder, report)
    assert "before the container was started" in state.error
    assert not (engine._root / "empty").exists()


async def test_shim_killed(run: Run) -> None:
    container = await run(DAEMON % False)
    await until_logged(container, "daemon")
    daemon = int(texts(container)[0][2].split()[1])
    os.kill(container.state.shim, signal.SIGKILL)
    state = await container.wait()
    assert (state.lost, state.exit_code) == (True, 137)
    assert not alive(daemon) and not alive(container.state.pid or 1 << 22)
    (again,) = await Engine(container.folder.parent).adopt()
    assert again.state.lost


async def test_forker_killed(engine: Engine, run: Run, shim: str) -> None:
    first = await run(WAIT)
    process = (engine._keeper if shim == "shared" else engine._forker).process
    assert process is not None
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    second = await run(WAIT)
    assert second.state.running
    if shim == "shared":  # it stood by the first one
        state = await first.wait()
        assert state.lost and not alive(state.pid or first.state.pid)
    else:
        assert first.state.running


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may start processes as somebody else")
async def test_another_user(run: Run) -> None:
    argv = ["sh", "-c", "id -u; id -g; id -G; exec sleep 600"]
    container = await run(argv=argv, uid=65533, gid=65532, groups=[7])
    await until(lambda: len(texts(container)) == 3)
    assert [text for _, _, text in texts(container)] == ["65533", "65532", "65532 7"]
    assert await (await container.exec(["id", "-u"])).collect() == (0, b"65533\n")
    os.kill(container.state.shim, signal.SIGKILL)  # a change of user must not set it free
    pid = container.state.pid
    state = await container.wait()
    assert state.lost and not alive(pid)
