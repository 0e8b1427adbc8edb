"""The shim: starts the container's process, stands by it, and writes down how it ended.

The folder holds ``spec.json`` (what to run; written by the agent), ``claim`` (created by whoever
may decide about the container first, and locked by the shim for as long as it lives),
``control`` (its socket) and ``state.json``. A spec without ``argv`` is a sandbox: namespaces that
others join, held until it is told to go.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import signal
import socket
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from corral.cluster.node.shim import confinement, kernel
from corral.cluster.node.shim.journal import Journal
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

_READ = select.POLLIN | select.POLLHUP | select.POLLERR


def supervise(folder: str, ready: int) -> None:
    """Run the container in ``folder``; report on the descriptor ``ready`` when it has started."""
    kernel.become_subreaper()
    try:
        home = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        claim = os.open("claim", os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600, dir_fd=home)
    except OSError:
        return  # somebody else has decided about it, or the folder is gone
    fcntl.flock(claim, fcntl.LOCK_EX)
    try:
        Supervisor(folder, home, ready).run()
    except BaseException:
        # nobody reads our standard error; the agent reports the container as lost
        with open(os.open("crash.txt", os.O_CREAT | os.O_WRONLY, 0o600, dir_fd=home), "w") as file:
            file.write(traceback.format_exc())
        raise


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
    """One container. Everything happens in one loop over one poll object."""

    def __init__(self, folder: str, home: int, ready: int) -> None:
        self._folder = folder
        self._home = home
        self._ready = ready
        with open(os.open("spec.json", os.O_RDONLY, dir_fd=home), "rb") as file:
            self._spec: dict[str, Any] = json.load(file)
        self._state: dict[str, Any] = {"shim": os.getpid(), "pid": 0}
        self._poll = select.poll()
        self._handlers: dict[int, Callable[[int], None]] = {}
        self._tasks: dict[int, Task] = {}
        self._owner: dict[int, Task] = {}
        self._peers: dict[int, Peer] = {}
        self._main: Task | None = None
        self._journal: Journal | None = None
        self._groups: list[int] = []
        self._own_groups: list[int] = []
        self._stop = False

    # -- from beginning to end ---------------------------------------------------------------

    def run(self) -> None:
        try:
            self._listen()
            self._start()
        except (StartError, OSError) as err:
            self._fail(str(err))
            return
        self._report()
        while not self._stop:
            self._turn(None)
        self._finish()

    def _start(self) -> None:
        if path := self._spec.get("log"):
            rotation = {k: v for k, v in self._spec.get("rotation", {}).items() if v}
            self._journal = Journal(path, **rotation)
        self._groups = confinement.open_groups(self._spec)
        self._own_groups = confinement.own_groups(self._spec)
        confinement.prepare()
        wake, woken = os.pipe()
        for fd in (wake, woken):
            os.set_blocking(fd, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, lambda *_: self._terminate())
        signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
        self._watch(wake, lambda _: self._children(wake))
        confinement.enter(self._spec, self._folder)
        self._state["startedAt"] = time.time_ns()
        if argv := self._spec.get("argv"):
            tty = self._spec.get("tty", False)
            self._main = self._spawn(argv, stdin=self._spec.get("stdin", False), tty=tty)
            self._state["pid"] = self._main.pid
        self._write_state(phase="running")

    def _report(self) -> None:
        with suppress(OSError):  # the agent may be gone: it will find the state
            os.write(self._ready, json.dumps(self._state).encode())
        os.close(self._ready)

    def _fail(self, why: str) -> None:
        self._state |= {"error": why, "exitCode": 128, "signal": 0, "oomKilled": False}
        self._state.setdefault("startedAt", time.time_ns())
        self._state["finishedAt"] = time.time_ns()
        self._write_state(phase="exited")
        self._report()

    def _finish(self) -> None:
        """The main process is gone: so must be everything else, before anybody hears of it."""
        self._sweep()
        for task in list(self._tasks.values()):
            self._drain(task)
        if self._journal:
            self._journal.close()
        main = self._main
        code = main.code if main and main.code is not None else 0
        self._state |= {
            "exitCode": code,
            "signal": main.signal if main else 0,
            "oomKilled": code != 0 and confinement.oom_kills(self._spec) > 0,
            "finishedAt": time.time_ns(),
        }
        self._write_state(phase="exited")
        for peer in list(self._peers.values()):
            ended = peer.task.code if peer.task and peer.task.code is not None else 137
            self._say_exit(peer, {"exitCode": ended})
        deadline = time.monotonic() + 2.0
        while any(p.outbox for p in self._peers.values()) and time.monotonic() < deadline:
            self._turn(100)
        with suppress(OSError):
            os.unlink("control", dir_fd=self._home)

    def _sweep(self) -> None:
        """Kill until there is no child left; orphans have become ours."""
        while True:
            for pid in descendants(os.getpid()):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            try:
                while True:
                    pid, status = os.waitpid(-1, os.WNOHANG)
                    if pid == 0:
                        break
                    self._gone(pid, status)
            except ChildProcessError:
                return
            self._turn(2)

    def _terminate(self) -> None:
        """SIGTERM to the shim itself: the container ends, for good."""
        if self._main is None:
            self._stop = True
        elif self._main.code is None:
            os.kill(self._main.pid, signal.SIGKILL)

    # -- the loop ----------------------------------------------------------------------------

    def _turn(self, timeout: int | None) -> None:
        for fd, event in self._poll.poll(timeout):
            if handler := self._handlers.get(fd):
                handler(event)

    def _watch(self, fd: int, handler: Callable[[int], None], events: int = _READ) -> None:
        self._handlers[fd] = handler
        self._poll.register(fd, events)

    def _forget(self, fd: int) -> None:
        if self._handlers.pop(fd, None):
            self._poll.unregister(fd)

    def _children(self, wake: int) -> None:
        with suppress(BlockingIOError):
            os.read(wake, CHUNK)
        with suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                self._gone(pid, status)

    def _gone(self, pid: int, status: int) -> None:
        task = self._tasks.get(pid)
        if task is None:
            return  # an orphan that came to us
        task.ended(status)
        if task is self._main:
            self._stop = True
        else:
            self._settle_command(task)

    def _settle_command(self, task: Task) -> None:
        """Tell who asked for the command, once all it wrote is on its way."""
        if task.code is None or not self._drain(task):
            return
        self._tasks.pop(task.pid, None)
        for peer in list(self._peers.values()):
            if peer.task is task:
                self._say_exit(peer, {"exitCode": task.code})

    # -- processes ---------------------------------------------------------------------------

    def _spawn(
        self, argv: list[str], *, stdin: bool, tty: bool, request: dict[str, Any] | None = None
    ) -> Task:
        spec = self._spec | (request or {})
        env = self._spec.get("env", {}) | ({"TERM": "xterm"} if tty else {})
        if tty or confinement.changes_user(spec):
            task = spawn(
                argv,
                env,
                settle=lambda: confinement.settle(spec, self._groups),
                stdin=stdin,
                tty=tty,
            )
        else:
            joined = confinement.joined(self._groups, self._own_groups)
            task = launch(argv, env, cwd=spec.get("cwd") or "/", joined=joined, stdin=stdin)
        self._tasks[task.pid] = task
        for fd in task.outputs:
            self._owner[fd] = task
            self._watch(fd, lambda _, fd=fd: self._readable(fd))  # type: ignore[misc]
        return task

    def _readable(self, fd: int) -> None:
        task = self._owner[fd]
        self._pump(task, fd)
        if task.code is not None and task is not self._main:
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
        number = task.outputs[fd]
        if task is self._main and self._journal:
            self._journal.write("stdout" if number == STDOUT else "stderr", data)
        full = False
        for peer in self._peers.values():
            if peer.task is task and number in peer.wants and not peer.leaving:
                self._send(peer, frame(number, data))
                full = full or len(peer.outbox) > LIMIT
        if full and not self._stop:
            self._poll.modify(fd, 0)  # until the slowest reader has caught up
        return not full

    def _drain(self, task: Task) -> bool:
        """Read what a dead process left behind. False when its reader must catch up first."""
        for fd in list(task.outputs):
            while self._pump(task, fd):
                pass
        slow = any(p.task is task and len(p.outbox) > LIMIT for p in self._peers.values())
        if slow and not self._stop:
            return False
        for fd in list(task.outputs):
            self._close_output(task, fd)
        return True

    def _close_output(self, task: Task, fd: int) -> None:
        self._forget(fd)
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
            self._forget(task.stdin)
            if task.closing:
                os.close(task.stdin)
                task.stdin = -1
        else:
            self._poll.modify(task.stdin, _READ)

    def _await_room(self, task: Task) -> None:
        if task.tty:
            fd = task.stdin
            self._handlers[fd] = lambda event: self._terminal_event(task, fd, event)
            self._poll.modify(fd, _READ | select.POLLOUT)
        elif task.stdin not in self._handlers:
            events = select.POLLOUT | select.POLLERR
            self._watch(task.stdin, lambda _: self._fed(task), events)

    def _terminal_event(self, task: Task, fd: int, event: int) -> None:
        if event & select.POLLOUT:
            self._fed(task)
        if event & _READ and fd in self._owner:
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
        self._watch(listener.fileno(), lambda _: self._accept(listener))

    def _accept(self, listener: socket.socket) -> None:
        with suppress(OSError):
            connection, _ = listener.accept()
            connection.setblocking(False)
            peer = Peer(connection)
            self._peers[peer.fd] = peer
            self._watch(peer.fd, lambda event: self._peer_event(peer, event))

    def _peer_event(self, peer: Peer, event: int) -> None:
        if event & select.POLLOUT:
            self._flush(peer)
        if peer.fd not in self._peers or not event & _READ:
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
                if main and main.code is None:
                    os.kill(main.pid, request["signal"])
                elif main is None:
                    self._stop = True
                self._say_exit(peer, {"exitCode": 0})
            case "attach" if main is not None:
                peer.task, peer.feeds = main, request.get("stdin", False)
            case "exec" if not self._stop:
                self._exec(peer, request)
            case _:
                self._say_exit(peer, {"error": "the container is not running"})

    def _exec(self, peer: Peer, request: dict[str, Any]) -> None:
        stdin, tty = request.get("stdin", False), request.get("tty", False)
        extra = {key: request[key] for key in ("cwd",) if request.get(key)}
        try:
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
                task.closing = not data and (peer.mine or self._spec.get("stdinOnce", False))
                self._feed(task)
        self._interest(peer)

    def _interest(self, peer: Peer) -> None:
        if peer.fd not in self._peers:
            return
        full = peer.task is not None and len(peer.task.pending) > LIMIT
        events = (0 if full else _READ) | (select.POLLOUT if peer.outbox else 0)
        self._poll.modify(peer.fd, events)

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
        task = peer.task
        if task and len(peer.outbox) <= LIMIT // 2:
            for fd in task.outputs:
                if fd in self._handlers and not (task.tty and task.pending):
                    self._poll.modify(fd, _READ)
        if peer.leaving and not peer.outbox:
            with suppress(OSError):
                peer.connection.shutdown(socket.SHUT_WR)

    def _say_exit(self, peer: Peer, how: dict[str, Any]) -> None:
        if peer.leaving:
            return
        peer.leaving = True
        self._send(peer, frame(EXIT, json.dumps(how).encode()))

    def _drop(self, peer: Peer) -> None:
        """The client left: what was started for it goes too."""
        self._forget(peer.fd)
        self._peers.pop(peer.fd, None)
        peer.connection.close()
        task = peer.task
        if task is None or task.code is not None:
            return
        if peer.mine:
            for pid in {task.pid, *descendants(task.pid)}:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        elif peer.feeds and self._spec.get("stdinOnce", False) and not task.closing:
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
