"""Whole clusters, started by ``corral up`` in folders of their own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.backends.base import Backend, wait_for
from tests.backends.nodes import OPEN_TO_CASES

CORRAL = (sys.executable, "-m", "corral.cli.main")
TOKENS = 'admin-token,admin,admin,"system:masters"\n'


class Up(Backend):
    """``corral up``; ``start`` may be called again after a stop or a crash."""

    name = "up"
    token = "admin-token"

    def __init__(self, folder: Path, *options: str) -> None:
        super().__init__(folder)
        self.options = options
        self.data = folder / "data"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "tokens.csv").write_text(TOKENS)

    @property
    def log(self) -> Path:
        return self.folder / "up.log"

    @property
    def process(self) -> subprocess.Popen[bytes]:
        return self.processes[-1]

    def start(self) -> None:
        self.log.write_text("")
        process = self.spawn(
            "up", *CORRAL, "up", "--data-dir", str(self.data), "--port", "0",
            "--token-file", str(self.folder / "tokens.csv"), *OPEN_TO_CASES, *self.options,
        )  # fmt: skip
        wait_for(process, self.log, "corral is ready")
        self.server = f"https://127.0.0.1:{(self.data / 'port').read_text().strip()}"
        self.ca_file = str(self.data / "pki" / "ca.crt")
        self.write_kubeconfig()

    def stop(self) -> None:
        """In order."""
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                process.wait(90)
        self.processes.clear()
        self.disconnect()

    def crash(self) -> None:
        """SIGKILL; the kernel ends the parts with it."""
        self.process.kill()
        self.process.wait()

    def parts(self) -> dict[str, int]:
        """Which process is which part, by the log it writes to."""
        found: dict[str, int] = {}
        for pid in children(self.process.pid):
            try:
                name = os.path.basename(os.readlink(f"/proc/{pid}/fd/1")).removesuffix(".log")
            except OSError:
                continue  # it ended just now
            found[name] = pid
        return found


def children(pid: int) -> list[int]:
    """The living children of a process."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == pid and fields[0] != "Z":
                found.append(int(entry.name))
    return found


def corral(*argv: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    done = subprocess.run(
        [*CORRAL, *argv], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    return done


def processes_of(folder: Path) -> list[int]:
    """Living processes that belong to containers of a cluster: they carry its folder."""
    marker = f"={folder}/".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if marker in (entry / "environ").read_bytes() + b"\0":
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def job(
    name: str, command: list[str], *, folder: Path | None = None, **spec: Any
) -> dict[str, Any]:
    """``folder`` of the machine is at the same place in the pods."""
    container: dict[str, Any] = {"name": "main", "image": "busybox", "command": command}
    volumes = []
    if folder is not None:
        container["volumeMounts"] = [{"name": "folder", "mountPath": str(folder)}]
        volumes = [{"name": "folder", "hostPath": {"path": str(folder)}}]
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {
            "template": {
                "spec": {
                    "restartPolicy": "Never",
                    "terminationGracePeriodSeconds": 1,
                    "containers": [container],
                    "volumes": volumes,
                }
            },
            **spec,
        },
    }
