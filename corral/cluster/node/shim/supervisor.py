"""One container: its process is started, stood by, and how it ended is written down.

The folder holds ``spec.json`` (what to run; written by the agent), ``claim`` (created by whoever
may decide about the container first, and locked by its supervisor for as long as that lives),
``control`` (its socket) and ``state.json``.

Whoever asked for the container hears on a pipe, a line of JSON each: that it has started, and how
it ended; when the pipe closes before that, the supervisor is dead.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
import time
from contextlib import nullcontext, suppress
from typing import Any, Protocol

from corral.cluster.node.shim import confinement, kernel, privileges
from corral.cluster.node.shim.cells import Cell
from corral.cluster.node.shim.confinement import Surroundings
from corral.cluster.node.shim.journal import Journal
from corral.cluster.node.shim.loop import ERROR, READ, WRITE, Loop
from corral.cluster.node.shim.tasks import StartError, Task, descendants, launch, spawn
from corral.cluster.node.shim.wire import (
    CHUNK,
    EXIT,
    LIMIT,
    RESIZE,
    SIZE,
    STDERR,
    STDIN,
    STDOUT,
    frame,
    take_frames,
)  # fmt: skip

_MOST_LEFT = 1 << 20
"""Bytes that a process can leave in a pipe: ordinary users cannot make them larger."""
_FAREWELL = 2.0
"""Seconds that clients have to read what is meant for them after the end, and to leave."""


class Company(Protocol):
    """What a supervisor needs of the process it is in."""

    loop: Loop

    def born(self, pid: int, supervisor: Supervisor) -> None:
        """A child of this process belongs to the supervisor: it hears of its end."""

    def relatives(self, supervisor: Supervisor) -> set[int]:
        """Every living process of the container."""

    def over(self, supervisor: Supervisor) -> None:
        """Its end has begun: `Supervisor.end` is to be called until it is closed."""


def claim(folder: str) -> tuple[int, int] | None:
    """The folder, open, and the lock that says who decides about it; None if it is another's."""
    try:
        home = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return None
    mine = f"claim.{os.getpid()}"
    lock = -1
    try:
        # locked before it has its name: a claim that is not locked is that of a dead supervisor
        lock = os.open(mine, os.O_CREAT | os.O_RDWR, 0o600, dir_fd=home)
        fcntl.flock(lock, fcntl.LOCK_EX)
        os.link(mine, "claim", src_dir_fd=home, dst_dir_fd=home)
    except OSError:
        for fd in {home, lock} - {-1}:
            os.close(fd)
        return None
    with suppress(OSError):
        os.unlink(mine, dir_fd=home)
    return home, lock


class Peer:
    """One client of the control socket."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.fd = connection.fileno()
        self.inbox = bytearray()
        self.outbox = bytearray()
        self.task: Task | None = None
        self.mine = False
        """The task was started for this peer and goes with it."""
        self.wants = {STDOUT, STDERR}
        self.feeds = False
        self.leaving = False
        """Close once the outbox is empty."""


class Supervisor:
    """One container. Nothing here waits: all is done when an event says so."""

    def __init__(
        self, folder: str, fds: tuple[int, int], ready: int, company: Company, around: Surroundings
    ) -> None:
        """``fds`` is what `claim` gave, ``ready`` the pipe on which the container is reported."""
        self.folder = folder
        self._home, self._lock = fds
        self._ready = ready
        self._company = company
        self._loop = company.loop
        self._around = around
        with open(os.open("spec.json", os.O_RDONLY, dir_fd=self._home), "rb") as file:
            self.spec: dict[str, Any] = json.load(file)
        self._cell: Cell | None = None
        self._state: dict[str, Any] = {"shim": os.getpid(), "pid": 0}
        if around.shared:
            self._state["shared"] = True
        self._tasks: dict[int, Task] = {}
        self._owner: dict[int, Task] = {}
        self._peers: dict[int, Peer] = {}
        self._main: Task | None = None
        self._journal: Journal | None = None
        self._listener: socket.socket | None = None
        self._stop = False
        """The main process is gone, and the rest is going."""
        self._deadline: float | None = None
        """Set when the container is over, and only clients are to be seen off."""
        self.closed = False
        self._namespace = 0
        self._condemned: set[int] = set()

    @property
    def main_pid(self) -> int:
        return self._main.pid if self._main else 0

    # -- from beginning to end ---------------------------------------------------------------

    def start(self) -> None:
        """Start it and report that; a container that cannot be started is over at once."""
        try:
            self._listen()
            self._start()
        except (StartError, OSError) as err:
            self._fail(str(err))
            return
        self._say(self._state)

    def _start(self) -> None:
        if path := self.spec.get("log"):
            rotation = {k: v for k, v in self.spec.get("rotation", {}).items() if v}
            self._journal = Journal(path, **rotation)
        argv = self.spec["argv"]
        privileges.prepare(self.spec.get("privileges") or {})
        self._cell = self._around.made(self.spec, self.folder)
        if self._cell is not None:
            self._company.born(self._cell.pid, self)
            self._namespace = self._cell.mounts
        self._state["startedAt"] = time.time_ns()
        tty = self.spec.get("tty", False)
        self._main = self._spawn(argv, stdin=self.spec.get("stdin", False), tty=tty)
        self._state["pid"] = self._main.pid
        self._write_state(phase="running")

    def _say(self, what: dict[str, Any]) -> None:
        with suppress(OSError):  # the agent may be gone: it will find the state
            os.write(self._ready, json.dumps(what).encode() + b"\n")

    def _fail(self, why: str) -> None:
        if self._cell is not None:
            os.kill(self._cell.pid, signal.SIGKILL)
        if self._main is not None:  # all that failed is to write down that it runs
            with suppress(ProcessLookupError):
                os.kill(self._main.pid, signal.SIGKILL)
        self._state |= {"error": why, "exitCode": 128, "signal": 0, "oomKilled": False}
        self._state.setdefault("startedAt", time.time_ns())
        self._state["finishedAt"] = time.time_ns()
        self._begin_end()
        self._let_go_of_output()
        self._conclude()

    def end(self) -> None:
        """See that all that is left of the container goes, before anybody hears of its end.

        To be called again until `closed`: orphans are this process's children then, and take their
        time to die.
        """
        if self._deadline is None:
            relatives = self._company.relatives(self)
            self._condemned |= relatives
            for pid in relatives:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if relatives:
                return
            self._finish()
        elif not self.closed and (self._all_left() or time.monotonic() > self._deadline):
            self._close()

    def _let_go_of_output(self) -> None:
        for task in list(self._tasks.values()):
            self._drain(task)
        if self._journal:
            self._journal.close()
            self._journal = None

    def _finish(self) -> None:
        self._let_go_of_output()
        main = self._main
        code = main.code if main and main.code is not None else 0
        self._state |= {
            "exitCode": code,
            "signal": main.signal if main else 0,
            "oomKilled": code != 0 and confinement.oom_kills(self.spec) > 0,
            "finishedAt": time.time_ns(),
        }
        self._conclude()

    def _conclude(self) -> None:
        """Who hears of the end finds nobody to talk to; and who finds nobody finds the end."""
        with suppress(OSError):  # no room: the end is told on the pipe too, and others go on
            self._write_state(phase="exited")
        if self._listener is not None:
            self._loop.forget(self._listener.fileno())
            self._listener.close()
            with suppress(OSError):
                os.unlink("control", dir_fd=self._home)
        self._deadline = time.monotonic() + _FAREWELL
        for peer in list(self._peers.values()):
            ended = peer.task.code if peer.task and peer.task.code is not None else 137
            self._say_exit(peer, {"exitCode": ended})
        self._say(self._state)
        if self._all_left():
            self._close()

    def _all_left(self) -> bool:
        """Whether nobody is there any more who could miss something.

        Who gives input must leave first: a client that writes to a closed connection learns of
        that before it reads what it was told.
        """
        return not any(peer.outbox or peer.task for peer in self._peers.values())

    def _close(self) -> None:
        """Let go of everything; the lock last."""
        if self._journal:
            self._journal.close()
        for peer in list(self._peers.values()):
            self._loop.forget(peer.fd)
            peer.connection.close()
        self._peers.clear()
        self.closed = True
        if self._cell is not None:
            self._cell.close()
        if self._around.shared:  # else they go with the process, which nobody must miss
            for fd in (self._ready, self._home, self._lock):
                os.close(fd)

    def terminate(self) -> None:
        """The container ends, for good."""
        self.signal(signal.SIGKILL)

    def _begin_end(self) -> None:
        if not self._stop:
            self._stop = True
            self._company.over(self)

    def owns(self, pid: int) -> bool:
        """Whether a process that came from anywhere is one of this container's."""
        if pid in self._condemned:
            return True  # one that is about to be gone is nowhere any more
        try:
            if os.stat(kernel.namespace_path("mount", pid)).st_ino == self._namespace:
                return True
            with open(f"/proc/{pid}/cgroup") as file:
                name = f"/{self.spec['id']}"
                return any(line.rstrip("\n").endswith(name) for line in file)
        except OSError:
            return False  # it has ended

    def gone(self, pid: int, status: int) -> None:
        """One of its processes has ended."""
        task = self._tasks.get(pid)
        if task is None:
            return
        task.ended(status)
        if task is self._main:
            self._begin_end()
        self._settle_command(task)

    def _settle_command(self, task: Task) -> None:
        """Tell who asked for the command, once all it wrote is on its way.

        To be called whenever the command has ended, written, or its reader has caught up.
        """
        if task is self._main or task.code is None or not self._drain(task):
            return
        self._tasks.pop(task.pid, None)
        how = {"error": task.problem} if task.problem else {"exitCode": task.code}
        for peer in list(self._peers.values()):
            if peer.task is task:
                self._say_exit(peer, how)

    # -- processes ---------------------------------------------------------------------------

    def _spawn(
        self, argv: list[str], *, stdin: bool, tty: bool, request: dict[str, Any] | None = None
    ) -> Task:
        spec = self.spec | (request or {})
        env = self.spec.get("env", {}) | ({"TERM": "xterm"} if tty else {})
        cell = self._cell
        with confinement.opened_groups(spec) as groups:
            if cell is not None or tty or confinement.changes_user(spec):
                with nullcontext() if cell is None else cell.births():
                    task = spawn(
                        argv,
                        env,
                        settle=lambda: confinement.settle(spec, groups, cell),
                        plan=self._around.plan(spec, groups, cell),
                        stdin=stdin,
                        tty=tty,
                        terminals=-1 if cell is None else cell.terminals,
                        wait=request is None,
                    )
            else:
                joined = confinement.joined(spec, groups)
                task = launch(argv, env, cwd=spec.get("cwd") or "/", joined=joined, stdin=stdin)
        self._tasks[task.pid] = task
        self._company.born(task.pid, self)
        for fd in task.outputs:
            self._owner[fd] = task
            self._loop.watch(fd, lambda _, fd=fd: self._readable(fd))  # type: ignore[misc]
        return task

    def _readable(self, fd: int) -> None:
        task = self._owner[fd]
        self._pump(task, fd)
        self._settle_command(task)

    def _pump(self, task: Task, fd: int) -> bool:
        """Carry one piece of output on. False when there is none now."""
        try:
            data = os.read(fd, CHUNK)
        except BlockingIOError:
            return False
        except OSError:
            data = b""  # the other end of a terminal is closed
        if not data:
            self._close_output(task, fd)
            return False
        if fd in task.left:
            task.left[fd] -= len(data)
        number = task.outputs[fd]
        if task is self._main and self._journal:
            self._journal.write("stdout" if number == STDOUT else "stderr", data)
        full = False
        for peer in self._peers.values():
            if peer.task is task and number in peer.wants and not peer.leaving:
                self._send(peer, frame(number, data))
                full = full or len(peer.outbox) > LIMIT
        if full and not self._stop:
            self._loop.change(fd, 0)  # until the slowest reader has caught up
        return not full

    def _drain(self, task: Task) -> bool:
        """Read what a dead process left behind. False when its reader must catch up first.

        That is no more than a pipe holds: others who have its end of it may write for ever.
        """
        for fd in list(task.outputs):
            task.left.setdefault(fd, _MOST_LEFT)
            while task.left[fd] > 0 and self._pump(task, fd):
                pass
        slow = any(p.task is task and len(p.outbox) > LIMIT for p in self._peers.values())
        if slow and not self._stop:
            return False
        for fd in list(task.outputs):
            self._close_output(task, fd)
        return True

    def _close_output(self, task: Task, fd: int) -> None:
        self._loop.forget(fd)
        self._owner.pop(fd, None)
        task.outputs.pop(fd, None)
        if task.tty and task.stdin == fd:
            task.stdin = -1
        os.close(fd)

    # -- input -------------------------------------------------------------------------------

    def _feed(self, task: Task) -> None:
        """Give the process as much of its input as it takes."""
        if task.stdin < 0:
            task.pending.clear()
            return
        try:
            while task.pending:
                del task.pending[: os.write(task.stdin, task.pending[:CHUNK])]
        except BlockingIOError:
            self._await_room(task)
            return
        except OSError:
            task.pending.clear()  # it reads no more
            task.closing = True
        if not task.tty:
            self._loop.forget(task.stdin)
            if task.closing:
                os.close(task.stdin)
                task.stdin = -1
        else:
            self._loop.change(task.stdin, READ)

    def _await_room(self, task: Task) -> None:
        if task.tty:
            fd = task.stdin
            self._loop.watch(fd, lambda event: self._terminal_event(task, fd, event), READ | WRITE)
        elif task.stdin not in self._loop:
            events = WRITE | ERROR
            self._loop.watch(task.stdin, lambda _: self._fed(task), events)

    def _terminal_event(self, task: Task, fd: int, event: int) -> None:
        if event & WRITE:
            self._fed(task)
        if event & READ and fd in self._owner:
            self._readable(fd)

    def _fed(self, task: Task) -> None:
        self._feed(task)
        if len(task.pending) <= LIMIT:
            for peer in self._peers.values():
                if peer.task is task:
                    self._interest(peer)

    # -- the control socket --------------------------------------------------------------------

    def _listen(self) -> None:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with suppress(FileNotFoundError):
            os.unlink("control", dir_fd=self._home)
        # the short way in: a socket's whole name must fit in 108 bytes
        listener.bind(f"/proc/self/fd/{self._home}/control")
        listener.listen(64)
        listener.setblocking(False)
        self._listener = listener
        self._loop.watch(listener.fileno(), lambda _: self._accept(listener))

    def _accept(self, listener: socket.socket) -> None:
        with suppress(OSError):
            connection, _ = listener.accept()
            connection.setblocking(False)
            peer = Peer(connection)
            self._peers[peer.fd] = peer
            self._loop.watch(peer.fd, lambda event: self._peer_event(peer, event))

    def _peer_event(self, peer: Peer, event: int) -> None:
        if event & WRITE:
            self._flush(peer)
            if peer.task is not None:
                self._settle_command(peer.task)  # all it wrote may have been waiting here
        if peer.fd not in self._peers or not event & READ:
            return
        try:
            data = peer.connection.recv(CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._drop(peer)
            return
        peer.inbox += data
        if peer.task is None:
            line, found, rest = peer.inbox.partition(b"\n")
            if not found:
                return
            peer.inbox = bytearray(rest)
            try:
                request = json.loads(bytes(line))
            except ValueError:
                self._drop(peer)
                return
            self._ask(peer, request)
        if peer.task is not None:
            self._frames(peer, peer.task)

    def _ask(self, peer: Peer, request: dict[str, Any]) -> None:
        main = self._main
        match request["op"]:
            case "signal":
                self.signal(request["signal"])
                self._say_exit(peer, {"exitCode": 0})
            case "wait":
                return  # it hears of the end, as everybody
            case "attach" if main is not None:
                peer.task, peer.feeds = main, request.get("stdin", False)
            case "exec" if not self._stop:
                self._exec(peer, request)
            case _:
                self._say_exit(peer, {"error": "the container is not running"})

    def signal(self, number: int) -> None:
        """Send a signal to the main process."""
        if self._main is not None and self._main.code is None:
            os.kill(self._main.pid, number)

    def _exec(self, peer: Peer, request: dict[str, Any]) -> None:
        stdin, tty = request.get("stdin", False), request.get("tty", False)
        extra = {key: request[key] for key in ("cwd",) if request.get(key)}
        try:  # not waited for, as all other containers would wait too
            peer.task = self._spawn(request["argv"], stdin=stdin, tty=tty, request=extra)
        except (StartError, OSError) as err:
            self._say_exit(peer, {"error": str(err)})
            return
        peer.mine, peer.feeds = True, stdin

    def _frames(self, peer: Peer, task: Task) -> None:
        for number, data in take_frames(peer.inbox):
            if number == RESIZE and len(data) == SIZE.size:
                task.resize(*SIZE.unpack(data))
            elif number == STDIN and peer.feeds and not task.closing:
                task.pending += data
                task.closing = not data and (peer.mine or self.spec.get("stdinOnce", False))
                self._feed(task)
        self._interest(peer)

    def _interest(self, peer: Peer) -> None:
        if peer.fd not in self._peers:
            return
        full = peer.task is not None and len(peer.task.pending) > LIMIT
        events = (0 if full else READ) | (WRITE if peer.outbox else 0)
        self._loop.change(peer.fd, events)

    def _send(self, peer: Peer, data: bytes) -> None:
        peer.outbox += data
        self._flush(peer)

    def _flush(self, peer: Peer) -> None:
        try:
            while peer.outbox:
                del peer.outbox[: peer.connection.send(peer.outbox[:LIMIT])]
        except BlockingIOError:
            pass
        except OSError:
            # whoever iterates over the peers finds it gone at the next event
            peer.outbox.clear()
            peer.leaving = True
        self._interest(peer)
        if peer.task and len(peer.outbox) <= LIMIT // 2:
            self._resume(peer.task)
        if peer.leaving and not peer.outbox:
            with suppress(OSError):
                peer.connection.shutdown(socket.SHUT_WR)

    def _resume(self, task: Task) -> None:
        """Read its output again."""
        for fd in task.outputs:
            if fd in self._loop and not (task.tty and task.pending):
                self._loop.change(fd, READ)

    def _say_exit(self, peer: Peer, how: dict[str, Any]) -> None:
        if peer.leaving:
            return
        peer.leaving = True
        self._send(peer, frame(EXIT, json.dumps(how).encode()))

    def _drop(self, peer: Peer) -> None:
        """The client left: what was started for it goes too."""
        self._loop.forget(peer.fd)
        self._peers.pop(peer.fd, None)
        peer.connection.close()
        task = peer.task
        if task is None:
            return
        self._resume(task)  # it may have been waiting for this one
        if task.code is not None:
            self._settle_command(task)
        elif peer.mine:
            for pid in {task.pid, *descendants(task.pid)}:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        elif peer.feeds and self.spec.get("stdinOnce", False) and not task.closing:
            task.closing = True
            self._feed(task)

    # -- what stays --------------------------------------------------------------------------

    def _write_state(self, *, phase: str) -> None:
        self._state["phase"] = phase
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        fd = os.open("state.json.new", flags, 0o600, dir_fd=self._home)
        with os.fdopen(fd, "wb") as file:
            file.write(json.dumps(self._state).encode())
        os.rename("state.json.new", "state.json", src_dir_fd=self._home, dst_dir_fd=self._home)
