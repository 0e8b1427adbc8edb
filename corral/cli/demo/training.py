"""The TrainingJob of the demo: three replicas that learn a line together, one of which is killed.

The script needs nothing but Python and `corral.inpod`: replica 0 collects the gradients of all and
sends back their mean, checkpoints go to a claim, and progress comes from its reports.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing

from corral.api.training.kinds import CHECKPOINTS, TRAININGJOBS
from corral.kube import KubeClient, errors
from corral.kube.resources import PODS
from corral.kube.types import Obj

__all__ = ["train"]

NAME = "line"
STEPS = 80
KILL_AT = 30
_SECONDS = 120


async def train(client: KubeClient, namespace: str, say: Callable[[str], None]) -> str:
    """Run it to its end, kill a replica on the way, and say what came of it."""
    job = await client.create(TRAININGJOBS, _job(namespace))
    watch = client.watch(
        TRAININGJOBS,
        namespace,
        field_selector=f"metadata.name={NAME}",
        resource_version=job["metadata"]["resourceVersion"],
    )
    killed_at, status = 0, Obj()
    async with asyncio.timeout(_SECONDS), aclosing(watch) as events:
        async for event in events:
            status = event.object.get("status") or {}
            say(_shown(status))
            assert status.get("phase") != "Failed", status.get("failure")
            if status.get("phase") == "Succeeded":
                break
            step = (status.get("progress") or {}).get("step", 0)
            if not killed_at and step >= KILL_AT and (status.get("checkpoint") or {}).get("last"):
                killed_at = step
                await _kill(client, namespace)
    return await _told(client, namespace, status, killed_at)


async def _kill(client: KubeClient, namespace: str) -> None:
    try:
        await client.delete(PODS, f"{NAME}-1", namespace=namespace, grace_seconds=0)
    except errors.NotFound:
        return  # it was quicker


async def _told(client: KubeClient, namespace: str, status: Obj, killed_at: int) -> str:
    progress = status["progress"]
    assert progress["step"] == STEPS, progress
    loss = progress["metrics"]["loss"]
    assert loss < 0.01, f"it learned too little: {loss}"
    restored = (status.get("checkpoint") or {}).get("restoredFrom")
    if not killed_at or not restored:
        return f"3 replicas, {STEPS} steps, loss {loss:.4f}"
    found = await client.get(CHECKPOINTS, restored, namespace=namespace)
    return (
        f"3 replicas, loss {loss:.4f}; one killed after step {killed_at}, "
        f"resumed from the checkpoint of step {found['spec']['step']}"
    )


def _shown(status: Obj) -> str:
    progress, replicas = status.get("progress") or {}, status.get("replicas") or {}
    text = f"training: {replicas.get('ready', 0)} of 3 replicas"
    if "step" in progress:
        loss = (progress.get("metrics") or {}).get("loss")
        text += f", step {progress['step']} of {STEPS}, loss {loss:.4f}"
    restarts = replicas.get("restarts", 0)
    return f"{text}, {restarts} restarts" if restarts else text


def _job(namespace: str) -> Obj:
    return {
        "metadata": {"name": NAME, "namespace": namespace},
        "spec": {
            "framework": "custom",
            "replicas": 3,
            "image": "python:3.12",
            "command": ["python", "-c", _SCRIPT],
            "env": [{"name": "STEPS", "value": str(STEPS)}],
            "checkpoint": {
                "interval": "1s",
                "storage": {"pvc": {"size": "10Mi"}},
                # every one stays, so that the one that was resumed from can be told
                "retention": {"keepLast": 100},
            },
        },
    }


_SCRIPT = """
import json, os, random, socket, time
import corral.inpod as corral

me, world = int(os.environ["CORRAL_REPLICA"]), int(os.environ["CORRAL_REPLICAS"])
job, namespace = os.environ["CORRAL_JOB"], os.environ["CORRAL_NAMESPACE"]
steps, master = int(os.environ["STEPS"]), (f"{job}-0.{job}.{namespace}.svc", 7000)
chance = random.Random(me)
shard = [(x, 3 * x - 1 + chance.gauss(0, 0.05))
         for x in (chance.uniform(-1, 1) for _ in range(2000))]

def patiently(attempt):
    while True:
        try:
            return attempt()
        except OSError:
            time.sleep(0.02)

if me == 0:
    server = patiently(lambda: socket.create_server(master))
    peers = [server.accept()[0].makefile("rw") for _ in range(world - 1)]
else:
    peers = [patiently(lambda: socket.create_connection(master)).makefile("rw")]

def send(value):
    for peer in peers:
        print(json.dumps(value), file=peer, flush=True)

def receive():
    return [json.loads(peer.readline()) for peer in peers]

def mean(parts):
    return [sum(numbers) / len(parts) for numbers in zip(*parts)]

def save(folder):
    with open(os.path.join(folder, "line.json"), "w") as file:
        json.dump([slope, offset], file)

state = corral.restore()
slope, offset = 0.0, 0.0
if state:
    with open(os.path.join(state, "line.json")) as file:
        slope, offset = json.load(file)
for step in range(state.step + 1 if state else 1, steps + 1):
    errors = [(slope * x + offset - y, x) for x, y in shard]
    mine = mean([(2 * e * x, 2 * e, e * e) for e, x in errors])
    if me == 0:
        together = mean([mine, *receive()])
        send(together)
    else:
        send(mine)
        together = receive()[0]
    slope, offset = slope - 0.3 * together[0], offset - 0.3 * together[1]
    corral.report(step=step, total=steps, loss=together[2])
    corral.maybe_checkpoint(save, step=step, metrics={"loss": together[2]})
    time.sleep(0.05)
corral.flush()
"""
