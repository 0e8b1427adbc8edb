"""Containers as process trees, under shims that outlive the agent.

A container is a folder. ``Engine.start`` writes what to run into it and has a shim forked;
``Engine.adopt`` finds what earlier agents started. Guarantees:

* a folder is started at most once, whoever dies in between;
* ``Container.wait`` returns when no process of the container is left, with how the main one ended;
* a container whose shim was killed is reported as lost (137), after its processes were killed.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import shutil
import signal
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from corral.cluster.node.container.spawner import START_TIMEOUT, Nursery, can_share
from corral.cluster.node.container.spec import MOUNTS, ContainerSpec, Mount, rewrite
from corral.cluster.node.container.streams import ContainerError, Streams
from corral.cluster.node.shim.wire import LIMIT

__all__ = ["Container", "ContainerError", "ContainerSpec", "Engine", "Mount", "State", "Streams"]

MARKER: Final = "CORRAL_CONTAINER"
"""A variable, the container's folder, by which processes are found whose shim was killed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """What a container's shim has written down. Times are nanoseconds since 1970."""

    phase: Literal["running", "exited"]
    shim: int = 0
    pid: int = 0
    started_at: int = 0
    finished_at: int = 0
    exit_code: int = 0
    signal: int = 0
    oom_killed: bool = False
    error: str = ""
    """Why it could not be started."""
    lost: bool = False
    """The shim did not live to say how it ended."""
    never: bool = False
    """It was not started, and nobody can start it any more."""
    shared: bool = False
    """The shim stands by other containers too."""

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> State:
        return cls(
            phase=value["phase"],
            shim=value.get("shim", 0),
            pid=value.get("pid", 0),
            started_at=value.get("startedAt", 0),
            finished_at=value.get("finishedAt", 0),
            exit_code=value.get("exitCode", 0),
            signal=value.get("signal", 0),
            oom_killed=value.get("oomKilled", False),
            error=value.get("error", ""),
            lost=value.get("lost", False),
            never=value.get("never", False),
            shared=value.get("shared", False),
        )

    @property
    def root(self) -> int:
        """The process below which all others of the container are, as far as they have parents."""
        return self.pid if self.shared else self.shim

    @property
    def running(self) -> bool:
        return self.phase == "running"

    @property
    def unmade(self) -> bool:
        """No program was tried: this attempt never was, and can be made again.

        Its surroundings could not be had (as the network, by a descriptor of an agent that was
        killed meanwhile), or nobody began it.
        """
        return self.never or bool(self.error and not self.error.startswith("exec:"))


class Container:
    """A started container. ``state`` is what was last known; ``wait`` keeps it current."""

    def __init__(
        self,
        folder: Path,
        spec: Mapping[str, Any],
        state: State,
        *,
        news: int = -1,
        nursery: Nursery | None = None,
    ) -> None:
        """``news`` is a descriptor: its end, or the final state on it, is the container's end."""
        self.folder = folder
        self.id: str = spec["id"]
        self.spec = spec
        self.labels: Mapping[str, str] = spec.get("labels", {})
        self.state = state
        self._ended: asyncio.Future[None] | None = None
        self._nursery = nursery
        self._news = news
        self._heard = b""
        if state.running:
            self._follow()
        else:
            self.release()

    # -- its end -----------------------------------------------------------------------------

    def _follow(self) -> None:
        loop = asyncio.get_running_loop()
        self._ended = loop.create_future()
        try:
            if self._news < 0:
                self._news = _wait_at(self.folder)
        except OSError:
            self._over()
            return
        loop.add_reader(self._news, self._hear)

    def _hear(self) -> None:
        try:
            data = os.read(self._news, 1 << 16)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        self._heard += data
        if not data:
            self._over()
        elif self.state.shared and self._heard.endswith(b"\n"):
            self._over(State.from_dict(json.loads(self._heard)))

    def _over(self, state: State | None = None) -> None:
        self.release()
        state = state or _read_state(self.folder)
        if state is None or state.running:
            state = self._reported_end() or _bury(self.folder, state)
        self.state = state
        if self._ended and not self._ended.done():
            self._ended.set_result(None)

    def _reported_end(self) -> State | None:
        """The end as it was reported, where there was no room to write it down."""
        if not self._heard.endswith(b"}\n"):
            return None
        state = State.from_dict(json.loads(self._heard))
        return None if state.running else state

    def release(self) -> None:
        """Stop watching; the container goes on."""
        if self._news >= 0:
            asyncio.get_running_loop().remove_reader(self._news)
            os.close(self._news)
            self._news = -1

    async def wait(self) -> State:
        """Return when nothing of the container runs any more."""
        if self._ended is not None:
            await asyncio.shield(self._ended)
        return self.state

    # -- talking to it -----------------------------------------------------------------------

    async def _ask(self, request: Mapping[str, Any]) -> Streams:
        home = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            path = f"/proc/self/fd/{home}/control"
            reader, writer = await asyncio.open_unix_connection(path, limit=LIMIT)
        except OSError as err:
            raise ContainerError("the container is not running") from err
        finally:
            os.close(home)
        writer.write(json.dumps(request).encode() + b"\n")
        return Streams(reader, writer)

    async def exec(
        self, argv: Sequence[str], *, stdin: bool = False, tty: bool = False, cwd: str = ""
    ) -> Streams:
        """Run a command beside the main process. Raises ContainerError."""
        places = json.loads((self.spec.get("env") or {}).get(MOUNTS) or "{}")
        if places and not self.spec.get("unshare"):
            argv = [rewrite(word, places) for word in argv]
        request = {"op": "exec", "argv": list(argv), "stdin": stdin, "tty": tty, "cwd": cwd}
        return await self._ask(request)

    async def attach(self, *, stdin: bool = False) -> Streams:
        """Join the main process's streams, from now on. Raises ContainerError."""
        return await self._ask({"op": "attach", "stdin": stdin})

    async def signal(self, number: int) -> None:
        """Send a signal to the main process; nothing happens if it has ended."""
        if (
            self._nursery is not None
            and self.state.shared
            and self._nursery.signal(self.folder, number)
        ):
            return
        try:
            streams = await self._ask({"op": "signal", "signal": int(number)})
        except ContainerError:
            return
        try:
            with suppress(ContainerError):
                await streams.read()
        finally:
            await streams.close()

    async def kill(self) -> State:
        """End it at once, whole, and wait for that."""
        while self.state.running:
            await self.signal(signal.SIGKILL)
            try:
                async with asyncio.timeout(2.0):
                    await self.wait()
            except TimeoutError:
                # a shim that does not answer: without it its main process dies as well; one of
                # many containers has not even taken note of an end, so that the number is right
                with suppress(ProcessLookupError):
                    os.kill(self.state.root, signal.SIGKILL)
        return self.state

    def remove(self) -> None:
        """Forget an ended container. Raises ContainerError when it still runs."""
        if self.state.running:
            raise ContainerError(f"container {self.id} is running")
        shutil.rmtree(self.folder, ignore_errors=True)


class Engine:
    """The containers of one agent: everything under ``root``."""

    def __init__(self, root: Path, *, python: str = sys.executable) -> None:
        self._root = root
        self._keeper = Nursery(root, python, shared=True)
        self._forker = Nursery(root, python, shared=False)
        root.mkdir(parents=True, exist_ok=True, mode=0o700)

    def warm(self, *, shared: bool = False) -> None:
        """Have the process that starts containers ready, so that the first is not late.

        Raises ContainerError.
        """
        (self._keeper if shared else self._forker).warm()

    def close(self) -> None:
        """Let go of everything; containers run on."""
        self._keeper.close()
        self._forker.close()

    async def start(self, spec: ContainerSpec) -> Container:
        """Run a container; its ``state`` says whether it started.

        Raises ContainerError when there is one of this name, or no shim could be had.
        """
        folder = self._root / spec.id
        try:
            folder.mkdir(mode=0o700)
        except FileExistsError:
            raise ContainerError(f"container {spec.id} exists") from None
        content = spec.to_dict()
        content["env"][MARKER] = str(folder)
        try:
            (folder / "spec.json").write_bytes(json.dumps(content).encode())
        except OSError:  # no room: the next attempt must find the name free
            shutil.rmtree(folder, ignore_errors=True)
            raise
        nursery = self._keeper if can_share(content) else self._forker
        report, news = await nursery.start(folder)
        first, _, last = report.partition(b"\n")
        state = await _started(folder, last.strip() or first)
        return Container(folder, content, state, news=news, nursery=nursery)

    async def adopt(self) -> list[Container]:
        """Every container of earlier agents: those that run, and those that ended meanwhile."""
        found: list[Container] = []
        for folder in sorted(self._root.iterdir()):
            try:
                spec = json.loads((folder / "spec.json").read_bytes())
            except (OSError, ValueError):
                # the agent died before it had said what to run, so nothing ran
                shutil.rmtree(folder, ignore_errors=True)
                continue
            state = await _settled(folder)
            if state is None:
                state = _bury(folder, _read_state(folder))
            found.append(Container(folder, spec, state))
        return found


def _wait_at(folder: Path) -> int:
    """A connection to the shim of a container that ends with it. Raises OSError."""
    home = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.connect(f"/proc/self/fd/{home}/control")
            connection.sendall(b'{"op": "wait"}\n')
            connection.setblocking(False)
            return connection.detach()
    finally:
        os.close(home)


async def _started(folder: Path, report: bytes) -> State:
    """The state that was reported; where nothing was, the one that is true."""
    if report:
        return State.from_dict(json.loads(report))
    state = await _settled(folder)
    return state if state is not None else _bury(folder, None)


async def _settled(folder: Path) -> State | None:
    """The state of a folder once nobody is about to change it; None when its shim is lost."""
    if _claim(folder):
        return _never(folder)
    deadline = time.monotonic() + START_TIMEOUT
    while time.monotonic() < deadline:
        alive = _is_locked(folder)
        state = _read_state(folder)
        if state is not None and (alive or not state.running):
            return state
        if not alive:
            return None
        await asyncio.sleep(0.005)
    return None


def _claim(folder: Path) -> bool:
    """Decide about a container that no shim has claimed: none ever will."""
    try:
        os.close(os.open(folder / "claim", os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        return False
    return True


def _is_locked(folder: Path) -> bool:
    """Whether the shim lives: it holds the lock to its last breath."""
    with open(folder / "claim", "rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def _read_state(folder: Path) -> State | None:
    try:
        return State.from_dict(json.loads((folder / "state.json").read_bytes()))
    except (OSError, ValueError):
        return None


def _write_state(folder: Path, value: Mapping[str, Any]) -> State:
    new = folder / "state.json.new"
    with suppress(OSError):
        new.write_bytes(json.dumps(value).encode())
        new.rename(folder / "state.json")
    return State.from_dict(value)


def _never(folder: Path) -> State:
    now = time.time_ns()
    why = "the agent stopped before the container was started"
    value = {
        "phase": "exited",
        "never": True,
        "error": why,
        "exitCode": 128,
        "startedAt": now,
        "finishedAt": now,
    }
    return _write_state(folder, value)


def _bury(folder: Path, last: State | None) -> State:
    """The shim was killed: see that nothing of the container is left, and write that down."""
    sweep(folder, last.pid if last else 0)
    value = {
        "phase": "exited",
        "lost": True,
        "exitCode": 137,
        "signal": 9,
        "startedAt": last.started_at if last else 0,
        "finishedAt": time.time_ns(),
    }
    return _write_state(folder, value)


def sweep(folder: Path, pid: int = 0) -> None:
    """Kill every process that carries the container's marker in its environment.

    A process that is being killed has no environment any more and still holds its files: those
    that were seen, and the container's own, are waited for.
    """
    marker = f"{MARKER}={folder}".encode()
    seen = {pid} - {0}
    for _ in range(200):
        found = {pid for pid in _pids() if marker in _environ(pid).split(b"\0")}
        seen |= found
        if not found and not any(_ending(pid) for pid in seen):
            return
        for pid in found:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.005)


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _ending(pid: int) -> bool:
    """Whether a process is on its way out: it has given up its memory and is no zombie yet."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX" and not _environ(pid)


def _environ(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""  # ended, or not ours
