"""Controllers of services, budgets and claims as a process: ``python -m ... KUBECONFIG PART...``.

``provisioner=FOLDER`` is a part too. Prints ``ready`` when they run; ends by a signal.
"""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from corral.cluster.workloads.claims import controller as claims
from corral.cluster.workloads.claims import provisioner
from corral.cluster.workloads.deployment import controller as deployment
from corral.cluster.workloads.deployment import replicaset_controller as replicaset
from corral.cluster.workloads.disruption import controller as disruption
from corral.cluster.workloads.endpoints import controller as endpoints
from corral.kube.client import KubeClient
from corral.runtime import Manager
from tests.backends import Backend

PARTS = {
    "claims": claims,
    "deployment": deployment,
    "disruption": disruption,
    "endpoints": endpoints,
    "replicaset": replicaset,
}
ROOT = Path(__file__).parent.parent.parent.parent


@contextmanager
def loops(backend: Backend, *parts: str) -> Iterator[None]:
    """Run these parts, those that kube-controller-manager has only where it does not run."""
    if backend.name == "real":
        parts = tuple(part for part in parts if part not in PARTS)
    if not parts:
        yield
        return
    log = backend.folder / f"{parts[0].partition('=')[0]}-loops.log"
    with log.open("ab") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", __name__, str(backend.kubeconfig), *parts],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=out,
        )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == b"ready\n", log.read_text()
        yield
        assert process.poll() is None, log.read_text()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


async def run(kubeconfig: str, parts: list[str]) -> None:
    async with KubeClient.from_kubeconfig(kubeconfig) as client:
        manager = Manager(client)
        for part in parts:
            name, _, folder = part.partition("=")
            if folder:
                provisioner.register(manager, Path(folder))
            else:
                PARTS[name].register(manager)  # type: ignore[attr-defined]
        manager.add_task("ready", _say_ready)
        await manager.run()


async def _say_ready() -> None:
    """Begins when every informer has its first list."""
    print("ready", flush=True)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    asyncio.run(run(sys.argv[1], sys.argv[2:]))
