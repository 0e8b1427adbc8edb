"""Our scheduler as a process of its own: ``python -m … KUBECONFIG NAME``."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys

from corral.cluster.scheduler import register
from corral.kube import KubeClient
from corral.runtime import Manager


async def main(kubeconfig: str, name: str) -> None:
    logging.basicConfig(level=logging.INFO)
    async with KubeClient.from_kubeconfig(kubeconfig) as client:
        manager = Manager(client)
        register(manager, scheduler_name=name)
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, manager.stop)
        await manager.run()


asyncio.run(main(*sys.argv[1:]))
