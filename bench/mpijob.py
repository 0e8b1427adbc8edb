"""MPIJobs on the real control plane with kwok, against Kubeflow's mpi-operator v0.8.0.

Both operators work on fresh control planes of the same binaries with the same definition, in turns.
Each is up and idle; then many jobs of two workers are created, and the clock runs until the last
pod exists (the launchers' too, which the Job controller makes); then one job of many workers, until
its launcher exists. The peer's limits are raised so that it does not wait for itself; once it also
runs with the limits it comes with. Requests are counted by the API server's audit log, which knows
the operator by its user. ``ratio`` is our jobs a second by those of the peer with raised limits.

What takes longer than five minutes (one with ``--quick``) is stopped, and its time is reckoned from
the part that was done: ``reckoned`` then says what.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import orjson
from apiserver import Client, pool, session
from common import arguments, median, report
from pods import ready_nodes
from trainingjob import Plane, Process, make_space, rounded

from corral.api import all_kinds
from corral.api.kind import Kind
from corral.api.mpi.kinds import MPIJob
from tests.backends import Backend
from tests.cluster.mpijob_peer.programs import our_argv, peer_argv, peer_folder

API = "/apis/kubeflow.org/v2beta1/namespaces/{space}/mpijobs"
PODS = "/api/v1/namespaces/{space}/pods"
LAUNCHERS = "/apis/batch/v1/namespaces/{space}/jobs"
WORKERS = 2
NODES = 20
RAISED = (
    "-kube-api-qps=2000", "-kube-api-burst=4000", "-threadiness=16",
    "-controller-queue-rate-limit=2000", "-controller-queue-burst=4000",
)  # fmt: skip
USER, TOKEN = "nobody", "nobody-token"
"""Who the operator is to the API server, so that its requests are known from all others."""


@dataclass(frozen=True)
class Size:
    """How much is done, and how long it may take."""

    jobs: int
    workers: int
    """Of the one large job."""
    limit: float


class Ours(Process):
    name = "ours"

    def argv(self) -> list[str]:
        return our_argv(self.kubeconfig, f"--health-port={self.health}", "--workers=16")


class Peer(Process):
    """With raised limits."""

    name = "peer"
    flags: tuple[str, ...] = RAISED

    def argv(self) -> list[str]:
        folder = peer_folder()
        assert folder is not None
        return peer_argv(folder, self.kubeconfig, *self.flags)


class PeerByDefault(Peer):
    name = "peer by default"
    flags = ()


def job(name: str, workers: int = WORKERS) -> dict[str, Any]:
    def replica(count: int, program: str) -> dict[str, Any]:
        container = {
            "name": "main",
            "image": "mpioperator/mpi-pi:openmpi",
            "command": [program],
            "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}},
        }
        return {"replicas": count, "template": {"spec": {"containers": [container]}}}

    return {
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "metadata": {"name": name},
        "spec": {
            "slotsPerWorker": 1,
            "mpiReplicaSpecs": {
                "Launcher": replica(1, "mpirun"),
                "Worker": replica(workers, "sshd"),
            },
        },
    }


# --- the control plane ---------------------------------------------------------------------------


class Audited(Plane):
    """Writes down the operator's requests, and only these."""

    @property
    def audit_log(self) -> Path:
        return self.folder / "audit.log"

    def spawn(self, name: str, *argv: str, **env: str) -> subprocess.Popen[bytes]:
        if name == "kube-apiserver":
            policy = self.folder / "audit.json"
            policy.write_text(json.dumps(audit_policy()))
            argv += (f"--audit-policy-file={policy}", f"--audit-log-path={self.audit_log}")
        return super().spawn(name, *argv, **env)

    def operator_kubeconfig(self) -> Path:
        """The operator's own, who may do everything."""
        path = self.folder / "operator.kubeconfig"
        path.write_text(self.kubeconfig.read_text().replace(self.token, TOKEN))
        group = "rbac.authorization.k8s.io"
        binding = {
            "apiVersion": f"{group}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "operator"},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"apiGroup": group, "kind": "User", "name": USER}],
        }
        reply = self.request("POST", f"/apis/{group}/v1/clusterrolebindings", binding)
        if reply.code != 201:
            raise RuntimeError(f"no rights for the operator: {reply.body!r}")
        return path

    def requests(self) -> list[dict[str, Any]]:
        """The operator's requests so far that were answered, without watches."""
        with self.audit_log.open("rb") as file:
            lines = [orjson.loads(line) for line in file if line.endswith(b"\n")]
        return [
            line
            for line in lines
            if line["verb"] != "watch" and line.get("objectRef", {}).get("resource") != "leases"
        ]


def audit_policy() -> dict[str, Any]:
    return {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived", "ResponseStarted"],
        "rules": [{"level": "Metadata", "users": [USER]}, {"level": "None"}],
    }


@contextmanager
def control_plane(folder: Path) -> Iterator[Audited]:
    backend = Audited(folder)
    try:
        backend.start()
        asyncio.run(ready_nodes(backend, NODES))
        asyncio.run(install(backend))
        yield backend
    finally:
        backend.stop()


async def install(backend: Backend) -> None:
    """All our definitions, served; that of MPIJobs is the peer's too."""
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    all_of_them: tuple[type[Kind], ...] = (*all_kinds(), MPIJob)
    kinds = {kind.names.plural: kind for kind in all_of_them}
    async with session(backend) as http:
        client = Client(backend, http)
        for kind in kinds.values():
            await client.send("POST", path, kind.crd())
        for kind in kinds.values():
            names = kind.names
            await served(client, f"/apis/{names.group}/{names.version}/{names.plural}")


async def served(client: Client, path: str) -> None:
    while True:
        try:
            await client.send("GET", path)
        except RuntimeError:
            await asyncio.sleep(0.05)
        else:
            return


# --- what happens --------------------------------------------------------------------------------


class Arrivals:
    """Sees objects come, without their contents; the server may end the watch at any time."""

    def __init__(self, http: aiohttp.ClientSession, url: str) -> None:
        self._http = http
        self._url = f"{url}?watch=1&resourceVersion=0"
        self.seen: dict[str, float] = {}
        """Name → when it was seen first."""
        self._changed = asyncio.Condition()

    async def run(self) -> None:
        accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
        forever = aiohttp.ClientTimeout(total=None)
        while True:
            async with self._http.get(
                self._url, headers={"Accept": accept}, timeout=forever
            ) as answer:
                async for line in answer.content:
                    event = orjson.loads(line)
                    if event["type"] == "ADDED":
                        await self._add(event["object"]["metadata"]["name"])

    async def _add(self, name: str) -> None:
        self.seen.setdefault(name, time.perf_counter())
        async with self._changed:
            self._changed.notify_all()

    async def count(self, wanted: int) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: len(self.seen) >= wanted)


async def all_succeeded(client: Client, space: str, wanted: int) -> None:
    while True:
        items = orjson.loads(await client.send("GET", API.format(space=space)))["items"]
        states = Counter(
            condition["type"]
            for item in items
            for condition in (item.get("status") or {}).get("conditions") or ()
            if condition["status"] == "True"
        )
        if states["Succeeded"] >= wanted:
            return
        await asyncio.sleep(0.5)


async def gone(client: Client, path: str) -> None:
    while True:
        if not orjson.loads(await client.send("GET", path))["items"]:
            return
        await asyncio.sleep(0.2)


async def quiet(backend: Audited) -> list[dict[str, Any]]:
    """All requests, when there are no more for two seconds."""
    found = backend.requests()
    while True:
        await asyncio.sleep(2)
        later = backend.requests()
        if len(later) == len(found):
            return later
        found = later


def per_job(requests: list[dict[str, Any]], jobs: int) -> dict[str, float]:
    """Requests for one job, by verb and resource."""
    calls = Counter(
        f"{r['verb']} {r['objectRef']['resource']}"
        + (f"/{r['objectRef']['subresource']}" if "subresource" in r["objectRef"] else "")
        for r in requests
        if "objectRef" in r
    )
    return {name: round(calls[name] / jobs, 2) for name in sorted(calls)}


class Turn:
    """One operator on one control plane."""

    def __init__(self, backend: Audited, operator: Process, size: Size) -> None:
        self.backend = backend
        self.operator = operator
        self.size = size
        self.found: dict[str, Any] = {"reckoned": []}

    async def run(self) -> dict[str, Any]:
        work, guard = asyncio.create_task(self._work()), asyncio.create_task(self._guard())
        await asyncio.wait((work, guard), return_when=asyncio.FIRST_COMPLETED)
        if guard.done():
            work.cancel()
            await guard
        guard.cancel()
        await work
        return self.found

    async def _guard(self) -> None:
        """Nobody waits for an operator that has ended."""
        while True:
            if self.operator.process.poll() is not None:
                log = self.operator.folder / f"{self.operator.name}.log"
                raise RuntimeError(f"{self.operator.name} has ended:\n{log.read_text()[-2000:]}")
            await asyncio.sleep(0.5)

    async def _work(self) -> None:
        async with session(self.backend) as http:
            client = Client(self.backend, http)
            await self._many(client, http)
            await self._one(client, http)
        self.found["rss_mb"] = self.operator.memory()

    async def _many(self, client: Client, http: aiohttp.ClientSession) -> None:
        space, count = "bench", self.size.jobs
        await make_space(client, space)
        path, each = API.format(space=space), WORKERS + 1
        pods = Arrivals(http, self.backend.server + PODS.format(space=space))
        watching = asyncio.create_task(pods.run())
        async with asyncio.timeout(120):
            await client.send("POST", path, job("warm-up"))
            await pods.count(each)
            await all_succeeded(client, space, 1)
            before = len(await quiet(self.backend))
        memory, cpu = self.operator.memory(), self.operator.cpu()
        began = time.perf_counter()
        await pool(count, lambda n: client.send("POST", path, job(f"job-{n}")))
        took = await self._until(began, pods, each, count * each, "jobs")
        self.found |= {
            "jobs_s": count / took,
            "created_s": took,
            "cpu_created_s": self.operator.cpu() - cpu,
        }
        try:
            async with asyncio.timeout(self.size.limit if took < self.size.limit else 0):
                await all_succeeded(client, space, count + 1)
        except TimeoutError:
            self.found["unfinished"] = True
        else:
            self.found["settled_s"] = time.perf_counter() - began
            self.found["cpu_s"] = self.operator.cpu() - cpu
            self.found["memory_mb"] = self.operator.memory() - memory
            requests = (await quiet(self.backend))[before:]
            self.found["calls"] = per_job(requests, count)
        watching.cancel()

    async def _one(self, client: Client, http: aiohttp.ClientSession) -> None:
        space, workers = "large", self.size.workers
        if "unfinished" in self.found:
            await self._forget(client)
        await make_space(client, space)
        server = self.backend.server
        pods = Arrivals(http, server + PODS.format(space=space))
        launchers = Arrivals(http, server + LAUNCHERS.format(space=space))
        watching = [asyncio.create_task(each.run()) for each in (pods, launchers)]
        cpu = self.operator.cpu()
        began = time.perf_counter()
        await client.send("POST", API.format(space=space), job("large", workers))
        try:
            async with asyncio.timeout(self.size.limit):
                await launchers.count(1)
        except TimeoutError:
            self.found["reckoned"].append("large")
            self.found["large_s"] = (time.perf_counter() - began) * workers / len(pods.seen)
        else:
            self.found["large_s"] = time.perf_counter() - began
            self.found["large_workers_s"] = await self._last_worker(pods, began)
        self.found["large_cpu_s"] = self.operator.cpu() - cpu
        for each in watching:
            each.cancel()

    async def _last_worker(self, pods: Arrivals, began: float) -> float:
        """When the last worker was there; the launcher need not be later."""
        async with asyncio.timeout(self.size.limit):
            await pods.count(self.size.workers)
        workers = [at for name, at in pods.seen.items() if name.startswith("large-worker-")]
        return max(workers) - began

    async def _until(
        self, began: float, pods: Arrivals, before: int, wanted: int, what: str
    ) -> float:
        """Seconds until there are so many more pods, as measured or as reckoned."""
        try:
            async with asyncio.timeout(self.size.limit):
                await pods.count(before + wanted)
        except TimeoutError:
            self.found["reckoned"].append(what)
            return (time.perf_counter() - began) * wanted / (len(pods.seen) - before)
        return time.perf_counter() - began

    async def _forget(self, client: Client) -> None:
        """Take back the jobs that were not done: the next part is not to wait behind them."""
        path = API.format(space="bench")
        await client.send("DELETE", path)
        async with asyncio.timeout(120):
            await gone(client, path)


def turn(kind: type[Process], folder: Path, size: Size) -> dict[str, Any]:
    with control_plane(folder) as backend:
        operator = kind(backend.operator_kubeconfig(), folder)
        operator.start()
        try:
            return asyncio.run(Turn(backend, operator, size).run())
        finally:
            operator.stop()


# --- all of it -----------------------------------------------------------------------------------


def middle(turns: list[dict[str, Any]]) -> dict[str, Any]:
    """The median of every figure that all turns have."""
    numbers = [k for k, v in turns[0].items() if isinstance(v, float)]
    return {k: median([t[k] for t in turns]) for k in numbers if all(k in t for t in turns)}


def in_turns(folder: Path, size: Size, repeats: int) -> dict[str, list[dict[str, Any]]]:
    """Ours and the peer's, the order changing each time."""
    found: dict[str, list[dict[str, Any]]] = {"ours": [], "peer": []}
    for number in range(repeats):
        kinds: list[type[Process]] = [Ours, Peer]
        for kind in kinds if number % 2 == 0 else reversed(kinds):
            figures = turn(kind, folder / f"{kind.name}-{number}", size)
            found[kind.name].append(figures)
            print(kind.name, rounded(figures), flush=True)
    return found


def main() -> None:
    options = arguments(__doc__ or "")
    if peer_folder() is None:
        sys.exit("bench/mpijob.py: mpi-operator could not be built")
    size = Size(40, 100, 60.0) if options.quick else Size(200, 1000, 300.0)
    repeats = options.repeats or (1 if options.quick else 3)
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(
        prefix="corral-bench-", dir=memory if memory.is_dir() else None
    ) as folder:
        found = in_turns(Path(folder), size, repeats)
        default = turn(PeerByDefault, Path(folder) / "default", size)
        print(PeerByDefault.name, rounded(default), flush=True)
    for name, turns in found.items():
        if any("unfinished" in each for each in turns):
            sys.exit(f"bench/mpijob.py: jobs of {name} were not over in time")
    ours, peer = middle(found["ours"]), middle(found["peer"])
    calls = {name: found[name][-1]["calls"] for name in found}
    report(
        {
            "name": "mpijob",
            "ratio": round(ours["jobs_s"] / peer["jobs_s"], 2),
            "ratio_default": round(ours["jobs_s"] / default["jobs_s"], 1),
            "large_ratio": round(peer["large_s"] / ours["large_s"], 2),
            "large_ratio_default": round(default["large_s"] / ours["large_s"], 1),
            "cpu_ratio": round(ours["cpu_s"] / peer["cpu_s"], 2),
            "reckoned_default": default["reckoned"],
            "jobs": size.jobs,
            "workers": size.workers,
            "repeats": repeats,
            "cores": os.cpu_count(),
            "calls_per_job": {
                name: round(median([sum(t["calls"].values()) for t in found[name]]), 1)
                for name in found
            },
            "calls": calls,
            "ours": rounded(ours),
            "peer": rounded(peer),
            "peer_default": rounded(default),
        }
    )


if __name__ == "__main__":
    main()
