"""The job, cron job and time-to-live controllers as a process: ``python -m ... KUBECONFIG``.

Prints ``ready`` when they run; ends by a signal.
"""

from __future__ import annotations

import asyncio
import logging
import sys

from corral.cluster.workloads.cronjob import controller as cronjob
from corral.cluster.workloads.job import controller as job
from corral.cluster.workloads.job import ttl_controller as ttl
from corral.kube.client import KubeClient
from corral.runtime import Manager


async def run(kubeconfig: str) -> None:
    async with KubeClient.from_kubeconfig(kubeconfig) as client:
        manager = Manager(client)
        for part in (job, cronjob, ttl):
            part.register(manager)
        manager.add_task("ready", _say_ready)
        await manager.run()


async def _say_ready() -> None:
    """Begins when every informer has its first list."""
    print("ready", flush=True)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    asyncio.run(run(sys.argv[1]))
