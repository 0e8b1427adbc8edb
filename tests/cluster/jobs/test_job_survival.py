"""Jobs whose controller is killed again and again: no pod too many, none lost, none twice."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress

import pytest

from corral.kube.client import KubeClient
from corral.kube.resources import JOBS, PODS
from corral.kube.types import Obj
from tests.backends import Backend
from tests.cluster.jobs.player import Loops, Node, finished
from tests.cluster.jobs.stage import TRACKING, job_body

KILLS = 12
PODS_WANTED = 240


@pytest.fixture
def killable(backend: Backend) -> Loops:
    if backend.name == "real":
        pytest.skip("kube-controller-manager is not ours to kill")
    return Loops(backend)


@pytest.mark.parametrize("mode", ["NonIndexed", "Indexed"])
async def test_killed_again_and_again(
    mode: str, killable: Loops, namespace: str, kubeconfig: str
) -> None:
    rng = random.Random(mode)
    async with KubeClient.from_kubeconfig(kubeconfig) as client:
        node = Node(client, namespace)
        playing = asyncio.create_task(node.run())
        try:
            body = job_body("many", completions=PODS_WANTED, parallelism=30, completionMode=mode)
            await client.create(JOBS, body, namespace=namespace)
            for _ in range(KILLS):
                await asyncio.to_thread(killable.start)
                await asyncio.sleep(rng.uniform(0.0, 0.6))
                await asyncio.to_thread(killable.kill)
            await asyncio.to_thread(killable.start)
            job = await finished(client, namespace, "many", 90)
            await _check(client, namespace, job, node)
        finally:
            playing.cancel()
            with suppress(asyncio.CancelledError):
                await playing
            await asyncio.to_thread(killable.kill)


async def _check(client: KubeClient, namespace: str, job: Obj, node: Node) -> None:
    status = job["status"]
    assert (status["succeeded"], status.get("failed", 0)) == (PODS_WANTED, 0)
    assert not any(status["uncountedTerminatedPods"].values())
    assert len(node.seen) == PODS_WANTED
    pods = (await client.list_all(PODS, namespace))["items"]
    assert len(pods) == PODS_WANTED
    assert not [pod for pod in pods if TRACKING in pod["metadata"].get("finalizers", ())]
