"""The controllers of federated learning as a process that can be killed.

``python -m tests.cluster.federated_rounds.operator_process KUBECONFIG REGISTRY_URL``
"""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

from corral.families.federated.learning import register
from corral.kube import KubeClient
from corral.runtime import Manager
from tests.cluster.federated_rounds.learning_operating import settings


async def main(kubeconfig: str, url: str) -> None:
    async with KubeClient.from_kubeconfig(kubeconfig) as client:
        manager = Manager(client)
        register(manager, settings(url))
        await manager.run()


class OperatorProcess:
    """Started again whenever it ends, as a Deployment does."""

    def __init__(self, kubeconfig: Path, url: str, log: Path) -> None:
        self._argv = [sys.executable, "-m", __name__, str(kubeconfig), url]
        self._log = log
        self._stopping = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._keeper = threading.Thread(target=self._keep, name="operator")
        self.starts = 0

    def __enter__(self) -> Self:
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
        self.kill()
        self._keeper.join()
        if kind is not None:
            print(self._log.read_text()[-20_000:])

    def kill(self) -> None:
        """SIGKILL."""
        process = self._process
        assert process is not None
        process.kill()
        process.wait()

    def peak(self) -> int:
        """The most memory that it has had, in bytes."""
        assert self._process is not None
        text = Path(f"/proc/{self._process.pid}/status").read_text()
        (line,) = [line for line in text.splitlines() if line.startswith("VmHWM:")]
        return int(line.split()[1]) * 1024

    def _start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._argv, stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )
        self.starts += 1

    def _keep(self) -> None:
        while True:
            assert self._process is not None
            self._process.wait()
            if self._stopping.is_set():
                return
            self._start()
            if self._stopping.is_set():
                self._process.kill()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    asyncio.run(main(*sys.argv[1:]))
