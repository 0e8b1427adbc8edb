"""The agent's side of its keeper: the process that holds the namespaces of its pods.

Calls are short and block: make them from a thread. A keeper that is asked for and not there is
started; one that an earlier agent started is found again by its socket. A call that got no answer
in time gives its connection up: the next one must not get the answer to it.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from corral.cluster.node.network import keeper
from corral.cluster.node.network.errors import NetworkError

_TIMEOUT: Final = 20.0


class Keeper:
    """The holder of one agent's namespaces; ``pid`` is its process."""

    def __init__(self, folder: Path, *, python: str = sys.executable) -> None:
        self._folder = folder
        self._python = python
        self._lock = threading.RLock()
        self._socket: socket.socket | None = None
        self.pid = 0

    def open(self) -> bool:
        """Find the one that runs or start one; whether it was found. Raises NetworkError."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            if self.connect():
                return True
            self._start()
            if not self.connect():
                raise NetworkError("the process that holds network namespaces did not start")
        except OSError as err:
            raise NetworkError(f"no process to hold network namespaces: {err}") from err
        return False

    def connect(self) -> bool:
        """Whether there is one that answers; then calls go to it.

        One that was killed may still be connected to for a moment.
        """
        try:
            home = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            return False
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        sock.settimeout(_TIMEOUT)
        try:
            sock.connect(f"/proc/self/fd/{home}/keeper")
        except OSError:
            sock.close()
            return False
        finally:
            os.close(home)
        credentials = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        self.close()
        self.pid = struct.unpack("3i", credentials)[0]
        self._socket = sock
        try:
            self.find("")
        except NetworkError:
            self.close()
            return False
        return True

    def _start(self) -> None:
        command = [self._python, "-S", "-E", "-s", "-B", keeper.__file__, str(self._folder)]
        kept = {k: v for k, v in os.environ.items() if k == "LD_LIBRARY_PATH"}
        try:
            subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                cwd="/",
                env={"PATH": os.defpath, **kept},
                start_new_session=True,
                timeout=_TIMEOUT,
                check=True,
            )
        except subprocess.SubprocessError as err:
            raise NetworkError(f"no process to hold network namespaces: {err}") from err

    # -- what it holds ---------------------------------------------------------------------------

    def hold(self, name: str, namespace: int) -> str:
        """Keep a namespace under a name; gives a path to it. Raises NetworkError."""
        return self._path(self._ask({"op": "hold", "name": name}, [namespace])["fd"])

    def find(self, name: str) -> str:
        """The path of what is held under a name; empty for nothing. Raises NetworkError."""
        number = self._ask({"op": "find", "name": name})["fd"]
        return self._path(number) if number >= 0 else ""

    def drop(self, names: Sequence[str]) -> None:
        """Keep them no longer. Raises NetworkError."""
        for first in range(0, len(names), keeper.PAGE):
            self._ask({"op": "drop", "names": names[first : first + keeper.PAGE]})

    def names(self) -> list[str]:
        """Everything that is held. Raises NetworkError."""
        found: list[str] = []
        while True:
            page = self._ask({"op": "list", "after": found[-1] if found else ""})["names"]
            found += page
            if len(page) < keeper.PAGE:
                return found

    def _path(self, number: int) -> str:
        return f"/proc/{self.pid}/fd/{number}"

    def _ask(self, request: dict[str, Any], fds: list[int] | None = None) -> dict[str, Any]:
        with self._lock:
            if self._socket is None:
                self._reconnect()
            assert self._socket is not None
            try:
                socket.send_fds(self._socket, [json.dumps(request).encode()], fds or [])
                reply = self._socket.recv(1 << 18)
            except OSError as err:
                self.close()
                raise NetworkError(f"the holder of network namespaces is gone: {err}") from err
            if not reply:
                self.close()
                raise NetworkError("the process that holds network namespaces has ended")
        answer: dict[str, Any] = json.loads(reply)
        if "error" in answer:
            raise NetworkError(answer["error"])
        return answer

    def _reconnect(self) -> None:
        """To the same process, whose paths others have. Raises NetworkError."""
        pid = self.pid
        found = bool(pid) and self.connect()
        if found and self.pid == pid:
            return
        self.close()
        self.pid = pid
        raise NetworkError("the process that holds network namespaces is not connected")

    # -- its end ---------------------------------------------------------------------------------

    def close(self) -> None:
        """Let go of it; it runs on."""
        with self._lock:
            if self._socket is not None:
                self._socket.close()
                self._socket = None

    def end(self) -> None:
        """Let everything go that it holds, and wait until it has ended."""
        if not self.pid:
            return
        with suppress(ProcessLookupError, NetworkError):
            watch = os.pidfd_open(self.pid)
            try:
                self.find("")  # it answers: the number is still this process's
                signal.pidfd_send_signal(watch, signal.SIGTERM)
                if not _has_ended(watch):
                    signal.pidfd_send_signal(watch, signal.SIGKILL)
                    _has_ended(watch)
            finally:
                os.close(watch)
        self.close()
        self.pid = 0


def _has_ended(pidfd: int) -> bool:
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(_TIMEOUT * 1000))
