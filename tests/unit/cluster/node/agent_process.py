"""An agent as a process of its own, to be killed: KUBECONFIG FOLDER NAME MODE."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from corral.cluster.node.agent import Agent, AgentConfig
from corral.kube.client import KubeClient


async def main(kubeconfig: str, folder: str, name: str, mode: str) -> None:
    async with KubeClient.from_kubeconfig(kubeconfig) as client:
        config = AgentConfig(
            name=name,
            data_dir=Path(folder),
            isolation=mode,
            gpus=(),
            host_access=("path",),
            serve=False,  # type: ignore
        )
        agent = Agent(config, client)
        await agent.start()
        print("ready", flush=True)
        await agent.wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
