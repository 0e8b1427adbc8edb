"""Jobs whose controller is killed again and again: no pod too many, none lost, none twice."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from contextlib import suppress

import pytest

from corral.kube.client import KubeClient
from corral.kube.resources import JOBS, NAMESPACES, PODS
from corral.kube.types import Obj
from tests.backends import Backend, EmbeddedBackend
from tests.cluster.jobs.player import Loops, Node, finished
from tests.cluster.jobs.stage import TRACKING, job_body

KILLS = 12
PODS_WANTED = 240


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backend]:
    """A server with no controllers but those that are killed."""
    backend = EmbeddedBackend(tmp_path_factory.mktemp("bare"), controllers=False)
    try:
        backend.start()
        yield backend
    finally:
        backend.stop()


@pytest.mark.parametrize("mode", ["NonIndexed", "Indexed"])
async def test_killed_again_and_again(mode: str, bare: Backend) -> None:
    killable, rng, namespace = Loops(bare), random.Random(mode), mode.lower()
    async with KubeClient.from_kubeconfig(str(bare.kubeconfig)) as client:
        await client.create(NAMESPACES, {"metadata": {"name": namespace}})
        node = Node(client, namespace)
        playing = asyncio.create_task(node.run())
        try:
            body = job_body("many", completions=PODS_WANTED, parallelism=30, completionMode=mode)
            await client.create(JOBS, body, namespace=namespace)
            for _ in range(KILLS):
                killable.start()
                # The process needs some of this to begin.
                await asyncio.sleep(rng.uniform(0.4, 2.0))
                await asyncio.to_thread(killable.kill)
            killable.start()
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
