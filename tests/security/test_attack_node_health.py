"""A node that was stopped, cut off or given another clock is Ready again as soon as it can be."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from corral.cluster.node.config import AgentConfig
from corral.cluster.node.registration import Registration
from corral.kube import KubeClient
from corral.kube.resources import NODES
from corral.kube.types import Obj
from tests.backends import Backend
from tests.unit.cluster.node.network_rig import until

SILENT = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown", "message": "silent"}


class Node:
    """A node of the case's own, and its clock."""

    def __init__(self, client: KubeClient, folder: Path, name: str, **times: float) -> None:
        self.client, self.name, self.ahead = client, name, 0.0
        config = AgentConfig(name=name, data_dir=folder, heartbeat=0.05, **times)  # type: ignore[arg-type]
        self.registration = Registration(
            config,
            client,
            gpus=(),
            capacity={"cpu": "1"},
            isolation="root",
            clock=lambda: time.time() + self.ahead,
        )

    async def status(self) -> Obj:
        found = await self.client.get(NODES, self.name)
        return next(one for one in found["status"]["conditions"] if one["type"] == "Ready")


@pytest.fixture
async def client(backend: Backend) -> AsyncIterator[KubeClient]:
    async with KubeClient.from_kubeconfig(str(backend.kubeconfig)) as client:
        yield client


async def kept_alive(node: Node) -> asyncio.Task[None]:
    await node.registration.register()
    return asyncio.create_task(node.registration.keep_alive())


async def gone(node: Node, task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await node.client.delete(NODES, node.name)


@pytest.mark.attack(
    "faults",
    "stops a node until it is given up, so that it stays NotReady for minutes after it goes on",
    "its next heartbeat finds out what is said of it, and says that it is ready",
)
@pytest.mark.parametrize("status", ["Unknown", "False"])
async def test_ready_again_at_the_next_heartbeat(
    status: str, client: KubeClient, tmp_path: Path, unique: str
) -> None:
    node = Node(client, tmp_path, f"stopped-{unique}")
    task = await kept_alive(node)
    try:
        patch = {"status": {"conditions": [{**SILENT, "status": status}]}}
        await client.patch(NODES, node.name, patch=patch, kind="strategic", subresource="status")
        async with asyncio.timeout(30):
            while (await node.status())["status"] != "True":  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    finally:
        await gone(node, task)


@pytest.mark.attack(
    "clock",
    "puts a node's clock back by two years, so that it writes no status for two years",
    "when the next one is due is counted by a clock that cannot be set",
)
@pytest.mark.parametrize("days", [-730, 730])
async def test_status_is_written_whatever_the_clock_says(
    days: int, client: KubeClient, tmp_path: Path, unique: str
) -> None:
    node = Node(client, tmp_path, f"clock-{unique}", status_period=0.1)
    task = await kept_alive(node)
    try:
        node.ahead = days * 86400.0
        before = (await client.get(NODES, node.name))["metadata"]["resourceVersion"]
        version: list[str] = [before]

        async def look() -> None:
            while True:
                version.append((await client.get(NODES, node.name))["metadata"]["resourceVersion"])
                await asyncio.sleep(0.02)

        looking = asyncio.create_task(look())
        try:
            await until(lambda: len(set(version)) >= 3)
        finally:
            looking.cancel()
        assert not task.done()
    finally:
        await gone(node, task)
