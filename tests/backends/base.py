"""What a backend offers to a test."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import ssl
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from corral.cluster.up.objects import access_objects
from tests.backends.connections import Connections, Reply


class Backend:
    """A running API server."""

    name = ""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.processes: list[subprocess.Popen[bytes]] = []
        self._connections: Connections | None = None

    server = ""
    ca_file = ""
    token = ""

    @property
    def kubeconfig(self) -> Path:
        return self.folder / "test.kubeconfig"

    def start(self) -> None:
        raise NotImplementedError

    def stop(self) -> None:
        """End the processes that were started, and only those."""
        for process in reversed(self.processes):
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
        for process in reversed(self.processes):
            process.wait()
        self.processes.clear()
        self.disconnect()

    def disconnect(self) -> None:
        """Close the connections that were kept."""
        if self._connections is not None:
            self._connections.close()
            self._connections = None

    def spawn(self, name: str, *argv: str, **env: str) -> subprocess.Popen[bytes]:
        log = (self.folder / f"{name}.log").open("ab")
        process = subprocess.Popen(
            argv,
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
            env={**os.environ, **env},
            start_new_session=True,
        )
        log.close()
        self.processes.append(process)
        return process

    def write_kubeconfig(self) -> None:
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "clusters": [
                {
                    "name": "test",
                    "cluster": {"server": self.server, "certificate-authority": self.ca_file},
                }
            ],
            "users": [{"name": "admin", "user": {"token": self.token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "admin"}}],
        }
        self.kubeconfig.write_text(json.dumps(config))

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = "application/json",
        headers: dict[str, str] | None = None,
        token: str | None = None,
    ) -> Reply:
        """One plain HTTP request; errors are replies too."""
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        sent = {
            "User-Agent": "corral-tests",
            "Authorization": f"Bearer {self.token if token is None else token}",
        }
        if token == "":
            sent = {}
        if data is not None:
            sent["Content-Type"] = content_type
        sent |= headers or {}
        if self._connections is None or self._connections.server != self.server:
            self.disconnect()
            self._connections = Connections(self.server, self.tls())
        return self._connections.request(method, path, data, sent)

    def allow(self) -> None:
        """Give nodes and controllers of ours the rights that `corral up` gives them."""
        for obj in access_objects():
            path = f"/apis/{obj['apiVersion']}/{obj['kind'].lower()}s"
            reply = self.request("POST", path, obj)
            assert reply.code in (201, 409), reply.body

    def tls(self) -> ssl.SSLContext:
        if not hasattr(self, "_tls"):
            self._tls = ssl.create_default_context(cafile=self.ca_file)
        return self._tls

    def wait_ready(self, seconds: float = 60) -> None:
        """Wait for /readyz; bounded, and over at once when the process has died."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for process in self.processes:
                if process.poll() is not None:
                    raise RuntimeError(f"{process.args} ended: see {self.folder}")
            try:
                if self.request("GET", "/readyz").body == b"ok":
                    return
            except OSError:
                pass  # not listening yet
            time.sleep(0.02)
        raise RuntimeError(f"the server did not become ready: see {self.folder}")


PORTS = range(12_000, 30_000)
"""Ports that the system gives nobody by itself, and that are no node ports of services."""


def free_port() -> int:
    """A port that nobody listens at, and no connection of anybody takes before it is used."""
    while True:
        port = random.SystemRandom().choice(PORTS)
        with socket.socket() as sock, suppress(OSError):
            sock.bind(("127.0.0.1", port))
            return port


def wait_for(process: subprocess.Popen[bytes], log: Path, text: str, seconds: float = 30) -> str:
    """The first line of a log that holds a text."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for line in log.read_text().splitlines():
            if text in line:
                return line
        if process.poll() is not None:
            raise RuntimeError(f"{process.args} ended:\n{log.read_text()}")
        time.sleep(0.01)
    raise RuntimeError(f"no {text!r} in {log}:\n{log.read_text()}")
