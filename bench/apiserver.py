"""Our API server against kube-apiserver with etcd: the same work, in turns, in one run.

Measured: creates and patches a second, gets a second, lists of 5,000 objects, one change seen by
100 watchers; readiness and memory with 10,000 objects. ``ratio`` is the geometric mean of
ours/theirs over the five.
"""

from __future__ import annotations

import asyncio
import math
import ssl
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import orjson
from common import arguments, cpu_seconds, median, memory_mb, report

from tests.backends import Backend, EmbeddedBackend, RealBackend

CONCURRENCY = 64


class Client:
    """A plain HTTP client, the same for both servers."""

    def __init__(self, backend: Backend, session: aiohttp.ClientSession) -> None:
        self._base = backend.server
        self._session = session

    async def send(self, method: str, path: str, body: Any = None, kind: str = "json") -> bytes:
        headers = {"Content-Type": f"application/{kind}"} if body is not None else {}
        data = orjson.dumps(body) if body is not None else None
        async with self._session.request(
            method, self._base + path, data=data, headers=headers
        ) as answer:
            raw = await answer.read()
            if answer.status >= 300:
                raise RuntimeError(f"{method} {path}: {answer.status} {raw[:300]!r}")
            return raw

    def stream(self, path: str) -> Any:
        return self._session.get(self._base + path, timeout=aiohttp.ClientTimeout(total=None))


def session(backend: Backend) -> aiohttp.ClientSession:
    tls = ssl.create_default_context(cafile=backend.ca_file)
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(ssl=tls, limit=0),
        headers={"Authorization": f"Bearer {backend.token}", "Accept-Encoding": "identity"},
    )


def pod(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": "bench", "role": "worker"}},
        "spec": {
            "containers": [
                {
                    "name": "main",
                    "image": "python:3.12",
                    "command": ["python", "train.py"],
                    "env": [{"name": "RANK", "value": "1"}, {"name": "WORLD_SIZE", "value": "8"}],
                    "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
                }
            ],
            "restartPolicy": "Never",
        },
    }


async def pool(count: int, work: Callable[[int], Awaitable[Any]]) -> float:
    """Operations a second with a fixed number at a time."""
    numbers = iter(range(count))

    async def worker() -> None:
        for number in numbers:
            await work(number)

    began = time.perf_counter()
    await asyncio.gather(*(worker() for _ in range(min(CONCURRENCY, count))))
    return count / (time.perf_counter() - began)


async def writes(client: Client, space: str, count: int) -> dict[str, float]:
    base = f"/api/v1/namespaces/{space}/pods"
    creates = await pool(count, lambda n: client.send("POST", base, pod(f"p{n}")))
    status = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
    patches = await pool(
        count,
        lambda n: client.send("PATCH", f"{base}/p{n}/status", status, "merge-patch+json"),
    )
    gets = await pool(2 * count, lambda n: client.send("GET", f"{base}/p{n % count}"))
    return {"creates": creates, "patches": patches, "gets": gets}


async def lists(client: Client, space: str, repeats: int) -> float:
    path = f"/api/v1/namespaces/{space}/pods"
    await client.send("GET", path)
    began = time.perf_counter()
    for _ in range(repeats):
        await client.send("GET", path)
    return repeats / (time.perf_counter() - began)


async def fan_out(client: Client, space: str, watchers: int, events: int) -> float:
    """Events delivered a second, over all watchers."""
    path = f"/api/v1/namespaces/{space}/configmaps"
    version = orjson.loads(await client.send("GET", path + "?limit=1"))["metadata"][
        "resourceVersion"
    ]
    ready = asyncio.Semaphore(0)

    async def watch() -> None:
        url = f"{path}?watch=1&resourceVersion={version}&labelSelector=fan%3Dout"
        async with client.stream(url) as answer:
            ready.release()
            left = events
            async for chunk in answer.content.iter_any():
                left -= chunk.count(b"\n")
                if left <= 0:
                    return

    tasks = [asyncio.create_task(watch()) for _ in range(watchers)]
    for _ in range(watchers):
        await ready.acquire()
    began = time.perf_counter()

    def made(number: int) -> Awaitable[bytes]:
        body = {
            "metadata": {"name": f"w{number}", "labels": {"fan": "out"}},
            "data": {"k": "v" * 200},
        }
        return client.send("POST", path, body)

    await pool(events, made)
    async with asyncio.timeout(120):
        await asyncio.gather(*tasks)
    return watchers * events / (time.perf_counter() - began)


async def measure(backend: Backend, turn: int, size: dict[str, int]) -> dict[str, float]:
    async with session(backend) as made:
        client = Client(backend, made)
        space = f"bench-{turn}"
        await client.send("POST", "/api/v1/namespaces", {"metadata": {"name": space}})
        await client.send(
            "POST",
            f"/api/v1/namespaces/{space}/serviceaccounts",
            {"metadata": {"name": "default"}},
        ) if backend.name == "real" else await settled(client, space)
        out = await writes(client, space, size["writes"])
        out["lists"] = await lists(client, "listed", size["lists"])
        out["fan_out"] = await fan_out(client, space, 100, size["events"])
        await client.send("DELETE", f"/api/v1/namespaces/{space}/pods?gracePeriodSeconds=0")
        await client.send("DELETE", f"/api/v1/namespaces/{space}/configmaps")
        return out


async def settled(client: Client, space: str) -> None:
    """Wait for the namespace's default service account."""
    path = f"/api/v1/namespaces/{space}/serviceaccounts/default"
    async with asyncio.timeout(10):
        while True:
            try:
                await client.send("GET", path)
                return
            except RuntimeError:
                await asyncio.sleep(0.01)


async def memory_of(backend: Backend, objects: int) -> float:
    """Resident memory with this many pods in the server, listed once."""
    await fill(backend, objects)
    async with session(backend) as made:
        await Client(backend, made).send("GET", "/api/v1/namespaces/listed/pods")
    return memory_mb(backend.processes[0].pid)


def frugality(folder: Path, objects: int) -> dict[str, Any]:
    """What a fresh server of ours needs: time to be ready, memory."""
    server = EmbeddedBackend(folder)
    began = time.perf_counter()
    server.start()
    ready = time.perf_counter() - began
    try:
        rss = asyncio.run(memory_of(server, objects))
    finally:
        server.stop()
    return {"ready_s": round(ready, 2), "objects": objects, "rss_mb": round(rss)}


async def fill(backend: Backend, count: int) -> None:
    """The objects that lists are made of."""
    async with session(backend) as made:
        client = Client(backend, made)
        await client.send("POST", "/api/v1/namespaces", {"metadata": {"name": "listed"}})
        if backend.name == "real":
            await client.send(
                "POST", "/api/v1/namespaces/listed/serviceaccounts",
                {"metadata": {"name": "default"}},
            )  # fmt: skip
        else:
            await settled(client, "listed")
        path = "/api/v1/namespaces/listed/pods"
        await pool(count, lambda n: client.send("POST", path, pod(f"listed-{n}")))


def main() -> None:
    options = arguments(__doc__ or "")
    quick = options.quick
    size = {"writes": 300 if quick else 2000, "lists": 3 if quick else 10}
    size |= {"events": 50 if quick else 300}
    listed = 500 if quick else 5000
    repeats = options.repeats or (1 if quick else 3)
    with tempfile.TemporaryDirectory() as folder:
        ours, theirs = (
            EmbeddedBackend(Path(folder) / "ours"),
            RealBackend(Path(folder) / "theirs", controllers=False),
        )
        try:
            extra = frugality(Path(folder) / "fresh", 1000 if quick else 10_000)
            ours.start()
            theirs.start()
            figures = asyncio.run(run([ours, theirs], repeats, size, listed))
            extra |= {
                "rss_mb_after": round(memory_mb(ours.processes[0].pid)),
                "rss_mb_peer": round(sum(memory_mb(p.pid) for p in theirs.processes)),
                "cpu_s": round(cpu_seconds(ours.processes[0].pid), 1),
                "cpu_s_peer": round(sum(cpu_seconds(p.pid) for p in theirs.processes), 1),
            }
        finally:
            ours.stop()
            theirs.stop()
    report({"name": "apiserver", **summary(figures), **extra})


async def run(
    backends: list[Backend], repeats: int, size: dict[str, int], listed: int
) -> dict[str, list[dict[str, float]]]:
    for backend in backends:
        await fill(backend, listed)
    out: dict[str, list[dict[str, float]]] = {b.name: [] for b in backends}
    for turn in range(repeats):
        for backend in backends if turn % 2 == 0 else reversed(backends):
            found = await measure(backend, turn, size)
            print(backend.name, {k: round(v, 1) for k, v in found.items()}, file=sys.stderr)
            out[backend.name].append(found)
    return out


def summary(figures: dict[str, list[dict[str, float]]]) -> dict[str, Any]:
    ours = {k: median([r[k] for r in figures["embedded"]]) for k in figures["embedded"][0]}
    theirs = {k: median([r[k] for r in figures["real"]]) for k in ours}
    ratios = {k: ours[k] / theirs[k] for k in ours}
    ratio = math.prod(ratios.values()) ** (1 / len(ratios))
    return {
        "ratio": round(ratio, 2),
        "ratios": {k: round(v, 2) for k, v in ratios.items()},
        "ours": {k: round(v, 1) for k, v in ours.items()},
        "peer": {k: round(v, 1) for k, v in theirs.items()},
    }


if __name__ == "__main__":
    main()
