"""Runs a function of ours on code that nobody vouches for, in a confined process.

The process is a new Python with an empty environment; it confines itself first and imports the
function after (`launch`). What it is given and what it answers are bytes.
"""

from __future__ import annotations

import json
import logging
import os
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Final

from corral.podtools.confine.errors import ConfineError
from corral.podtools.confine.launch import NO_NAMESPACES, UNCONFINED
from corral.podtools.confine.results import Unreadable, take_results
from corral.podtools.confine.rules import Limits
from corral.podtools.confine.watch import OVER_DISK, OVER_MEMORY, OVER_TASKS

__all__ = ["Ended", "Running", "Start", "run"]

logger = logging.getLogger(__name__)

_MAIN: Final = "from corral.podtools.confine.launch import main; main()"
_KEPT: Final = 64 * 1024
"""Bytes of what it prints that are kept: the last ones."""
_THREADS: Final = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
_GRACE: Final = 30.0
"""Seconds for whoever watches to end the rest."""
_OVER: Final = {
    OVER_MEMORY: "it used more memory than it may, with its files",
    OVER_TASKS: "it had more threads than it may",
    OVER_DISK: "it wrote more than it may",
}
_WITHOUT_NAMESPACES: Final = ("namespaces", "user", "scratch")
"""What is missing where there are none."""
_refused: list[str] = []
"""Why this machine gives no namespaces, once that is known."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a confined process ended, and what it left."""

    code: int
    """0: well; negative: the signal that ended it."""
    output: str
    """The last of what it printed, errors included."""
    late: bool = False
    """Whether it was ended because its time was over."""
    missing: tuple[str, ...] = ()
    """Protections that this machine did not give, by name."""

    @property
    def why(self) -> str:
        """One line for people; empty where all went well."""
        if self.late:
            return "its time was over"
        if self.code in _OVER:
            return _OVER[self.code]
        if self.code in (-signal.SIGXCPU, -signal.SIGKILL):
            return "it used more processor time or memory than it may"
        if self.code < 0:
            return f"it was ended by {signal.Signals(-self.code).name}"
        lines = [line for line in self.output.splitlines() if line.strip()]
        return "" if not self.code else lines[-1] if lines else f"it ended with {self.code}"


@dataclass(frozen=True, slots=True)
class Start:
    """What is to be run, with what."""

    function: str
    arguments: Sequence[str] = ()
    readable: Sequence[Path] = ()
    writable: Sequence[Path] = ()
    limits: Limits = field(default_factory=Limits)
    threads: int = 1
    demanded: Sequence[str] = ()

    def command(self, control: int) -> list[str]:
        """The command line that starts the process."""
        words = {
            "function": self.function,
            "arguments": list(self.arguments),
            "path": sys.path,
            "readable": [os.path.abspath(path) for path in self.readable],
            "writable": [os.path.abspath(path) for path in self.writable],
            "limits": asdict(self.limits),
            "namespaces": not _refused,
            "temporary": tempfile.gettempdir(),
            "lacking": list(_WITHOUT_NAMESPACES) if _refused else [],
            "demanded": list(self.demanded),
            "control": control,
        }
        return [sys.executable, "-I", "-B", "-c", _MAIN, json.dumps(words)]

    def environment(self) -> dict[str, str]:
        """All that the process has of one; its home is its own to say."""
        out = {"PATH": "", "LC_ALL": "C.UTF-8", "LOGNAME": "model"}
        return out | dict.fromkeys(_THREADS, str(self.threads))


class Running:
    """A confined process, with whoever watches it."""

    def __init__(self, start: Start, *, stdin: int, stderr: int | None = None) -> None:
        self._start = start
        self._control, theirs = socket.socketpair()
        try:
            self.process = subprocess.Popen(
                start.command(theirs.fileno()),
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env=start.environment(),
                cwd="/",
                start_new_session=True,
                pass_fds=[theirs.fileno()],
            )
        finally:
            theirs.close()
        if stderr == subprocess.PIPE:
            # its own pipe: ours would be a file that it may cut, or a terminal that it may set
            threading.Thread(target=_pass_on, args=[self.process.stderr], daemon=True).start()
        self._folders: list[int] | None = None
        self.missing: tuple[str, ...] = ()

    @property
    def stdout(self) -> IO[bytes]:
        assert self.process.stdout is not None
        return self.process.stdout

    def end(self) -> int:
        """End it, and all that belongs to it; its code."""
        self._control.shutdown(socket.SHUT_WR)
        try:
            self.process.wait(_GRACE)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
        return self.process.wait()

    def close(self) -> None:
        """Give back what is held of it; it has ended."""
        self._control.close()
        for fd in self._folders or ():
            os.close(fd)
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()

    def learn(self) -> bool:
        """Learn what it lacks; whether it was confined at all. It has begun or ended."""
        if self._folders is None:
            text, fds, _, _ = socket.recv_fds(self._control, 4096, 64)
            self._folders = fds
            if not text:
                return False
            self.missing = tuple(json.loads(text)["missing"])
        return True

    def take_results(self) -> None:
        """Move what it left in its folders to where they are. Raises Unreadable, OSError."""
        if self.learn() and self._folders:
            most = self._start.limits.disk
            take_results(self._folders, self._start.writable, most=most)


def _pass_on(pipe: IO[bytes]) -> None:
    """Write what it says to our standard error, until it has ended."""
    with pipe:
        while data := os.read(pipe.fileno(), _KEPT):
            with suppress(OSError):  # where nobody hears it, it must not wait for that
                os.write(2, data)


def without_namespaces(code: int, output: str) -> bool:
    """Whether a process must be started anew, because this machine gives no namespaces."""
    if code != NO_NAMESPACES:
        return False
    why = output.strip() or "no reason is known"
    if not _refused:
        logger.warning("confined code has no namespaces of its own here: %s", why)
    _refused[:] = [why]
    return True


def run(
    function: str,
    arguments: Sequence[str] = (),
    *,
    readable: Sequence[Path] = (),
    writable: Sequence[Path] = (),
    limits: Limits | None = None,
    threads: int = 1,
    demanded: Sequence[str] = (),
) -> Ended:
    """Call ``module:function`` with a list of words in a confined process, and wait.

    Args:
        function: what is called.
        arguments: with what.
        readable: files and folders it has beside Python's own.
        writable: folders that it finds empty, and whose contents are there in the end.
        limits: how much of the machine it has.
        threads: of libraries that compute.
        demanded: protections without which nothing is run (`docs/inpod.md` names them).

    Raises:
        ConfineError: this machine cannot keep it in, or not as demanded; nothing was run.
    """
    start = Start(function, arguments, readable, writable, limits or Limits(), threads, demanded)
    ended = _watched(start)
    if without_namespaces(ended.code, ended.output):
        ended = _watched(start)
    if ended.code == UNCONFINED:
        raise ConfineError(ended.why)
    return ended


def _watched(start: Start) -> Ended:
    running = Running(start, stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT)
    try:
        try:
            output, late = _read(running.stdout, time.monotonic() + start.limits.seconds)
        finally:
            code = running.end()
        text = output.decode(errors="replace")
        running.learn()
        if not code and not late:
            running.take_results()
        return Ended(-signal.SIGKILL if late else code, text, late, running.missing)
    except Unreadable as err:
        return Ended(1, str(err), missing=running.missing)
    finally:
        running.close()


def _read(pipe: IO[bytes], until: float) -> tuple[bytes, bool]:
    """What it prints until it ends, and whether it did so in time."""
    kept = b""
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        while (left := until - time.monotonic()) > 0:
            if selector.select(left):
                data = os.read(pipe.fileno(), _KEPT)
                if not data:
                    return kept, False
                kept = (kept + data)[-_KEPT:]
    return kept, True
