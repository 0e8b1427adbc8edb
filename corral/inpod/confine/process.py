"""Runs a function of ours on code that nobody vouches for, in a confined process.

The process is a new Python with an empty environment; it confines itself first and imports the
function after. What it is given and what it answers are bytes.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from corral.inpod.confine.errors import ConfineError
from corral.inpod.confine.rules import Limits, confine

__all__ = ["UNCONFINED", "Ended", "command", "end_session", "environment", "run"]

UNCONFINED: Final = 113
"""What it ends with where this machine cannot keep it in."""
_MAIN: Final = "from corral.inpod.confine.process import main; main()"
_KEPT: Final = 64 * 1024
"""Bytes of what it prints that are kept: the last ones."""
_THREADS: Final = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True, slots=True)
class Ended:
    """How it ended."""

    code: int
    """0: well; negative: the signal that ended it."""
    output: str
    """The last of what it printed, errors included."""
    late: bool = False
    """Its time was over."""

    @property
    def why(self) -> str:
        """One line for people; empty where all went well."""
        if self.late:
            return "its time was over"
        if self.code in (-signal.SIGXCPU, -signal.SIGKILL):
            return "it used more processor time or memory than it may"
        if self.code < 0:
            return f"it was ended by {signal.Signals(-self.code).name}"
        lines = [line for line in self.output.splitlines() if line.strip()]
        return "" if not self.code else lines[-1] if lines else f"it ended with {self.code}"


def run(
    function: str,
    arguments: Sequence[str] = (),
    *,
    readable: Sequence[Path] = (),
    writable: Sequence[Path] = (),
    limits: Limits | None = None,
    threads: int = 1,
) -> Ended:
    """Call ``module:function`` with a list of words in a confined process, and wait.

    ``readable`` and ``writable`` are files and folders it has beside Python's own.

    Raises:
        ConfineError: this machine cannot keep it in; nothing was run.
    """
    limits = limits or Limits()
    with tempfile.TemporaryDirectory(prefix="corral-confined-") as home:
        words = command(function, arguments, readable, [*writable, Path(home)], limits)
        ended = _watched(words, environment(home, threads), home, limits.seconds)
    if ended.code == UNCONFINED:
        raise ConfineError(ended.why)
    return ended


def command(
    function: str,
    arguments: Sequence[str],
    readable: Sequence[Path],
    writable: Sequence[Path],
    limits: Limits,
) -> list[str]:
    """What starts the process."""
    return [
        sys.executable, "-I", "-B", "-c", _MAIN, function,
        str(limits.seconds), str(limits.memory), str(limits.file), str(limits.tasks),
        os.pathsep.join(sys.path), os.pathsep.join(map(str, readable)),
        os.pathsep.join(map(str, writable)), *arguments,
    ]  # fmt: skip


def environment(home: str, threads: int) -> dict[str, str]:
    """All that the process has of one."""
    out = {"HOME": home, "TMPDIR": home, "PATH": "", "LC_ALL": "C.UTF-8"}
    return out | dict.fromkeys(_THREADS, str(threads))


def _watched(words: list[str], variables: dict[str, str], home: str, seconds: int) -> Ended:
    process = subprocess.Popen(
        words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=variables,
        cwd=home,
        start_new_session=True,
    )
    assert process.stdout is not None
    try:
        output, late = _read(process.stdout, time.monotonic() + seconds)
    finally:
        # it may have children, which hold the pipe open: the whole session goes
        end_session(process.pid)
        process.stdout.close()
        process.wait()
    code = -signal.SIGKILL if late else process.returncode
    return Ended(code, output.decode(errors="replace"), late)


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


def end_session(group: int) -> None:
    """A process with all of its children."""
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return


def main() -> None:
    """In the new process: give everything up, then call the function."""
    name, seconds, memory, file, tasks, path, readable, writable, *arguments = sys.argv[1:]
    sys.path[:] = [folder for folder in path.split(os.pathsep) if os.path.isabs(folder)]
    module, _, function = name.partition(":")
    os.closerange(3, 1024)
    limits = Limits(int(seconds), int(memory), int(file), int(tasks))
    try:
        confine(_split(readable), _split(writable), limits)
    except (ConfineError, OSError, ValueError) as err:
        sys.stdout.write(f"{err}\n")
        sys.stdout.flush()
        sys.exit(UNCONFINED)
    from importlib import import_module

    sys.exit(getattr(import_module(module), function)(arguments))


def _split(paths: str) -> list[str]:
    return [path for path in paths.split(os.pathsep) if path]
