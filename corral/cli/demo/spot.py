"""The SpotInstanceJob of the demo: its machine is killed, and it goes on elsewhere.

Machines are node agents that the operator starts on this computer. The script counts, and has what
it reached in checkpoints; the last line that it says is where it went on from.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path

from corral.api.spot.kinds import SPOTINSTANCEJOBS, SPOTINSTANCEVMS
from corral.clouds import VmRef
from corral.clouds.local import LocalProvider, LocalSettings
from corral.kube import KubeClient, errors
from corral.kube.resources import PODS
from corral.kube.types import Obj

__all__ = ["survive"]

NAME = "spot"
STEPS = 60
_TRAINED_S = 2.0
"""For how long it trains before its machine is killed; it saves every second."""
_SECONDS = 120


async def survive(
    client: KubeClient, namespace: str, machines: Path, say: Callable[[str], None]
) -> str:
    """Run it to its end, kill its machine on the way, and say what came of it.

    ``machines`` is the folder of local machines.
    """
    spec: Obj = {"local": {}}
    body: Obj = {"metadata": {"name": "here"}, "spec": spec}
    await client.create(SPOTINSTANCEVMS, body, namespace=namespace)
    job = await client.create(SPOTINSTANCEJOBS, _job(), namespace=namespace)
    watch = client.watch(
        SPOTINSTANCEJOBS,
        namespace,
        field_selector=f"metadata.name={NAME}",
        resource_version=job["metadata"]["resourceVersion"],
    )
    killed, again, status = 0.0, 0.0, Obj()
    async with asyncio.timeout(_SECONDS), aclosing(watch) as events:
        async for event in events:
            status = event.object.get("status") or {}
            phase = status.get("phase")
            say(f"spot job: {phase or 'Pending'}, {status.get('message') or ''}")
            assert phase != "Failed", status.get("message")
            if phase == "Succeeded":
                break
            if phase == "Running" and not killed:
                await asyncio.sleep(_TRAINED_S)
                await _kill(machines, status)
                killed = time.monotonic()
            elif phase == "Running" and (status.get("cost") or {}).get("losses") and not again:
                again = time.monotonic()
    words = await _last_words(client, namespace)
    assert killed and again and status["cost"]["losses"] == 1, status
    return f"its machine was killed; ran on another after {again - killed:.1f} s, {words}"


async def _kill(machines: Path, status: Obj) -> None:
    """As when a machine breaks: without a word."""
    provider = LocalProvider(LocalSettings(folder=machines))
    for placement in status["placements"]:
        if not placement.get("endTime"):
            await provider.kill(VmRef(placement["instance"], placement["zone"]))


async def _last_words(client: KubeClient, namespace: str) -> str:
    selector = f"training.dcnlab.com/spot-instance-job={NAME}"
    pods = await client.list_all(PODS, namespace, label_selector=selector)
    done = [pod for pod in pods["items"] if pod["status"].get("phase") == "Succeeded"]
    for pod in done:
        path = f"/api/v1/namespaces/{namespace}/pods/{pod['metadata']['name']}/log"
        try:
            detail = await client.request("GET", path)
        except errors.ApiError:
            continue  # its machine is gone already, and the log with it
        return detail.decode().strip().splitlines()[-1]
    return f"to step {STEPS}"


def _job() -> Obj:
    container = {
        "name": "trainer",
        "image": "python:3.12",
        "command": ["python", "-c", _SCRIPT],
        "env": [{"name": "STEPS", "value": str(STEPS)}],
    }
    pod = {"restartPolicy": "Never", "containers": [container]}
    return {
        "metadata": {"name": NAME},
        "spec": {
            "replicas": 1,
            "jobTemplate": {"spec": {"template": {"spec": pod}}},
            "checkpointConfig": {
                "checkpointImageRepo": "registry.corral.local/demo",
                "checkpointInterval": "1s",
                "checkpointStorage": {"type": "local"},
            },
            "spotInstanceVMRef": {"name": "here"},
        },
    }


_SCRIPT = """
import os, time
import corral.inpod as corral

steps = int(os.environ["STEPS"])
state = corral.restore()
first = state.step if state else 0
for step in range(first + 1, steps + 1):
    time.sleep(0.08)
    corral.report(step=step, total=steps)
    corral.maybe_checkpoint(lambda folder: (folder / "step").write_text(str(step)), step=step)
corral.flush()
print(f"from step {first} to {steps}", flush=True)
"""
