"""A million log lines followed from a pod while it writes them, against ``kubectl logs -f``.

Ours goes CLI → gateway → API server → node agent, kubectl goes to the same API server for the same
kind of pod; in turns. The pod waits until it is followed, then writes as fast as it can. Each line
is checked afterwards: none lost, none twice, all in order. Memory of every process is looked at
while the lines pass. One more turn of ours has its connection to the gateway cut in the middle.

``ratio`` is megabytes a second of ours by those of kubectl; the gateway and its exact positions are
what ours has more to do.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from common import arguments, cpu_seconds, median, memory_mb, report

from tests.backends import real_binaries
from tests.e2e.clusters import CORRAL, Up

WIDTH = 150
"""Bytes of a line."""
PARTS = ("apiserver", "gateway", "corral-1")
LIMIT = 200.0
"""Seconds for one turn."""
WRITER = """
import os, time
count, width, go = {count}, {width}, {go!r}
pad = b"x" * (width - 10)
block = b"".join(b"%09d%s\\n" % (n, pad) for n in range(count))
print("ready", flush=True)
while not os.path.exists(go):
    time.sleep(0.005)
view = memoryview(block)
while view:
    view = view[os.write(1, view[:1 << 16]):]
print("end", flush=True)
time.sleep(100000)
"""


@dataclass
class Taken:
    """What one turn gave."""

    seconds: float
    bytes: int
    memory: dict[str, list[float]] = field(default_factory=dict)
    cpu: dict[str, float] = field(default_factory=dict)
    cuts: int = 0

    @property
    def rate(self) -> float:
        """Megabytes a second."""
        return self.bytes / 1e6 / self.seconds

    def growth(self, part: str) -> float:
        """Megabytes between a fifth of the way and the most after it."""
        seen = self.memory[part]
        start = seen[len(seen) // 5]
        return max(0.0, max(seen[len(seen) // 5 :]) - start)


class Relay:
    """A door to the gateway that is slammed after some bytes, once."""

    def __init__(self, port: int, after: int) -> None:
        self._target, self._left = port, after
        self.cuts = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            far = socket.create_connection(("127.0.0.1", self._target))
            for source, sink, counted in ((near, far, False), (far, near, True)):
                threading.Thread(
                    target=self._copy, args=(source, sink, counted), daemon=True
                ).start()

    def _copy(self, source: socket.socket, sink: socket.socket, counted: bool) -> None:
        try:
            while data := source.recv(1 << 18):
                if counted and not self.cuts:
                    self._left -= len(data)
                    if self._left <= 0:
                        self.cuts += 1
                        break
                sink.sendall(data)
        except OSError:
            pass
        for one in (source, sink):
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


class Cluster:
    """``corral up``, and the jobs in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.up = Up(folder / "cluster")
        self.kubectl = self._kubectl()

    @staticmethod
    def _kubectl() -> str:
        there = real_binaries() / "kubectl"
        return str(there) if there.exists() else shutil.which("kubectl") or ""

    @property
    def gateway(self) -> str:
        return str(json.loads((self.up.data / "gateway.json").read_text())["url"])

    def start_job(self, name: str, count: int) -> tuple[str, Path]:
        """A training whose pod waits for its word; the pod, and the file that is the word."""
        go = self.folder / f"go-{name}"
        code = WRITER.format(count=count, width=WIDTH, go=str(go))
        job = {
            "apiVersion": "training.corral.dev/v1alpha1",
            "kind": "TrainingJob",
            "metadata": {"name": name},
            "spec": {
                "framework": "custom", "replicas": 1, "image": "python:3.12",
                "command": ["python", "-c", code],
                "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
            },
        }  # fmt: skip
        path = "/apis/training.corral.dev/v1alpha1/namespaces/default/trainingjobs"
        wait_until(lambda: self.up.request("POST", path, job).code == 201, "the job")
        pods = f"/api/v1/namespaces/default/pods?labelSelector=trainingjob%3D{name}"

        def running() -> str:
            items = self.up.request("GET", pods).json()["items"]
            found = [p for p in items if p["status"].get("phase") == "Running"]
            return str(found[0]["metadata"]["name"]) if found else ""

        pod = wait_until(running, "the pod")
        log = f"/api/v1/namespaces/default/pods/{pod}/log"
        wait_until(lambda: self.up.request("GET", log).body == b"ready\n", "the writer")
        return pod, go

    def end_job(self, name: str) -> None:
        path = f"/apis/training.corral.dev/v1alpha1/namespaces/default/trainingjobs/{name}"
        self.up.request("DELETE", f"{path}?propagationPolicy=Foreground")
        pods = f"/api/v1/namespaces/default/pods?labelSelector=trainingjob%3D{name}"
        wait_until(lambda: not self.up.request("GET", pods).json()["items"], "the pod's end")

    def ours(self, name: str, gateway: str) -> list[str]:
        return [*CORRAL, "logs", "-f", f"trainingjob/{name}", "--gateway", gateway]

    def peer(self, pod: str) -> list[str]:
        return [self.kubectl, "logs", "-f", pod, "--kubeconfig", str(self.up.kubeconfig)]

    def environment(self) -> dict[str, str]:
        more = {"CORRAL_TOKEN": self.up.token, "CORRAL_CA": self.up.ca_file}
        return {**os.environ, **more, "HOME": str(self.folder)}


def wait_until(condition: Any, what: str, seconds: float = 60.0) -> Any:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := condition():
            return found
        time.sleep(0.05)
    raise TimeoutError(f"waited too long for {what}")


@contextmanager
def sampling(pids: dict[str, int]) -> Iterator[dict[str, list[float]]]:
    """Resident memory of processes, ten times a second."""
    seen: dict[str, list[float]] = {name: [] for name in pids}
    stop = threading.Event()

    def look() -> None:
        while True:
            for name, pid in pids.items():
                try:
                    seen[name].append(memory_mb(pid))
                except OSError:
                    continue
            if stop.wait(0.1):
                return

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield seen
    finally:
        stop.set()
        thread.join()


def follow(cluster: Cluster, argv: list[str], go: Path, out: Path) -> Taken:
    """Run a follower, say the word when it shows the first line, and take what it prints."""
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, env=cluster.environment())
    assert process.stdout is not None
    source = process.stdout.fileno()
    guard = threading.Timer(LIMIT, process.kill)
    guard.start()
    parts = cluster.up.parts()
    pids = {**{name: parts[name] for name in PARTS}, "follower": process.pid}
    try:
        first = os.read(source, 1 << 16)
        assert first == b"ready\n", first
        before = {name: cpu_seconds(pid) for name, pid in pids.items()}
        with sampling(pids) as memory, out.open("wb") as target:
            began = time.perf_counter()
            go.touch()
            size, last = 0, b""
            while data := os.read(source, 1 << 20):
                target.write(data)
                size += len(data)
                last = (last + data)[-8:]
                if last.endswith(b"\nend\n"):
                    break
            seconds = time.perf_counter() - began
            cpu = {name: cpu_seconds(pid) - before[name] for name, pid in pids.items()}
    finally:
        guard.cancel()
        process.kill()
        process.wait()
        process.stdout.close()
    return Taken(seconds, size, memory, cpu)


def check(out: Path, count: int) -> None:
    """Every line once and in order."""
    tail = b"x" * (WIDTH - 10) + b"\n"
    with out.open("rb") as lines:
        for number, line in enumerate(lines):
            if number == count:
                if line == b"end\n" and not lines.read(1):
                    return
                break
            if line[:9] != b"%09d" % number or line[9:] != tail:
                break
    raise AssertionError(f"line {number} is wrong: {line[:60]!r}")


def turn(cluster: Cluster, kind: str, number: int, count: int, *, cut: int = 0) -> Taken:
    name = f"{kind}-{number}"
    pod, go = cluster.start_job(name, count)
    out = cluster.folder / f"out-{name}"
    relay: Relay | None = None
    gateway = cluster.gateway
    if cut:
        relay = Relay(int(gateway.rpartition(":")[2]), cut)
        gateway = f"https://127.0.0.1:{relay.port}"
    try:
        argv = cluster.peer(pod) if kind == "kubectl" else cluster.ours(name, gateway)
        taken = follow(cluster, argv, go, out)
        check(out, count)
    finally:
        if relay is not None:
            relay.close()
    taken.cuts = relay.cuts if relay is not None else 0
    if cut:
        assert taken.cuts == 1, "the connection was not cut"
    out.unlink()
    go.unlink()
    cluster.end_job(name)
    used = ", ".join(f"{part} {cpu:.2f}" for part, cpu in taken.cpu.items())
    print(f"{name}: {taken.rate:.1f} MB/s, CPU seconds: {used}", flush=True)
    return taken


def run(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    count = 100_000 if options.quick else 1_000_000
    repeats = options.repeats or (1 if options.quick else 3)
    cluster = Cluster(folder)
    cluster.up.start()
    try:
        ours, theirs = [], []
        for number in range(repeats):
            ours.append(turn(cluster, "ours", number, count))
            if cluster.kubectl:
                theirs.append(turn(cluster, "kubectl", number, count))
        middle = int(count * WIDTH * random.uniform(0.3, 0.7))
        resumed = turn(cluster, "cut", 0, count, cut=middle)
    finally:
        cluster.up.stop()
    rate, peer = median([t.rate for t in ours]), median([t.rate for t in theirs] or [0.0])
    everybody = (*PARTS, "follower")
    return {
        "name": "logs",
        "ratio": round(rate / peer, 3) if peer else None,
        "mb_s": {
            "ours": round(rate, 1),
            "peer": round(peer, 1),
            "ours_cut": round(resumed.rate, 1),
        },
        "lines": count,
        "line_bytes": WIDTH,
        "repeats": repeats,
        "lost": 0,
        "twice": 0,
        "cuts_resumed": resumed.cuts,
        "memory_mb": {
            part: {
                "most": round(max(max(t.memory[part]) for t in ours), 1),
                "growth": round(max(t.growth(part) for t in ours), 1),
            }
            for part in everybody
        },
        "cpu_s": {part: round(median([t.cpu[part] for t in ours]), 2) for part in everybody},
        "cores": os.cpu_count(),
    }


def main() -> None:
    options = arguments(__doc__ or "")
    # in memory, as the pages of a log that was just written are on any machine
    memory = Path("/dev/shm")
    place = str(memory) if memory.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="corral-bench-", dir=place) as folder:
        report(run(options, Path(folder)))


if __name__ == "__main__":
    try:
        main()
    except (subprocess.TimeoutExpired, TimeoutError, AssertionError) as err:
        sys.exit(f"bench/logs.py: {err}")
