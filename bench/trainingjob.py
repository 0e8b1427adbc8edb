"""TrainingJobs of two replicas on the real control plane with kwok, against an operator on kopf.

Both operators do the same work on a fresh control plane of the same binaries, in turns: for every
job a service account, two services, a network policy, two pods and a status. The operator is up and
idle; then all jobs are created, and the clock runs until the last pod exists. ``ratio`` is our
jobs a second by the peer's. Also: when every job says Running; how long one job takes alone; the
time of our reconciles; what memory, CPU and requests jobs cost. Ours shares its work among several
processes where there are cores for them. Where there are not, also ``ceiling``: the ratio that an
operator would have which costs nothing, as a client that knows beforehand what to create and only
creates it; where the control plane shares few cores with the operators, nobody can go beyond it.
"""

from __future__ import annotations

import asyncio
import math
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import orjson
from apiserver import Client, pool, session
from common import arguments, cpu_seconds, median, memory_mb, report
from pods import Theirs, ready_nodes

from corral.api import all_kinds
from tests.backends import Backend
from tests.backends.base import free_port
from tests.e2e.clusters import children
from tests.faults.audit import Audit
from tests.faults.plan import FaultPlan
from tests.faults.proxy import FaultProxy

JOBS = "/apis/training.corral.dev/v1alpha1/namespaces/{space}/trainingjobs"
PEER = Path(__file__).parent / "trainingjob_kopf.py"
REPLICAS = 2
LIMIT = 900.0
OBJECTS = {
    "pods": ("/api/v1/namespaces/{space}/pods", REPLICAS),
    "services": ("/api/v1/namespaces/{space}/services", 2),
    "serviceaccounts": ("/api/v1/namespaces/{space}/serviceaccounts", 1),
    "networkpolicies": ("/apis/networking.k8s.io/v1/namespaces/{space}/networkpolicies", 1),
}
"""What every job has, by path and number."""


class Process(ABC):
    """An operator of either kind."""

    name = ""

    def __init__(self, kubeconfig: Path, folder: Path) -> None:
        self.kubeconfig = kubeconfig
        self.folder = folder
        self.health = free_port()

    @abstractmethod
    def argv(self) -> list[str]:
        """What to run."""

    def start(self) -> None:
        log = (self.folder / f"{self.name}.log").open("ab")
        environ = {**os.environ, "KUBECONFIG": str(self.kubeconfig)}
        self.process = subprocess.Popen(
            self.argv(), stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=environ
        )
        log.close()

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def memory(self) -> float:
        return sum(memory_mb(pid) for pid in self._pids())

    def cpu(self) -> float:
        return sum(cpu_seconds(pid) for pid in self._pids())

    def _pids(self) -> list[int]:
        """It and those who share its work."""
        return [self.process.pid, *children(self.process.pid)]

    def reconcile_time(self) -> dict[str, float]:
        """Milliseconds, where the operator measures it."""
        return {}


class Ours(Process):
    name = "ours"

    def argv(self) -> list[str]:
        return [
            sys.executable, "-m", "corral.cli.main", "operator",
            "--kubeconfig", str(self.kubeconfig), *OPTIONS,
            "--health-port", str(self.health), "--processes", str(PROCESSES),
        ]  # fmt: skip

    def reconcile_time(self) -> dict[str, float]:
        pattern = r'reconcile_time_seconds_bucket\{controller="trainingjob",le="([^"]+)"\} (\S+)'
        counts: Counter[float] = Counter()
        for port in range(self.health, self.health + PROCESSES):
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
                text = answer.read().decode()
            for le, count in re.findall(pattern, text):
                counts[float(le)] += float(count)
        buckets = sorted(counts.items())
        return {
            "count": buckets[-1][1],
            "p50": round(quantile(buckets, 0.5) * 1000, 1),
            "p99": round(quantile(buckets, 0.99) * 1000, 1),
        }


class Peer(Process):
    name = "kopf"

    def argv(self) -> list[str]:
        return [sys.executable, "-m", "kopf", "run", "--all-namespaces", "--standalone", str(PEER)]


PROCESSES = min(4, max(1, (os.cpu_count() or 1) // 8))
"""Of our operator, where the control plane leaves it cores; one on small machines."""
OPTIONS = (
    "--no-leader-elect",
    "--webhook-port",
    "-1",
    "--report-port",
    "-1",
    "--namespace=default",
)
"""Of our operator: what the peer does not do either is off."""


def quantile(buckets: list[tuple[float, float]], share: float) -> float:
    """Of a histogram, with the values of a bucket spread evenly; as Prometheus does."""
    wanted, below, least = buckets[-1][1] * share, 0.0, 0.0
    for limit, count in buckets:
        if count >= wanted:
            if math.isinf(limit):
                return least
            return least + (limit - least) * (wanted - below) / max(1.0, count - below)
        least, below = limit, count
    return least


def job(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "training.corral.dev/v1alpha1",
        "kind": "TrainingJob",
        "metadata": {"name": name},
        "spec": {
            "framework": "pytorch",
            "replicas": REPLICAS,
            "image": "python:3.12",
            "command": ["python", "train.py"],
            "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
        },
    }


# --- one turn ------------------------------------------------------------------------------------


class Watcher:
    """Sees pods come, without their contents."""

    def __init__(self, client: aiohttp.ClientSession, backend: Backend, space: str) -> None:
        self._client = client
        self._url = backend.server + OBJECTS["pods"][0].format(space=space)
        self.seen: dict[str, float] = {}
        """Pod → when it was seen first."""
        self._changed = asyncio.Condition()

    async def run(self) -> None:
        accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
        while True:  # a server ends watches after some minutes; those who come again see all anew
            async with self._client.get(
                f"{self._url}?watch=1&resourceVersion=0",
                headers={"Accept": accept},
                timeout=aiohttp.ClientTimeout(total=None),
            ) as answer:
                answer.raise_for_status()
                async for line in answer.content:
                    await self._take(orjson.loads(line))

    async def _take(self, event: dict[str, Any]) -> None:
        name = event["object"]["metadata"]["name"]
        if event["type"] == "ADDED" and name not in self.seen:
            self.seen[name] = time.perf_counter()
            async with self._changed:
                self._changed.notify_all()

    async def count(self, wanted: int) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: len(self.seen) >= wanted)


async def all_running(client: Client, space: str, wanted: int) -> None:
    path = JOBS.format(space=space)
    while True:
        items = orjson.loads(await client.send("GET", path))["items"]
        phases = Counter((item.get("status") or {}).get("phase") for item in items)
        if phases["Running"] >= wanted:
            return
        await asyncio.sleep(0.5)


async def check(client: Client, space: str, jobs: int) -> None:
    """Every object of every job is there: fast is only who did the work."""
    for kind, (path, each) in OBJECTS.items():
        found = orjson.loads(await client.send("GET", path.format(space=space)))["items"]
        ours = [item for item in found if item["metadata"].get("ownerReferences")]
        if len(ours) != jobs * each:
            raise RuntimeError(f"{len(ours)} {kind} for {jobs} jobs")


async def make_space(client: Client, space: str) -> None:
    await client.send("POST", "/api/v1/namespaces", {"metadata": {"name": space}})
    path = f"/api/v1/namespaces/{space}/serviceaccounts/default"
    while True:
        try:
            await client.send("GET", path)
        except RuntimeError:
            await asyncio.sleep(0.05)
        else:
            return


async def measure(backend: Backend, operator: Process, count: int, alone: int) -> dict[str, float]:
    """One turn of one operator."""
    async with session(backend) as http, asyncio.TaskGroup() as group:
        client = Client(backend, http)
        space = "bench"
        await make_space(client, space)
        path = JOBS.format(space=space)
        watcher = Watcher(http, backend, space)
        watching = group.create_task(watcher.run())
        async with asyncio.timeout(LIMIT):
            await client.send("POST", path, job("warm-up"))
            await watcher.count(REPLICAS)
            await all_running(client, space, 1)
            memory, cpu = operator.memory(), operator.cpu()
            began = time.perf_counter()
            await pool(count, lambda n: client.send("POST", path, job(f"job-{n}")))
            accepted = time.perf_counter() - began
            await watcher.count(REPLICAS * (count + 1))
            created = time.perf_counter() - began
            await all_running(client, space, count + 1)
            settled = time.perf_counter() - began
            await check(client, space, count + 1)
            out = {
                "jobs_s": count / created,
                "accepted_s": accepted,
                "created_s": created,
                "settled_s": settled,
                "memory_mb": operator.memory() - memory,
                "cpu_s": operator.cpu() - cpu,
                "plane_cpu_s": sum(cpu_seconds(p.pid) for p in backend.processes),
            }
            out |= await one_by_one(client, watcher, alone)
        watching.cancel()
        return out


async def one_by_one(client: Client, watcher: Watcher, count: int) -> dict[str, float]:
    """Milliseconds from a job to its pods when there is nothing else to do."""
    path, delays = JOBS.format(space="bench"), []
    for number in range(count):
        before = len(watcher.seen)
        began = time.perf_counter()
        await client.send("POST", path, job(f"alone-{number}"))
        await watcher.count(before + REPLICAS)
        delays.append((time.perf_counter() - began) * 1000)
        await asyncio.sleep(0.2)
    delays.sort()
    return {"alone_p50_ms": median(delays), "alone_max_ms": delays[-1]}


# --- control planes ------------------------------------------------------------------------------


async def install(backend: Backend) -> None:
    """The definitions of our kinds, served."""
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    async with session(backend) as http:
        client = Client(backend, http)
        for kind in all_kinds():
            await client.send("POST", path, kind.crd())
        while True:
            try:
                await client.send("GET", JOBS.format(space="default"))
            except RuntimeError:
                await asyncio.sleep(0.05)
            else:
                return


class Plane(Theirs):
    """All of it; what is done with pods afterwards yields to those who create them.

    In a cluster it would be done on other machines.
    """

    def spawn(self, name: str, *argv: str, **env: str) -> subprocess.Popen[bytes]:
        if name in ("etcd", "kube-apiserver"):
            # they have memory to spare, and what collecting it takes is not what is measured
            return super().spawn(name, *argv, GOGC="400", **env)
        process = super().spawn(name, "nice", "-n", "5", *argv, **env)
        group = Path(f"/proc/{process.pid}/autogroup")
        if group.exists():  # then a session has a share of its own, whatever its processes say
            group.write_text("5")
        return process


@contextmanager
def control_plane(folder: Path, nodes: int) -> Iterator[Backend]:
    backend = Plane(folder)
    try:
        backend.start()
        asyncio.run(ready_nodes(backend, nodes))
        asyncio.run(install(backend))
        yield backend
    finally:
        backend.stop()


def turn(kind: type[Process], folder: Path, count: int, alone: int) -> dict[str, Any]:
    with control_plane(folder, math.ceil(REPLICAS * count / 200) + 1) as backend:
        operator = kind(backend.kubeconfig, folder)
        operator.start()
        try:
            found: dict[str, Any] = asyncio.run(measure(backend, operator, count, alone))
            found["reconcile_ms"] = operator.reconcile_time()
        finally:
            operator.stop()
    return found


def nobody(folder: Path, count: int) -> float:
    """Jobs a second where their objects are created by whoever creates the jobs."""
    with control_plane(folder, math.ceil(REPLICAS * count / 200) + 1) as backend:
        return asyncio.run(bare(backend, count))


async def bare(backend: Backend, count: int) -> float:
    async with session(backend) as http, asyncio.TaskGroup() as group:
        client, space = Client(backend, http), "bench"
        await make_space(client, space)
        watcher = Watcher(http, backend, space)
        watching = group.create_task(watcher.run())

        async def one(number: int) -> None:
            made = orjson.loads(
                await client.send("POST", JOBS.format(space=space), job(f"job-{number}"))
            )
            for kind, body in objects_of(made):
                await client.send("POST", OBJECTS[kind][0].format(space=space), body)

        async with asyncio.timeout(LIMIT):
            began = time.perf_counter()
            await pool(count, one)
            await watcher.count(REPLICAS * count)
            took = time.perf_counter() - began
            await check(client, space, count)
        watching.cancel()
        return count / took


def objects_of(made: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The objects of a job, as the peer makes them."""
    import kopf
    import trainingjob_kopf as peer

    name, spec = made["metadata"]["name"], made["spec"]
    pods = [peer.pod(name, "bench", spec, index) for index in range(spec["replicas"])]
    bodies = [
        ("serviceaccounts", peer.account(name)),
        ("services", peer.headless_service(name)),
        ("services", peer.master_service(name)),
        ("networkpolicies", peer.network_policy(name)),
        *(("pods", pod) for pod in pods),
    ]
    for kind, body in bodies:
        kopf.adopt(body, owner=kopf.Body(made))
        yield kind, body


def audited(kind: type[Process], folder: Path, count: int) -> dict[str, float]:
    """Requests per job by verb and resource, counted on the way to the server."""
    audit = Audit()
    with (
        control_plane(folder, 2) as backend,
        FaultProxy(backend, folder, FaultPlan(0), name=kind.name, audit=audit) as proxy,
    ):
        operator = kind(proxy.kubeconfig, folder)
        operator.start()
        try:
            asyncio.run(counted(backend, audit, count))
        finally:
            operator.stop()
    calls = Counter(
        f"{entry.verb} {entry.target.resource}"
        for entry in audit
        if entry.verb not in ("list", "watch")
        and entry.target.resource not in ("", "leases", "secrets")
    )
    return {name: round(calls[name] / (count + 1), 2) for name in sorted(calls)}


async def counted(backend: Backend, audit: Audit, count: int) -> None:
    async with session(backend) as http:
        client, space = Client(backend, http), "bench"
        await make_space(client, space)
        path = JOBS.format(space=space)
        async with asyncio.timeout(LIMIT):
            await client.send("POST", path, job("warm-up"))
            await all_running(client, space, 1)
            await pool(count, lambda n: client.send("POST", path, job(f"job-{n}")))
            await all_running(client, space, count + 1)
            before = -1
            while len(audit.entries) > before:  # until it is quiet
                before = len(audit.entries)
                await asyncio.sleep(1)


# --- all of it -----------------------------------------------------------------------------------


def rounded(values: dict[str, Any]) -> dict[str, Any]:
    return {k: round(v, 2) if isinstance(v, float) else v for k, v in values.items()}


def middle(turns: list[dict[str, Any]]) -> dict[str, Any]:
    """The median of every figure."""
    return {
        k: median([t[k] for t in turns]) for k, v in turns[0].items() if not isinstance(v, dict)
    }


def main() -> None:
    options = arguments(__doc__ or "")
    count = 100 if options.quick else 1000
    repeats = options.repeats or (1 if options.quick else 3)
    found: dict[str, list[dict[str, Any]]] = {"ours": [], "kopf": []}
    ceilings: list[float] = []
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(
        prefix="corral-bench-", dir=memory if memory.is_dir() else None
    ) as folder:
        for number in range(repeats):
            kinds: list[type[Process]] = [Ours, Peer]
            for kind in kinds if number % 2 == 0 else reversed(kinds):
                place = Path(folder) / f"{kind.name}-{number}"
                figures = turn(kind, place, count, 5 if options.quick else 20)
                found[kind.name].append(figures)
                print(kind.name, rounded(figures), flush=True)
            if PROCESSES == 1:
                alone = nobody(Path(folder) / f"nobody-{number}", count)
                ceilings.append(alone)
                print(f"nobody {alone:.2f} jobs a second", flush=True)
        calls = {
            kind.name: audited(kind, Path(folder) / f"{kind.name}-calls", 20)
            for kind in (Ours, Peer)
        }
    ours, peer = middle(found["ours"]), middle(found["kopf"])
    report(
        {
            "name": "trainingjob",
            "ratio": round(ours["jobs_s"] / peer["jobs_s"], 2),
            **({"ceiling": round(median(ceilings) / peer["jobs_s"], 2)} if ceilings else {}),
            "cpu_ratio": round(peer["cpu_s"] / ours["cpu_s"], 2),
            "jobs": count,
            "repeats": repeats,
            "cores": os.cpu_count(),
            "processes": PROCESSES,
            "reconcile_ms": found["ours"][-1]["reconcile_ms"],
            "memory_mb_per_1000": {
                "ours": round(ours["memory_mb"] * 1000 / count, 1),
                "kopf": round(peer["memory_mb"] * 1000 / count, 1),
            },
            "calls_per_job": {name: round(sum(each.values()), 1) for name, each in calls.items()},
            "calls": calls,
            "ours": rounded(ours),
            "kopf": rounded(peer),
        }
    )


if __name__ == "__main__":
    main()
