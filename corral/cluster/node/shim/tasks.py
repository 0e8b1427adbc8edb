"""Processes of a container with their pipes or terminal: the main one, and commands run inside."""

from __future__ import annotations

import errno
import fcntl
import os
import select
import signal
import struct
import subprocess
import termios
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress

from corral.cluster.node.shim import births, kernel
from corral.cluster.node.shim.births import Plan, Report
from corral.cluster.node.shim.wire import STDERR, STDOUT

PATIENCE = 15.0
"""Seconds for each part of a start: the shim waits, and with it all of its other containers."""
_MOST_FOLDERS = 1000
_MOST_WORDS = 1 << 14
"""Bytes that a child says of itself: a pipe that nobody reads yet holds them."""
_TIOCSPTLCK = 0x40045431
_TIOCGPTPEER = 0x5441


class StartError(Exception):
    """The program could not be started; the words are for people."""


class Task:
    """A started process and this side of its streams; descriptors do not block."""

    def __init__(self, pid: int, stdin: int, outputs: dict[int, int], *, tty: bool) -> None:
        self.pid = pid
        self.tty = tty
        self.stdin = stdin
        """Where input goes; -1 when there is none any more. A terminal: the same as output."""
        self.outputs = outputs
        """Descriptor → stream number."""
        self.pending = bytearray()
        """Input that the process has not taken yet."""
        self.closing = False
        """Close the input once ``pending`` is empty."""
        self.left: dict[int, int] = {}
        """Descriptor → bytes that may still be read from it, now that the process has ended."""
        self.code: int | None = None
        self.signal = 0
        self.problem = ""
        """Why it never became its program, in words."""
        self.told = -1
        """Where it says that, as long as nobody knows whether it has."""
        self.explain: Callable[[bytes], str] = _words
        """What it says, in words."""

    def resize(self, columns: int, rows: int) -> None:
        if self.tty and self.outputs:
            size = struct.pack("HHHH", rows, columns, 0, 0)
            fcntl.ioctl(next(iter(self.outputs)), termios.TIOCSWINSZ, size)

    def ended(self, status: int) -> None:
        """Take the status that waitpid gave."""
        if self.told >= 0:
            with suppress(BlockingIOError):
                self.problem = self.explain(os.read(self.told, _MOST_WORDS))
            os.close(self.told)
            self.told = -1
        self.signal = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        self.code = 128 + self.signal if self.signal else os.WEXITSTATUS(status)


def spawn(
    argv: list[str],
    env: dict[str, str],
    *,
    settle: Callable[[], None],
    plan: Plan | None = None,
    stdin: bool = False,
    tty: bool = False,
    terminals: int = -1,
    wait: bool = True,
) -> Task:
    """Start a process in a session of its own, which dies with us. Raises StartError.

    ``terminals`` is the folder of terminals that it sees, if not ours. ``settle`` runs in the
    child, last thing before it becomes the program; with a ``plan`` the child does that instead, in
    which case it needs no copy of this process. ``wait`` until it has; without, its ``problem``
    is known at its end: where others of the container run, they can stop it before it has begun.
    """
    theirs, task = _terminal(terminals) if tty else _pipes(stdin=stdin)
    told, tell = os.pipe()
    shim = os.getpid()
    try:
        if plan is not None:
            pid = _start(argv, env, plan, task, streams=theirs, tell=tell)
        else:
            pid = os.fork()
            if pid == 0:
                _become(argv, env, theirs, settle=settle, tty=tty, tell=tell, shim=shim)
    except BaseException as err:
        for fd in {told, task.stdin, *task.outputs} - {-1}:
            os.close(fd)
        if isinstance(err, ValueError):
            raise StartError(repr(err)) from err
        raise
    finally:
        for fd in {*theirs, tell}:
            os.close(fd)
    task.pid = pid
    if not wait:
        task.told = told
        os.set_blocking(told, False)
    elif problem := _heard(told, pid):
        os.waitpid(pid, 0)
        for fd in {task.stdin, *task.outputs} - {-1}:
            os.close(fd)
        raise StartError(task.explain(problem))
    for fd in {task.stdin, *task.outputs} - {-1}:
        os.set_blocking(fd, False)
    return task


def _words(said: bytes) -> str:
    return said.decode(errors="replace")


def _start(
    argv: list[str],
    env: dict[str, str],
    plan: Plan,
    task: Task,
    *,
    streams: list[int],
    tell: int,
) -> int:
    """The child of a plan."""
    program, folders = argv[0], _folders(env)
    paths = [program] if "/" in program else [os.path.join(folder, program) for folder in folders]

    def explain(said: bytes) -> str:
        report = Report.read(said)
        if report is None:
            return _words(said)
        problem = report.problem(paths, plan.folder)
        return _because(program, problem, found=report.has_program, usable=report.can_execute)

    if len(folders) > _MOST_FOLDERS:
        err = OSError(errno.E2BIG, f"PATH has more than {_MOST_FOLDERS} folders")
        raise StartError(_because(program, err, found=True, usable=True))
    task.explain = explain
    return births.start(paths, argv, env, plan, streams=streams, tell=tell, tty=task.tty)


def _folders(env: dict[str, str]) -> list[str]:
    """Where a program is looked for that is named without a folder."""
    return env.get("PATH", os.defpath).split(os.pathsep)


def _heard(told: int, pid: int) -> bytes:
    """What a child says of why it cannot become its program; nothing when it has."""
    with os.fdopen(told, "rb") as file:
        poll = select.poll()
        poll.register(file, select.POLLIN)
        if poll.poll(PATIENCE * 1000):
            return file.read()
    os.kill(pid, signal.SIGKILL)
    return b"the program was not begun in time"


def launch(
    argv: list[str],
    env: dict[str, str],
    *,
    cwd: str,
    joined: AbstractContextManager[None],
    stdin: bool = False,
) -> Task:
    """The same where nothing is to be done in the child: without a copy of this process.

    A copy costs more than all the rest of a container's start. ``joined`` is entered around the
    birth of the process, which inherits the control groups we are in then. Raises StartError.

    The process does not die with us by itself: whoever finds us dead ends what carries the
    container's marker.
    """
    theirs, task = _pipes(stdin=stdin)
    try:
        with joined:
            process = subprocess.Popen(
                argv,
                env=env,
                cwd=cwd,
                stdin=theirs[0],
                stdout=theirs[1],
                stderr=theirs[2],
                start_new_session=True,
                close_fds=False,  # none of ours can be inherited, and there may be thousands
            )
    except (OSError, ValueError) as err:
        for fd in {task.stdin, *task.outputs} - {-1}:
            os.close(fd)
        words = _why(argv[0], err, env) if isinstance(err, OSError) else str(err)
        raise StartError(words) from err
    finally:
        for fd in theirs:
            os.close(fd)
    process.returncode = 0  # it is ours to wait for, not this object's
    task.pid = process.pid
    for fd in {task.stdin, *task.outputs} - {-1}:
        os.set_blocking(fd, False)
    return task


def _pipes(*, stdin: bool) -> tuple[list[int], Task]:
    out_r, out_w = os.pipe()
    err_r, err_w = os.pipe()
    in_r, in_w = os.pipe() if stdin else (os.open(os.devnull, os.O_RDONLY), -1)
    return [in_r, out_w, err_w], Task(0, in_w, {out_r: STDOUT, err_r: STDERR}, tty=False)


def _terminal(folder: int) -> tuple[list[int], Task]:
    master, slave = os.openpty() if folder < 0 else _terminal_in(folder)
    return [slave, slave, slave], Task(0, master, {master: STDOUT}, tty=True)


def _terminal_in(folder: int) -> tuple[int, int]:
    """A new terminal of a container, whose name means something there."""
    flags = os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC
    master = os.open("ptmx", flags, dir_fd=folder)
    fcntl.ioctl(master, _TIOCSPTLCK, struct.pack("i", 0))
    slave = fcntl.ioctl(master, _TIOCGPTPEER, flags)
    os.fchmod(slave, 0o666)  # whoever the container runs as; it sees no terminals but its own
    return master, slave


def _become(
    argv: list[str],
    env: dict[str, str],
    streams: list[int],
    *,
    settle: Callable[[], None],
    tty: bool,
    tell: int,
    shim: int,
) -> None:
    """In the child; never returns."""
    try:
        os.setsid()
        for number, fd in enumerate(streams):
            os.dup2(fd, number)
        if tty:
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        signal.set_wakeup_fd(-1)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        settle()
        # last, for a change of user takes it back; and nobody tells of a parent already dead
        kernel.die_with_parent(signal.SIGKILL)
        if os.getppid() not in (shim, 0):  # 0: it is not in this process namespace
            os._exit(1)
        if env.get("PATH", "").count(os.pathsep) >= _MOST_FOLDERS:
            raise OSError(errno.E2BIG, f"PATH has more than {_MOST_FOLDERS} folders")
        os.execvpe(argv[0], argv, env)
    except OSError as err:
        os.write(tell, _why(argv[0], err, env).encode()[:_MOST_WORDS])
    except BaseException as err:
        os.write(tell, repr(err).encode()[:_MOST_WORDS])
    finally:
        os._exit(127)


def _why(program: str, err: OSError, env: dict[str, str]) -> str:
    """Why it could not become the program, where it was to."""
    # a folder of PATH that may not be looked into has no program for us
    found = any(os.path.exists(os.path.join(folder, program)) for folder in _folders(env))
    usable = err.filename is not None and os.access(str(err.filename), os.X_OK)
    return _because(program, err, found=found, usable=usable)


def _because(program: str, err: OSError, *, found: bool, usable: bool) -> str:
    """In the words people know from container runtimes."""
    if "/" not in program and err.errno != errno.E2BIG and not found:
        return f'exec: "{program}": executable file not found in $PATH'
    if err.errno == errno.ENOENT and program in (err.filename, None):
        return f'exec: "{program}": stat {program}: no such file or directory'
    if err.filename not in (None, program) and not usable:
        return f'exec: "{program}": {err.filename}: {(err.strerror or str(err)).lower()}'
    return f'exec: "{program}": {(err.strerror or str(err)).lower()}'


def descendants(root: int) -> set[int]:
    """Every living process below ``root``."""
    found: set[int] = set()
    front = [root]
    while front:
        try:
            children = _children(front.pop())
        except LookupError:
            return _descendants_by_parent(root)
        for child in children:
            if child not in found:
                found.add(child)
                front.append(child)
    return found


def _children(pid: int) -> list[int]:
    """Of all its threads. Raises LookupError where the kernel keeps no lists of children."""
    result: list[int] = []
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return result  # it ended while we looked, and its children are the shim's
    for thread in threads:
        try:
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                result += map(int, file.read().split())
        except OSError as err:
            if not os.path.exists(f"/proc/{os.getpid()}/task/{os.getpid()}/children"):
                raise LookupError("no lists of children") from err
    return result


def _descendants_by_parent(root: int) -> set[int]:
    """The same from the parents of all processes of the machine."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    fields = file.read().rpartition(b")")[2].split()
            except OSError:
                continue  # it ended while we looked
            children.setdefault(int(fields[1]), []).append(int(name))
    found: set[int] = set()
    front: list[int] = [root]
    while front:
        for child in children.get(front.pop(), ()):
            found.add(child)
            front.append(child)
    return found
