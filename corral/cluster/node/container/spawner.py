"""The process that starts an agent's containers, as the agent sees it."""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from corral.cluster.node.container.streams import ContainerError
from corral.cluster.node.shim.confinement import Visited

__all__ = ["START_TIMEOUT", "Nursery", "can_share"]

logger = logging.getLogger(__name__)

START_TIMEOUT: Final = 30.0
_ROOT: Final = str(Path(__file__).resolve().parents[4])
_BOOT: Final = "import sys; sys.path.insert(0, sys.argv[1]); " + (
    "from corral.cluster.node.shim.zygote import main; main()"
)
_OPTIONS: Final = ("-S", "-E", "-s", "-B")
_MFD_EXEC: Final = 0x10
_SEALS: Final = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE


def can_share(spec: Mapping[str, Any]) -> bool:
    """Whether one process may stand by this container and others."""
    return os.geteuid() == 0 and Visited.fits(dict(spec))


class Nursery:
    """Has containers started. There is one of each kind for each root, and it waits its turn.

    That of a dead agent first does what it was told, so that nothing it does comes as a surprise.
    """

    def __init__(self, root: Path, python: str, *, shared: bool) -> None:
        """``shared``: it stands by its containers itself; otherwise each gets a shim."""
        self._lock = root.with_name(f"{root.name}{'.keep' if shared else ''}.lock")
        self._python = python
        self._shared = shared
        self.process: subprocess.Popen[bytes] | None = None
        self._requests: socket.socket | None = None

    def warm(self) -> None:
        """See that it is there. Raises ContainerError."""
        if self.process is not None and self.process.poll() is None:
            return
        self.close()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, open(self._lock, "wb") as turn:
            _await_turn(turn.fileno())
            self.process = self._started(theirs.fileno(), turn.fileno())
        self._requests = ours

    def _started(self, requests: int, turn: int) -> subprocess.Popen[bytes]:
        """By a copy of the interpreter that nobody can change, where that is possible.

        A container whose program is ``/proc/self/exe`` runs the program of whoever starts it, and
        has it open where it is not read-only: were that the machine's, containers of its owner
        could change its mode.
        """
        # some Pythons are found by their libraries only this way
        known = {k: v for k, v in os.environ.items() if k in ("LD_LIBRARY_PATH", "CORRAL_NATIVE")}
        environment = {"PATH": os.defpath, "LC_ALL": "C.UTF-8", **known}

        def started(program: str) -> subprocess.Popen[bytes]:
            arguments = [_ROOT, str(turn), *(["keep"] if self._shared else [])]
            return subprocess.Popen(
                [self._python, *_OPTIONS, "-c", _BOOT, *arguments],
                executable=program,
                stdin=requests,
                pass_fds=[turn],
                stdout=subprocess.DEVNULL,
                cwd="/",
                env=environment,
                start_new_session=True,
            )

        try:
            with _copy_of(self._python, environment) as copy:
                return started(copy)
        except (OSError, subprocess.SubprocessError) as err:
            words = "no copy of %s can be run, so containers of its owner can change its mode: %s"
            logger.warning(words, self._python, err)
            return started(self._python)

    def close(self) -> None:
        """Let go of it; containers run on."""
        if self._requests is not None:
            self._requests.close()
            self._requests = None
        if self.process is not None:
            if self._shared:
                self.process.poll()  # it stays with its containers
                self.process.returncode = self.process.returncode or 0
            else:
                self.process.wait()
            self.process = None

    async def start(self, folder: Path) -> tuple[bytes, int]:
        """Have the container in the folder started.

        Returns what is reported of it, empty if nothing was, and the pipe on which its end will
        be. Raises ContainerError.
        """
        told, tell = os.pipe()
        try:
            try:
                self._send(str(folder).encode(), [tell])
            finally:
                os.close(tell)
            os.set_blocking(told, False)
            async with asyncio.timeout(START_TIMEOUT):
                return await _read_line(told), told
        except TimeoutError:
            return b"", told
        except BaseException:
            os.close(told)
            raise

    def signal(self, folder: Path, number: int) -> bool:
        """Have a signal sent to a container that was started here. False if that cannot be."""
        if self._requests is None:
            return False
        try:
            self._requests.send(f"{int(number)} {folder}".encode())
        except OSError:
            return False
        return True

    def _send(self, message: bytes, fds: list[int]) -> None:
        for last in (False, True):
            self.warm()
            assert self._requests is not None
            try:
                socket.send_fds(self._requests, [message], fds)
                return
            except OSError as err:
                if last:
                    raise ContainerError(f"no process could be forked: {err}") from err
                self.close()


@contextmanager
def _copy_of(python: str, environment: dict[str, str]) -> Iterator[str]:
    """The path of a copy in memory, and in ``environment`` what it needs to run.

    Raises OSError, SubprocessError.
    """
    flags = os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING
    try:
        copy = os.memfd_create("python", flags | _MFD_EXEC)
    except OSError:  # older kernels do not know that flag, nor need it
        copy = os.memfd_create("python", flags)
    try:
        program = Path(python).read_bytes()
        with open(copy, "wb", closefd=False) as target:
            target.write(program)
        os.fchmod(copy, 0o555)
        fcntl.fcntl(copy, fcntl.F_ADD_SEALS, _SEALS)
        path = f"/proc/{os.getpid()}/fd/{copy}"
        if b"$ORIGIN" in program:  # it looks for libraries beside itself
            words = (environment.get("LD_LIBRARY_PATH"), f"{Path(python).resolve().parents[1]}/lib")
            found = {**environment, "LD_LIBRARY_PATH": os.pathsep.join(filter(None, words))}
            command = [python, *_OPTIONS, "-c", ""]
            subprocess.run(command, executable=path, env=found, check=True, capture_output=True)
            environment |= found
        yield path
    finally:
        os.close(copy)


def _await_turn(lock: int) -> None:
    """Take the lock that such a process holds as long as it may start something."""
    deadline = time.monotonic() + START_TIMEOUT
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise ContainerError("another agent starts containers here") from None
            time.sleep(0.002)  # whoever holds it is on its way out


async def _read_line(fd: int) -> bytes:
    """The first line, or nothing if the other end closes before; without blocking the loop."""
    loop = asyncio.get_running_loop()
    data = b""
    while not data.endswith(b"\n"):
        readable = loop.create_future()
        loop.add_reader(fd, lambda f=readable: f.done() or f.set_result(None))  # type: ignore[misc]
        try:
            await readable
        finally:
            loop.remove_reader(fd)
        piece = os.read(fd, 1 << 16)
        if not piece:
            return b""
        data += piece
    return data
