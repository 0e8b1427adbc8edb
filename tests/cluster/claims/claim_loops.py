"""The provisioner (and our binder) as a process that a case may kill: ``python -m ... PART...``.

The first part is the kubeconfig; ``claims`` is the binder, ``provisioner=FOLDER`` the provisioner.
Prints ``ready`` when they run; ends by a signal.
"""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
from pathlib import Path

from corral.cluster.workloads.claims import controller, provisioner
from corral.kube.client import KubeClient
from corral.runtime import Manager
from tests.backends import Backend

ROOT = Path(__file__).parent.parent.parent.parent


class Loops:
    """The process, which may be killed and started again."""

    def __init__(self, backend: Backend, *parts: str) -> None:
        self._argv = [sys.executable, "-m", __name__, str(backend.kubeconfig), *parts]
        self._log = backend.folder / "claim-loops.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log.open("ab") as out:
            process = subprocess.Popen(self._argv, cwd=ROOT, stdout=subprocess.PIPE, stderr=out)
        self._process = process
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n", self._log.read_text()

    def kill(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()

    def restart(self) -> None:
        self.kill()
        self.start()


async def run(kubeconfig: str, parts: list[str]) -> None:
    async with KubeClient.from_kubeconfig(kubeconfig) as client:
        manager = Manager(client)
        for part in parts:
            folder = part.partition("=")[2]
            if folder:
                provisioner.register(manager, Path(folder))
            else:
                controller.register(manager)
        manager.add_task("ready", _say_ready)
        await manager.run()


async def _say_ready() -> None:
    """Begins when every informer has its first list."""
    print("ready", flush=True)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    asyncio.run(run(sys.argv[1], sys.argv[2:]))
