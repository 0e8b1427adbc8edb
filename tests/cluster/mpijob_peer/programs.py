"""The two operators for MPIJobs, as programs: ours, and Kubeflow's that test-real builds."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import yaml

from tests.backends import real_binaries
from tests.cluster.binaries import version

MANIFESTS = {
    "pi": "pi/pi.yaml",
    "pi-intel": "pi/pi-intel.yaml",
    "pi-mpich": "pi/pi-mpich.yaml",
    "horovod": "horovod/tensorflow-mnist.yaml",
    "tensorflow-benchmarks": "tensorflow-benchmarks/tensorflow-benchmarks.yaml",
}
"""Kubeflow's examples, by the namespace that a test gives each: three have the same name."""
ONE_PROCESS = (
    "--no-leader-elect",
    "--webhook-port=-1",
    "--report-port=-1",
    "--namespace=default",
)
"""Of our operator: what the peer does not do either is off."""


def peer_folder() -> Path | None:
    """The peer with its definition and examples, or None where it could not be built."""
    found = real_binaries() / f"mpi-operator-{version('mpi_operator')}"
    return found if (found / "mpi-operator").is_file() else None


def definition(folder: Path) -> dict[str, Any]:
    """The peer's own CustomResourceDefinition."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    with (folder / "crd.yaml").open(encoding="utf-8") as file:
        found: dict[str, Any] = yaml.load(file, loader)
    return found


def manifest(folder: Path, name: str) -> dict[str, Any]:
    """One of the peer's examples."""
    read: dict[str, Any] = yaml.safe_load((folder / "examples" / MANIFESTS[name]).read_text())
    return read


def peer_argv(folder: Path, kubeconfig: Path, *flags: str) -> list[str]:
    return [
        str(folder / "mpi-operator"), "-kubeConfig", str(kubeconfig),
        "-lock-namespace", "default", *flags,
    ]  # fmt: skip


def our_argv(kubeconfig: Path, *flags: str) -> list[str]:
    return [
        sys.executable, "-m", "corral.cli.main", "operator",
        "--kubeconfig", str(kubeconfig), *ONE_PROCESS, *flags,
    ]  # fmt: skip


class Program:
    """An operator that runs until it is stopped."""

    def __init__(self, argv: list[str], kubeconfig: Path, log: Path, ready: str) -> None:
        """``ready`` is in its log when it has begun to work."""
        self._log = log
        with log.open("wb") as out:
            self._process = subprocess.Popen(
                argv,
                stdout=out,
                stderr=out,
                stdin=subprocess.DEVNULL,
                env={**os.environ, "KUBECONFIG": str(kubeconfig)},
            )
        self._await(ready)

    def _await(self, ready: str, seconds: float = 60) -> None:
        end = time.monotonic() + seconds
        while ready not in self._log.read_text():
            if self._process.poll() is not None or time.monotonic() > end:
                self.stop()
                raise RuntimeError(f"{self._process.args!r} is not ready:\n{self._log.read_text()}")
            time.sleep(0.02)

    def stop(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
