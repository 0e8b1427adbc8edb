"""One tenant attacks, another reads: our API server against kube-apiserver with etcd, in one run.

A quiet tenant gets a small object again and again, one read every few milliseconds over one
connection. Measured is the p99 of how long a read takes: before each attack (in peace) and during
it, each time as the median of the p99s of three windows of a thousand reads. The factor of an
attack is the second over the first. A read without an answer counts as ten seconds.

Attackers are on other machines in reality. Here they have one processor, and give way there; the
server has all, and so has the process of the quiet tenant, which (as root) has a higher priority:
what is measured is the server, not who else waits for a processor. All of this is the same for
both servers.

A server that does not live through an attack has lost it; the next attack meets a fresh one.
Memory is that of all processes of a server: after the last attack over before the first, the best
within a minute. The load is bounded and stays on loopback.

``ratio`` is the peer's worst factor over ours; ``kept`` says whether ours stays below 3 in every
attack, no process ends, and memory is back at 1.3 times that before within a minute. ``ONLY``
names attacks and ``SKIP`` servers (embedded, real), by commas, in the environment.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import resource
import sys
import tempfile
from pathlib import Path
from typing import Any

import orjson
from common import arguments, median, memory_mb, report
from fairness_attacks import ATTACKS, LOUD, QUIET, UNDER_WAY, Target, attacker
from fairness_prober import Prober

from tests.backends import Backend, EmbeddedBackend, RealBackend

MEMORY_SECONDS = 60
MOST_FACTOR, MOST_MEMORY = 3.0, 1.3
"""What our own server has to keep: p99 under attack over p99 in peace, memory after over before."""
WINDOWS, READS = 3, 1000
BEGIN_SECONDS = 120.0
"""An attack has what it needs by then, such as a thousand objects to be listed."""
WINDOW_SECONDS = 30.0
"""A window ends after that, however few reads there were."""


class Server:
    """A server under attack: the process group, the tenants, the one who reads."""

    def __init__(self, backend: Backend, quick: bool) -> None:
        self.backend = backend
        self._quick = quick
        self.target: Target
        self._prober: Prober
        self._memory = 0.0

    async def start(self) -> None:
        self.backend.start()
        self.target, token = await prepared(self.backend, self._quick)
        self._prober = Prober(self.target, token)
        await self.p99()
        self._memory = memory_of(self.backend)

    def stop(self) -> None:
        self._prober.close()
        self.backend.stop()

    @property
    def gone(self) -> bool:
        return any(process.poll() is not None for process in self.backend.processes)

    async def p99(self) -> float:
        """Of the quiet tenant's reads, in milliseconds."""
        windows, reads = (1, 300) if self._quick else (WINDOWS, READS)
        return median(
            [p99(await self._prober.reads(reads, WINDOW_SECONDS)) for _ in range(windows)]
        )

    async def under(self, attack: str) -> dict[str, Any]:
        """What one attack does to the quiet tenant."""
        quiet = await self.p99()
        context = multiprocessing.get_context("spawn")
        begun, stop = context.Event(), context.Event()
        process = context.Process(target=attacker, args=(attack, self.target, begun, stop))
        process.start()
        try:
            loop = asyncio.get_running_loop()
            ready = await loop.run_in_executor(None, begun.wait, BEGIN_SECONDS)
            assert ready, f"{attack} did not begin within {BEGIN_SECONDS:.0f} seconds"
            short, full = UNDER_WAY.get(attack, (2.0, 2.0))
            await asyncio.sleep(short if self._quick else full)
            worst = await self.p99()
        finally:
            stop.set()
            await loop.run_in_executor(None, process.join, 30)
            if process.is_alive():
                process.kill()
        found = {"quiet_ms": round(quiet, 2), "attack_ms": round(worst, 2)}
        return {**found, "factor": round(worst / quiet, 1), "gone": self.gone}

    async def memory(self) -> float:
        """After what the attacks stored is deleted, over that before: the best in a minute."""
        async with self.target.session(self.target.admin) as session:
            for plural in ("configmaps", "events", "secrets"):
                async with session.delete(self.target.path(plural)) as answer:
                    await answer.read()
                    assert answer.status == 200, answer.status
        best = memory_of(self.backend) / self._memory
        for _ in range(MEMORY_SECONDS):
            if best <= MOST_MEMORY:
                break
            await asyncio.sleep(1)
            best = min(best, memory_of(self.backend) / self._memory)
        return round(best, 2)


def p99(sorted_times: list[float]) -> float:
    return sorted_times[int(len(sorted_times) * 0.99)]


def memory_of(backend: Backend) -> float:
    """Of its processes and theirs."""
    return sum(_with_children(process.pid) for process in backend.processes)


def _with_children(pid: int) -> float:
    try:
        found = memory_mb(pid)
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        children = [int(one) for task in tasks for one in (task / "children").read_text().split()]
    except OSError:  # it has ended
        return 0.0
    return found + sum(map(_with_children, children))


async def prepared(backend: Backend, quick: bool) -> tuple[Target, str]:
    """Two tenants with all rights in a namespace each: the loud one's view, the quiet's token."""
    target = Target(backend.server, backend.ca_file, "", backend.token, quick)
    async with target.session(backend.token) as session:

        async def post(path: str, body: Any) -> Any:
            async with session.post(backend.server + path, json=body) as answer:
                raw = await answer.read()
                assert answer.status in (201, 409), raw
                return orjson.loads(raw)

        rbac = "/apis/rbac.authorization.k8s.io/v1"
        rule = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
        await post(f"{rbac}/clusterroles", {"metadata": {"name": "tenant"}, "rules": [rule]})
        tokens = {}
        for name in (QUIET, LOUD):
            await post("/api/v1/namespaces", {"metadata": {"name": name}})
            inside = f"/api/v1/namespaces/{name}"
            await post(f"{inside}/serviceaccounts", {"metadata": {"name": "tenant"}})
            subject = {"kind": "ServiceAccount", "name": "tenant", "namespace": name}
            role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole"}
            await post(
                f"{rbac}/namespaces/{name}/rolebindings",
                {
                    "metadata": {"name": "tenant"},
                    "roleRef": {**role, "name": "tenant"},
                    "subjects": [subject],
                },
            )
            made = await post(f"{inside}/serviceaccounts/tenant/token", {"spec": {}})
            tokens[name] = made["status"]["token"]
        await post(
            f"/api/v1/namespaces/{QUIET}/configmaps",
            {"metadata": {"name": "small"}, "data": {"a": "b"}},
        )
        return target._replace(token=tokens[LOUD]), tokens[QUIET]


async def measure(kind: type[Backend], folder: Path, quick: bool) -> dict[str, Any]:
    """All attacks on one server."""
    only = os.environ.get("ONLY", "")
    out: dict[str, Any] = {"restarted": False}
    server = await started(kind, folder / "0", quick)
    try:
        for number, attack in enumerate(one.__name__ for one in ATTACKS):
            if only and attack not in only.split(","):
                continue
            if server.gone:
                server.stop()
                server = await started(kind, folder / f"{number}", quick)
            out[attack] = await server.under(attack)
            out["restarted"] |= out[attack]["gone"]
            print(kind.name, attack, out[attack], file=sys.stderr, flush=True)
            await asyncio.sleep(1.0)
        out["memory"] = None if server.gone else await server.memory()
        out["restarted"] |= server.gone
    finally:
        server.stop()
    return out


async def started(kind: type[Backend], folder: Path, quick: bool) -> Server:
    backend = kind(folder, controllers=False)  # type: ignore[call-arg]
    server = Server(backend, quick)
    try:
        await server.start()
    except BaseException:
        backend.stop()
        raise
    return server


def main() -> None:
    options = arguments(__doc__ or "")
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for kind in (EmbeddedBackend, RealBackend):
            if kind.name not in os.environ.get("SKIP", "").split(","):
                work = measure(kind, Path(folder) / kind.name, options.quick)
                found[kind.name] = asyncio.run(work)
    report({"name": "fairness", **summary(found)})


def summary(found: dict[str, dict[str, Any]]) -> dict[str, Any]:
    def factors(name: str) -> dict[str, float]:
        attacks = found.get(name, {}).items()
        return {attack: one["factor"] for attack, one in attacks if isinstance(one, dict)}

    ours, theirs = factors("embedded"), factors("real")
    worst, worst_peer = (max(one.values(), default=0.0) for one in (ours, theirs))
    return {
        "ratio": round(worst_peer / worst, 2) if ours and theirs else 0.0,
        "ratios": {attack: round(theirs[attack] / ours[attack], 2) for attack in ours if theirs},
        "kept": bool(ours) and kept(found["embedded"], worst),
        "worst": worst,
        "worst_peer": worst_peer,
        "median": median([*ours.values()]) if ours else 0,
        "median_peer": median([*theirs.values()]) if theirs else 0,
        "ours": found.get("embedded"),
        "peer": found.get("real"),
    }


def kept(ours: dict[str, Any], worst: float) -> bool:
    """Whether our server kept what it has to."""
    if ours["memory"] is None or ours["restarted"]:
        return False
    return worst <= MOST_FACTOR and bool(ours["memory"] <= MOST_MEMORY)


if __name__ == "__main__":
    main()
