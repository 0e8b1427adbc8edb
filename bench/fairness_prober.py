"""The quiet tenant of ``bench/fairness.py``: a process that reads one small object.

It measures the server and not itself: plain blocking calls over one kept connection, no event
loop, no garbage collection, and (as root) a higher priority than the rest.
"""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import os
import socket
import ssl
import time
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

from fairness_attacks import QUIET, Target

PAUSE = 0.004
"""Seconds between two reads."""
TIMEOUT = 10.0
"""Seconds after which a read has failed. One that fails for another reason counts as much."""
FAILURES = 20
"""Reads that fail until nothing more is asked: nobody is there any more."""
NICE = -5


class Prober:
    """The process, as the one who asks it sees it."""

    def __init__(self, target: Target, token: str) -> None:
        context = multiprocessing.get_context("spawn")
        self._line, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(target, token, theirs), daemon=True)
        self._process.start()
        theirs.close()

    async def reads(self, count: int, seconds: float) -> list[float]:
        """Milliseconds of ``count`` reads, in order of size; of fewer if they take too long."""
        self._line.send((count, seconds))
        loop = asyncio.get_running_loop()
        found: list[float] = await loop.run_in_executor(None, self._line.recv)
        return sorted(found)

    def close(self) -> None:
        self._line.close()
        self._process.join(TIMEOUT)
        if self._process.is_alive():
            self._process.kill()


def _serve(target: Target, token: str, line: Connection) -> None:
    with suppress(OSError):  # only root may
        os.setpriority(os.PRIO_PROCESS, 0, NICE)
    gc.disable()
    reader = _Reader(target, token)
    with suppress(EOFError):
        while True:
            count, seconds = line.recv()
            line.send(_reads(reader, count, seconds))


def _reads(reader: _Reader, count: int, seconds: float) -> list[float]:
    found: list[float] = []
    end, failed = time.perf_counter() + seconds, 0
    while len(found) < count and time.perf_counter() < end and failed < FAILURES:
        began = time.perf_counter()
        well = reader.read()
        failed += not well
        found.append((time.perf_counter() - began if well else TIMEOUT) * 1000)
        time.sleep(PAUSE)
    return found


class _Reader:
    """One connection, opened again where it was lost: that is part of a read then."""

    def __init__(self, target: Target, token: str) -> None:
        host, port = target.url.removeprefix("https://").split(":")
        self._where = host, int(port)
        self._tls = ssl.create_default_context(cafile=target.ca_file)
        self._sock: Any = None
        self._request = (
            f"GET /api/v1/namespaces/{QUIET}/configmaps/small HTTP/1.1\r\nHost: {host}\r\n"
            f"Authorization: Bearer {token}\r\nAccept: application/json\r\n\r\n"
        ).encode()

    def read(self) -> bool:
        """Whether the object came."""
        try:
            if self._sock is None:
                plain = socket.create_connection(self._where, TIMEOUT)
                plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._sock = self._tls.wrap_socket(plain, server_hostname=self._where[0])
            self._sock.sendall(self._request)
            if self._answered():
                return True
        except OSError:
            pass  # the connection is of no more use
        if self._sock is not None:
            self._sock.close()
            self._sock = None
        return False

    def _answered(self) -> bool:
        """Read one answer; False where it is not the object."""
        raw = b""
        while b"\r\n\r\n" not in raw:
            raw += self._more()
        head, _, body = raw.partition(b"\r\n\r\n")
        lines = head.lower().split(b"\r\n")
        sizes = [line.partition(b":")[2] for line in lines if line.startswith(b"content-length:")]
        left = int(sizes[0]) - len(body)
        while left > 0:
            left -= len(self._more())
        return b" 200 " in lines[0] + b" "

    def _more(self) -> bytes:
        found: bytes = self._sock.recv(65_536)
        if not found:
            raise ConnectionResetError
        return found
