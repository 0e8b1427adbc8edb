"""A seeded schedule of faults against `corral up`: in pairs, each for a while.

`Faults` does them and waits until all of it is back; `Ledger` writes meanwhile, and knows what the
API server acknowledged.
"""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import socket
import ssl
import subprocess
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from hashlib import sha256
from http.client import HTTPException
from pathlib import Path
from typing import TypeVar

from tests.cluster.jobs_api.manifests_of_jobs import training
from tests.cluster.objects import Objects, eventually
from tests.e2e.clusters import Up, children
from tests.faults.clock import DAY, Clock
from tests.faults.disks import Disk, ReadOnly

__all__ = ["NODES", "Faults", "FaultyUp", "Ledger", "keepers", "memory_of", "reached"]

NODES = ("corral-1", "corral-2")
PARTS = (*NODES, "scheduler", "workloads", "operator", "gateway", "broker", "apiserver")
OWNED = (
    ("default", "v1", "configmaps", "kube-root-ca.crt"),
    ("default", "v1", "serviceaccounts", "default"),
    ("default", "v1", "secrets", "corral-kafka"),
    ("default", "v1", "services", "kubernetes"),
    ("kube-node-lease", "coordination.k8s.io/v1", "leases", NODES[0]),
)
"""What parts of the cluster made and look after: namespace, version, kind, name."""
T = TypeVar("T")
_UNREACHED = (OSError, ssl.SSLError, EOFError, HTTPException, AssertionError)


class FaultyUp(Up):
    """`corral up` by a clock that the case sets, on a disk that it makes read-only."""

    def __init__(self, folder: Path, clock: Clock, read_only: ReadOnly, *options: str) -> None:
        super().__init__(folder, *options)
        self.clock, self.read_only = clock, read_only
        self.temporary = folder / "tmp"
        """Where all that is started has its temporary files."""
        self.temporary.mkdir(parents=True)

    def spawn(self, name: str, *argv: str, **env: str) -> subprocess.Popen[bytes]:
        both = [self.clock.environment, self.read_only.environment]
        libraries = {"LD_PRELOAD": ":".join(each["LD_PRELOAD"] for each in both)}
        temporary = {"TMPDIR": str(self.temporary)}
        return super().spawn(name, *argv, **env, **(both[0] | both[1] | libraries | temporary))


def reached(ask: Callable[[], T]) -> T | None:
    """An answer of the API server; None while it cannot be reached, or refuses (a full disk)."""
    try:
        return ask()
    except _UNREACHED:
        return None


class Faults:
    """What is done to one cluster; each for a while, two at a time."""

    def __init__(self, up: FaultyUp, disk: Disk, rng: random.Random) -> None:
        self.up, self.disk, self.rng = up, disk, rng
        self.done: Counter[str] = Counter()
        self.hit: Counter[str] = Counter()
        """Which parts were killed or stopped, and what was deleted."""
        self.ledger = Ledger(up)
        self._turn = 0

    def turn(self) -> str:
        """A pair of faults, held for a while and then taken away; says which."""
        kinds = self.rng.sample(
            [
                self.full, self.refusing, self.read_only, self.killed, self.stopped, self.clock,
                self.deleted,
            ], 2,
        )  # fmt: skip
        # one who asks a stopped server waits: what asks comes first
        kinds.sort(key=lambda kind: kind != self.deleted)
        names = "+".join(kind.__name__ for kind in kinds)
        with ExitStack() as stack:
            for kind in kinds:
                stack.enter_context(kind())
                self.done[kind.__name__] += 1
            if self.stopped not in kinds:  # who asks one that is stopped waits
                self.ledger.write()
            time.sleep(self.rng.uniform(0.3, 3.0))  # how long the fault lasts
        return names

    # -- one at a time ---------------------------------------------------------------------------

    @contextmanager
    def full(self) -> Iterator[None]:
        """No room on the disk of the cluster."""
        self.disk.fill()
        try:
            yield
        finally:
            self.disk.free()

    @contextmanager
    def refusing(self) -> Iterator[None]:
        """Every write of the API server is refused."""
        pid = self.up.parts().get("apiserver", 0)
        unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
        with suppress(ProcessLookupError):
            if pid:
                resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
        try:
            yield
        finally:
            with suppress(ProcessLookupError):
                if pid:
                    resource.prlimit(pid, resource.RLIMIT_FSIZE, unlimited)

    @contextmanager
    def read_only(self) -> Iterator[None]:
        """No part changes anything on the disk of the cluster."""
        self.up.read_only.set(True)
        try:
            yield
        finally:
            self.up.read_only.set(False)

    @contextmanager
    def killed(self) -> Iterator[None]:
        """Two of the parts, and of the keepers of networks and containers, are killed."""
        for pid in self._victims():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        yield

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Two of them are stopped, and go on."""
        victims = self._victims()
        for pid in victims:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in victims:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

    def _victims(self) -> list[int]:
        parts = self.up.parts()
        there = [(name, parts[name]) for name in PARTS if name in parts]
        there += [("keeper of networks", pid) for pid in keepers(self.up.data)]
        there += [
            ("keeper of containers", pid)
            for name in NODES
            for pid in children(parts.get(name, 0))
            if name in parts
        ]
        chosen = self.rng.sample(there, min(2, len(there)))
        self.hit.update(name for name, _ in chosen)
        return [pid for _, pid in chosen]

    @contextmanager
    def clock(self) -> Iterator[None]:
        """The clock jumps, and is put right."""
        self.up.clock.set(self.rng.choice([-730, -1, 1, 400, 730]) * DAY)
        try:
            yield
        finally:
            self.up.clock.set(0)

    @contextmanager
    def deleted(self) -> Iterator[None]:
        """Objects that others own are deleted: a pod of the load, and what a part looks after."""
        objects = Objects(self.up, "default")
        names = sorted(reached(lambda: objects.names("v1", "pods")) or ())
        if names:
            victim = self.rng.choice(names)
            self._delete("default", "v1", "pods", victim)
        self._delete(*self.rng.choice(OWNED))
        yield

    def _delete(self, namespace: str, version: str, plural: str, name: str) -> None:
        objects = Objects(self.up, namespace)

        def delete() -> bool:
            objects.delete(version, plural, name)
            return True

        if reached(delete):
            self.hit[f"{plural} deleted"] += 1

    # -- afterwards ------------------------------------------------------------------------------

    def returned(self) -> None:
        """All of it is back by itself: every part does its work, and what was deleted is there."""
        up, objects = self.up, Objects(self.up, "default")
        eventually(lambda: set(PARTS) <= set(up.parts()), seconds=120)
        eventually(lambda: reached(lambda: ready_nodes(objects)) == len(NODES), seconds=120)
        for namespace, version, plural, name in OWNED:
            place = Objects(up, namespace)
            eventually(lambda p=place, o=(version, plural, name): reached(lambda: p.find(*o)),
                       seconds=60)  # fmt: skip
        eventually(lambda: len(keepers(up.data)) == len(NODES), seconds=60)
        eventually(lambda: reached(self.ledger.write_one), seconds=60)
        self._operator_works()
        eventually(lambda: reached(lambda: gateway_serves(up)), seconds=60)
        eventually(lambda: reached(lambda: broker_serves(up)), seconds=60)

    def _operator_works(self) -> None:
        """It says of a new job what it is to say."""
        self._turn += 1
        name, objects = f"asked-{self._turn}", Objects(self.up, "default")
        made = training(name, suspend=True)
        version, plural = made["apiVersion"], "trainingjobs"

        def is_there() -> bool:
            """One that was made though the answer was lost is there too."""
            return objects.find(version, plural, name) is not None or bool(
                objects.create(plural, made)
            )

        def phase() -> object:
            found = objects.find(version, plural, name) or {}
            return (found.get("status") or {}).get("phase")

        def gone() -> bool:
            objects.delete(version, plural, name)
            return objects.find(version, plural, name) is None

        eventually(lambda: reached(is_there), seconds=60)
        eventually(lambda: reached(phase), seconds=60)
        eventually(lambda: reached(gone), seconds=60)


class Ledger:
    """Objects that are written while faults last: what was acknowledged is there for good."""

    def __init__(self, up: FaultyUp) -> None:
        self._up = up
        self._count = 0
        self.kept: dict[str, str] = {}
        """Name → what it says, of all that the API server said it had."""

    def write(self, count: int = 3) -> None:
        """As many as are taken."""
        for _ in range(count):
            reached(self.write_one)

    def write_one(self) -> bool:
        """Whether it was acknowledged."""
        self._count += 1
        name, text = f"ledger-{self._count}", str(self._count) * 50
        about = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
        Objects(self._up, "default").create("configmaps", {**about, "data": {"text": text}})
        self.kept[name] = text
        return True

    def judge(self) -> None:
        """Nothing of it is lost, or says something else."""
        reply = self._up.request("GET", "/api/v1/namespaces/default/configmaps")
        assert reply.code == 200, reply.body
        found = {
            item["metadata"]["name"]: (item.get("data") or {}).get("text")
            for item in reply.json()["items"]
        }
        lost = {name for name, text in self.kept.items() if found.get(name) != text}
        assert not lost, f"acknowledged, and not there: {sorted(lost)}"


def gateway_serves(up: FaultyUp) -> bool:
    url = json.loads((up.data / "gateway.json").read_text())["url"]
    with urllib.request.urlopen(f"{url}/readyz", context=up.tls(), timeout=10) as answer:
        return bool(answer.status == 200)


def broker_serves(up: FaultyUp) -> bool:
    """It answers what it may be asked before a login: which requests there are."""
    host, _, port = json.loads((up.data / "broker.json").read_text())["bootstrap"].rpartition(":")
    with socket.create_connection((host, int(port)), 10) as sock:
        sock.settimeout(10)
        sock.sendall(b"\0\0\0\x0a" + b"\0\x12\0\0" + b"\0\0\0\x07" + b"\xff\xff")
        return sock.recv(8, socket.MSG_WAITALL)[4:] == b"\0\0\0\x07"


def ready_nodes(objects: Objects) -> int:
    reply = objects.backend.request("GET", "/api/v1/nodes")
    if reply.code != 200:
        return 0
    return sum(
        condition["status"] == "True"
        for node in reply.json()["items"]
        for condition in node["status"].get("conditions", ())
        if condition["type"] == "Ready"
    )


def memory_of(data: Path) -> list[str]:
    """How the folders in memory of a cluster's nodes begin."""
    folders = [str((data / "nodes" / name).resolve()) for name in NODES]
    return [f"/dev/shm/corral-{sha256(path.encode()).hexdigest()[:12]}-" for path in folders]


def keepers(data: Path) -> list[int]:
    """The processes that hold the networks of a cluster's pods."""
    places = [place.encode() for place in memory_of(data)]
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                words = (entry / "cmdline").read_bytes().split(b"\0")
                if any(word.endswith(b"network/keeper.py") for word in words) and any(
                    word.startswith(place) for word in words for place in places
                ):
                    found.append(int(entry.name))
    return sorted(found)
