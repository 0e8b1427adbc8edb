"""Runs the parts of a cluster as processes: one tree that stands and falls together.

Parts are forked from this process, which has their modules loaded already; it runs no threads and
no event loop, so it can fork at any time. A part that dies is started again after a growing wait.
When this process dies, whatever way, the kernel ends the parts with it. Nothing that it writes has
to succeed: a full disk, or a terminal that is gone, ends neither it nor a part.
"""

from __future__ import annotations

import gc
import io
import json
import logging
import os
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable, Container, Coroutine, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any, Final, NoReturn

from corral.cluster.node.shim import kernel
from corral.runtime.logcontext import TextFormatter
from corral.runtime.serving import eventloop

__all__ = ["Expected", "Part", "PartFailed", "Ready", "Supervisor"]

Ready = Callable[[dict[str, Any]], None]
"""How a part says that it serves, and what others need to know of it."""

FIRST_WAIT: Final = 0.05
LONGEST_WAIT: Final = 10.0
HEALTHY: Final = 10.0
"""Seconds after which a part that dies is started again at once."""
LOG_BYTES: Final = 10 * 1024 * 1024


class Expected(Exception):
    """A failure whose words are for people: a part that raises it is not tried again at a start."""


class PartFailed(Exception):
    """A part could not be started."""


@dataclass(slots=True)
class Part:
    """One process."""

    name: str
    run: Callable[[Ready], Coroutine[Any, Any, None]]
    """Serve until SIGTERM."""
    log: Path
    pid: int = 0
    facts: dict[str, Any] | None = None
    """What it said when it was ready; None while it is not."""
    error: str = ""
    wait: float = FIRST_WAIT
    started: float = 0.0
    again: float | None = None
    """When to start it again."""
    _pipe: int = -1
    _pidfd: int = -1
    _log: int = -1
    """Its log as it was opened last: good while a disk refuses to have it opened again."""
    _heard: bytes = b""

    @property
    def running(self) -> bool:
        return self.pid != 0


@dataclass(slots=True)
class Supervisor:
    """The parts of one cluster."""

    say: Callable[[str], None]
    """Tell people what happened to a part."""
    verbose: bool = False
    keep: Sequence[int] = ()
    """Descriptors that belong to this process alone."""
    parts: list[Part] = field(default_factory=list)
    signals: int = 0
    """How often we were asked to stop."""
    _poll: select.poll = field(default_factory=select.poll)
    _by_fd: dict[int, Part] = field(default_factory=dict)
    _wake: int = -1

    def __enter__(self) -> Supervisor:
        self._wake, woken = os.pipe()
        for fd in (self._wake, woken):
            os.set_blocking(fd, False)
        signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._asked)
        self._poll.register(self._wake, select.POLLIN)
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing outlives this process, whatever went wrong."""
        for part in self.parts:
            if part.running:
                os.kill(part.pid, signal.SIGKILL)
        while any(part.running for part in self.parts):
            self._turn(None)

    def _asked(self, number: int, frame: object) -> None:
        self.signals += 1

    # -- start -----------------------------------------------------------------------------------

    def start(self, parts: Iterable[Part], *, meanwhile: Callable[[], None] = lambda: None) -> None:
        """Start parts and wait until all of them serve. Raises PartFailed."""
        new = list(parts)
        self.parts += new
        for part in new:
            self._fork(part)
        meanwhile()
        while not all(part.facts is not None for part in new) and not self.signals:
            self._turn(self._until_due())
            self._revive(set(map(id, new)))
            for part in new:
                if part.error:
                    raise PartFailed(part.error)
                if not part.running and part.facts is None:
                    raise PartFailed(f"the {part.name} ended at once: see {part.log}")

    def _fork(self, part: Part) -> None:
        told, tell = os.pipe()
        parent = os.getpid()
        part.facts, part.error, part.again, part._heard = None, "", None, b""
        part.started = time.monotonic()
        part._log = _opened(part.log, part._log)
        _flush()
        try:
            part.pid = os.fork()
        except OSError:
            os.close(told)
            os.close(tell)
            raise
        if part.pid == 0:
            os.close(told)
            self._become(part, tell, parent)
        os.close(tell)
        os.set_blocking(told, False)
        part._pipe, part._pidfd = told, os.pidfd_open(part.pid)
        for fd in (part._pipe, part._pidfd):
            self._by_fd[fd] = part
            self._poll.register(fd, select.POLLIN)

    def _become(self, part: Part, tell: int, parent: int) -> NoReturn:
        """In the child: run the part; never returns."""
        code = 1
        try:
            os.setsid()  # Ctrl-C is for the parent
            kernel.die_with_parent(signal.SIGKILL)
            if os.getppid() != parent:
                os._exit(1)
            if (woken := signal.set_wakeup_fd(-1)) >= 0:  # newer Pythons forget it at a fork
                os.close(woken)
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_DFL)
            logs = [other._log for other in self.parts if other is not part and other._log >= 0]
            for fd in (self._wake, *self.keep, *self._by_fd, *logs):
                os.close(fd)
            _redirect(part._log)
            _log_to(part.log, verbose=self.verbose)
            code = _serve(part, tell)
        except BaseException:
            with suppress(OSError, ValueError):
                traceback.print_exc()
        finally:
            # whatever happens, this process never goes on as its parent would
            with suppress(BaseException):
                _flush()
            os._exit(code)

    # -- while it runs ---------------------------------------------------------------------------

    def watch(self) -> None:
        """Start again what dies, until we are asked to stop."""
        while not self.signals:
            self._turn(self._until_due())
            self._revive()

    def _until_due(self) -> float | None:
        """Milliseconds until a part is to be started again."""
        due = [part.again for part in self.parts if part.again is not None]
        return max(min(due) - time.monotonic(), 0) * 1000 + 1 if due else None

    def _revive(self, but: Container[int] = ()) -> None:
        for part in self.parts:
            if part.again is None or self.signals or id(part) in but:
                continue
            if part.again <= time.monotonic():
                self._try_again(part)

    def _try_again(self, part: Part) -> None:
        """Start a part; later where the machine has no process or descriptor for it now."""
        try:
            self._fork(part)
        except OSError as err:
            part.again = time.monotonic() + part.wait
            part.wait = min(part.wait * 2, LONGEST_WAIT)
            self._tell(f"the {part.name} cannot be started now, it is tried again: {err.strerror}")

    def _turn(self, timeout: float | None) -> None:
        for fd, _ in self._poll.poll(timeout):
            if fd == self._wake:
                with suppress(BlockingIOError):
                    os.read(fd, 1 << 10)
                continue
            part = self._by_fd.get(fd)
            if part is None:
                continue
            if fd == part._pipe:
                self._hear(part)
            elif fd == part._pidfd:
                self._bury(part)

    def _hear(self, part: Part) -> None:
        try:
            data = os.read(part._pipe, 1 << 16)
        except BlockingIOError:
            return
        if not data:
            self._forget(part._pipe)
            return
        part._heard += data
        *lines, part._heard = part._heard.split(b"\n")
        for line in lines:
            said = json.loads(line)
            if "error" in said:
                part.error = said["error"]
            else:
                part.facts = said

    def _bury(self, part: Part) -> None:
        if part._pipe in self._by_fd:
            self._hear(part)
            if part._pipe in self._by_fd:
                self._forget(part._pipe)
        self._forget(part._pidfd)
        _, status = os.waitpid(part.pid, 0)
        part.pid = 0
        if self.signals:
            return
        now = time.monotonic()
        if now - part.started > HEALTHY:
            part.wait = FIRST_WAIT
        part.again = now + part.wait
        part.wait = min(part.wait * 2, LONGEST_WAIT)
        if part.facts is not None:
            self._tell(f"the {part.name} {_how(status)}: it is started again ({part.log})")

    def _tell(self, text: str) -> None:
        with suppress(OSError):  # a full disk under our log must not end the cluster
            self.say(text)

    def _forget(self, fd: int) -> None:
        self._poll.unregister(fd)
        self._by_fd.pop(fd, None)
        os.close(fd)

    # -- stop ------------------------------------------------------------------------------------

    def stop(self, parts: Iterable[Part]) -> None:
        """Ask parts to end and wait for it; when we are asked again, they hurry."""
        leaving = [part for part in parts if part.running]
        self.signals = max(self.signals, 1)
        for part in leaving:
            os.kill(part.pid, signal.SIGTERM)
        asked = 1
        while any(part.running for part in leaving):
            if self.signals > asked:
                asked = self.signals
                for part in leaving:
                    if part.running:
                        os.kill(part.pid, signal.SIGINT)
            self._turn(None)


def _how(status: int) -> str:
    if os.WIFSIGNALED(status):
        return f"was killed by signal {os.WTERMSIG(status)}"
    return f"ended with code {os.WEXITSTATUS(status)}"


def _opened(log: Path, last: int) -> int:
    """The log, to be written to; as it was opened last where that is refused; -1 for none."""
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        new = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    except OSError:
        return last  # no room for a log, or nothing may be written: the part runs all the same
    if last >= 0:
        os.close(last)
    return new


def _redirect(log: int) -> None:
    """Standard output and error go to the log; there is no input."""
    nothing = os.open(os.devnull, os.O_RDWR)
    out = log if log >= 0 else os.dup(nothing)
    os.dup2(nothing, 0)
    os.dup2(out, 1)
    os.dup2(out, 2)
    os.close(nothing)
    os.close(out)
    sys.stdout, sys.stderr = _lossy(1), _lossy(2)


class _Lossy(io.FileIO):
    """What finds no room is lost: whoever prints a word must not end because of it."""

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except OSError:
            return len(data)


def _lossy(fd: int) -> io.TextIOWrapper:
    raw = io.BufferedWriter(_Lossy(fd, "w", closefd=False))
    return io.TextIOWrapper(raw, errors="backslashreplace", line_buffering=True)


def _flush() -> None:
    """Best effort: what does not go out now may go out later, or never."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()


def _log_to(path: Path, *, verbose: bool) -> None:
    handler = RotatingFileHandler(path, maxBytes=LOG_BYTES, backupCount=2, delay=True)
    handler.setFormatter(TextFormatter())
    logging.raiseExceptions = False  # a line that cannot be written is lost, and that is all
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO if verbose else logging.WARNING)


def _serve(part: Part, tell: int) -> int:
    def say(facts: dict[str, Any]) -> None:
        os.write(tell, json.dumps(facts).encode() + b"\n")

    # what is loaded stays; and most of what comes and goes is not garbage in circles
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)
    gc.enable()
    try:
        eventloop.run(part.run(say))
    except Expected as err:
        with suppress(BrokenPipeError):
            say({"error": str(err)})
        logging.getLogger(__name__).error("%s", err)
        return 1
    return 0
