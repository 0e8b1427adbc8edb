"""500 pods to Running and to gone, against the real control plane with kwok.

Ours runs each pod as a process; kwok only says so. Both on this machine, in turns: create all pods,
wait until the last is Running; delete them all, wait until the last is gone. ``ratio`` compares the
whole time. Of ours alone: the time from `corral up` to ready, from a create to the running process
(which writes down when it began), and the CPU that an idle cluster takes.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import orjson
from apiserver import Client, pool, session
from common import arguments, cpu_seconds, median, report

from tests.backends import Backend, RealBackend, real_binaries
from tests.e2e.clusters import Up, children

SPACE = "/api/v1/namespaces/default/pods"


class Ours(Up):
    """``corral up``, with room for all pods."""

    name = "ours"

    def __init__(self, folder: Path, pods: int) -> None:
        super().__init__(folder, "--max-pods", str(pods + 50))
        self.ready_s = 0.0

    def start(self) -> None:
        began = time.perf_counter()
        super().start()
        self.ready_s = time.perf_counter() - began

    def cpu(self) -> float:
        """CPU seconds of all parts so far."""
        parent = self.process.pid
        return sum(cpu_seconds(pid) for pid in (parent, *children(parent)))


class Theirs(RealBackend):
    """etcd, kube-apiserver, kube-controller-manager, kube-scheduler, and kwok for the nodes."""

    name = "real + kwok"

    def start(self) -> None:
        super().start()
        binaries = real_binaries()
        self.spawn(
            "kwok", str(binaries / "kwok"), f"--kubeconfig={self.kubeconfig}",
            "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
            f"--config={binaries / 'kwok-stages.yaml'}", "--node-lease-duration-seconds=40",
            "--cidr=10.0.0.1/24", "--node-ip=10.0.0.1",
        )  # fmt: skip


def kwok_node(number: int) -> dict[str, Any]:
    capacity = {"cpu": "64", "memory": "256Gi", "pods": "250"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": f"kwok-{number}", "annotations": {"kwok.x-k8s.io/node": "fake"}},
        "status": {"capacity": capacity, "allocatable": capacity},
    }


def pod(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": "bench"}},
        "spec": {
            "restartPolicy": "Never",
            "containers": [
                {"name": "main", "image": "busybox", "command": ["sleep", "100000"]},
            ],
        },
    }


async def until(client: Client, count: int, what: str) -> None:
    """Watch until ``count`` pods are Running, or gone."""
    good: set[str] = set()
    listed = orjson.loads(await client.send("GET", SPACE))
    version = listed["metadata"]["resourceVersion"]
    events = [{"type": "ADDED", "object": item} for item in listed["items"]]
    there = {item["metadata"]["name"] for item in listed["items"]}

    def done() -> bool:
        return len(good) >= count if what == "Running" else not there

    def take(event: dict[str, Any]) -> None:
        name = event["object"]["metadata"]["name"]
        if event["type"] == "DELETED":
            there.discard(name)
        else:
            there.add(name)
            if event["object"]["status"].get("phase") == "Running":
                good.add(name)

    for event in events:
        take(event)
    while not done():
        path = f"{SPACE}?watch=1&resourceVersion={version}&allowWatchBookmarks=true"
        async with client.stream(path) as answer:
            async for line in answer.content:
                event = orjson.loads(line)
                version = event["object"]["metadata"]["resourceVersion"]
                if event["type"] != "BOOKMARK":
                    take(event)
                if done():
                    return


async def measure(backend: Backend, count: int, turn: int) -> tuple[float, float]:
    async with session(backend) as http:
        client = Client(backend, http)
        began = time.perf_counter()
        waiting = asyncio.create_task(until(client, count, "Running"))
        await pool(count, lambda n: client.send("POST", SPACE, pod(f"p{turn}-{n}")))
        async with asyncio.timeout(300):
            await waiting
        running = time.perf_counter() - began
        began = time.perf_counter()
        await pool(count, lambda n: client.send("DELETE", f"{SPACE}/p{turn}-{n}"))
        async with asyncio.timeout(300):
            await until(client, count, "gone")
        return running, time.perf_counter() - began


async def latencies(backend: Backend, count: int) -> list[float]:
    """Milliseconds from the request to the running process, which writes down when it began."""
    found: list[float] = []
    async with session(backend) as http:
        client = Client(backend, http)
        for number in range(count):
            body = pod(f"one-{number}")
            command = ["sh", "-c", "date +%s%N; exec sleep 100000"]
            body["spec"]["containers"][0]["command"] = command
            began = time.time_ns()
            await client.send("POST", SPACE, body)
            await until(client, 1, "Running")
            text = b""
            while not text.strip():
                text = await client.send("GET", f"{SPACE}/one-{number}/log")
            found.append((int(text.split()[0]) - began) / 1e6)
            await client.send("DELETE", f"{SPACE}/one-{number}?gracePeriodSeconds=0")
            await until(client, 1, "gone")
    return found


async def idle_percent(ours: Ours, seconds: float) -> float:
    """What a cluster without work takes of one core."""
    before = ours.cpu()
    await asyncio.sleep(seconds)
    return (ours.cpu() - before) / seconds * 100


async def ready_nodes(backend: Backend, count: int) -> None:
    async with session(backend) as http:
        client = Client(backend, http)
        if isinstance(backend, Theirs):
            for number in range(count):
                await client.send("POST", "/api/v1/nodes", kwok_node(number))
        while True:
            nodes = orjson.loads(await client.send("GET", "/api/v1/nodes"))["items"]
            conditions = [c for n in nodes for c in n["status"].get("conditions") or ()]
            ready = [c for c in conditions if c["type"] == "Ready" and c["status"] == "True"]
            accounts = await client.send("GET", "/api/v1/namespaces/default/serviceaccounts")
            if len(ready) >= count and orjson.loads(accounts)["items"]:
                return
            await asyncio.sleep(0.05)


def main() -> None:
    options = arguments(__doc__ or "")
    count = 100 if options.quick else 500
    repeats = options.repeats or (2 if options.quick else 3)
    results: dict[str, list[tuple[float, float]]] = {"ours": [], "real + kwok": []}
    ready: list[float] = []
    delays: list[float] = []
    idle: list[float] = []
    # both keep their data in memory: the peer's etcd does, without waiting for a disk
    memory = Path("/dev/shm")
    place_of_all = memory if memory.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="corral-bench-", dir=place_of_all) as folder:
        for turn in range(repeats):
            for kind in ("ours", "real + kwok"):
                place = Path(folder) / f"{kind[:4]}{turn}"
                backend: Backend = Ours(place, count) if kind == "ours" else Theirs(place)
                try:
                    backend.start()
                    wanted = 1 if kind == "ours" else 10
                    asyncio.run(ready_nodes(backend, wanted))
                    if isinstance(backend, Ours):
                        ready.append(backend.ready_s)
                        delays += asyncio.run(latencies(backend, 10 if options.quick else 30))
                        idle.append(asyncio.run(idle_percent(backend, 5 if options.quick else 15)))
                    took = asyncio.run(measure(backend, count, turn))
                finally:
                    backend.stop()
                results[kind].append(took)
                print(f"{kind}: Running {took[0]:.2f} s, gone {took[1]:.2f} s", flush=True)
    ours, theirs = results["ours"], results["real + kwok"]
    report(
        {
            "name": "pods",
            "ratio": round(median([sum(t) for t in theirs]) / median([sum(t) for t in ours]), 3),
            "pods": count,
            "repeats": repeats,
            "cores": os.cpu_count(),
            "ready_s": round(median(ready), 2),
            "create_to_process_ms": {
                "p50": round(median(delays), 1),
                "p90": round(sorted(delays)[int(len(delays) * 0.9)], 1),
            },
            "idle_cpu_percent": round(median(idle), 2),
            "running_s": {
                "ours": median([t[0] for t in ours]),
                "peer": median([t[0] for t in theirs]),
            },
            "gone_s": {
                "ours": median([t[1] for t in ours]),
                "peer": median([t[1] for t in theirs]),
            },
        }
    )


if __name__ == "__main__":
    try:
        main()
    except subprocess.TimeoutExpired as err:
        sys.exit(f"bench/pods.py: {err}")
