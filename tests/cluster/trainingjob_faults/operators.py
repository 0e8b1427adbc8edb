"""Operator processes behind a proxy, started as people start them, and again when they end.

A Deployment would do that: an operator that cannot read its certificates at the start exits, and
one that was killed is replaced.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import TracebackType

from tests.faults.proxy import FaultProxy

__all__ = ["RunningOperator"]

PAUSE = 0.2
"""Seconds before an operator that ended by itself is started again."""


class RunningOperator:
    """One replica; ``with RunningOperator(…) as operator:``."""

    def __init__(self, proxy: FaultProxy, folder: Path, namespace: str, *options: str) -> None:
        """``namespace`` holds the lease."""
        self.name = proxy.name
        self.started_at = 0.0
        """When the present process was started, in seconds since the epoch."""
        self.log = folder / f"{proxy.name}.log"
        self._argv = [
            sys.executable, "-m", "corral.cli.main", "operator",
            "--kubeconfig", str(proxy.kubeconfig), "--namespace", namespace,
            "--listen", "127.0.0.1", "--health-port", "-1", "--webhook-port", "-1",
            "--report-port", "-1", "--log-format", "text", *options,
        ]  # fmt: skip
        self._stopping = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._keeper = threading.Thread(target=self._keep, name=f"operator {self.name}")

    def __enter__(self) -> RunningOperator:
        self._start()
        self._keeper.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stopping.set()
        with self._lock:
            process = self._process
        if process is not None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._keeper.join()
        if kind is not None:
            print(f"--- {self.name}\n{self.log.read_text()[-20000:]}")

    def kill(self) -> None:
        """SIGKILL; another is started at once, as a Deployment does."""
        with self._lock:
            process = self._process
        assert process is not None
        process.kill()
        process.wait()

    def _start(self) -> None:
        with self.log.open("ab") as log, self._lock:
            self.started_at = time.time()
            self._process = subprocess.Popen(
                self._argv, stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )

    def _keep(self) -> None:
        while True:
            assert self._process is not None
            code = self._process.wait()
            if self._stopping.wait(0 if code == -signal.SIGKILL else PAUSE):
                return
            self._start()
            if self._stopping.is_set():
                self._process.terminate()
