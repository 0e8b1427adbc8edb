"""`corral registry` as a process: killed at any moment it keeps what it answered for; how large."""

from __future__ import annotations

import asyncio
import hashlib
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from corral.oci import Artifacts, ClientSettings, Layer, Reference
from tests.backends.base import free_port, wait_for
from tests.e2e.clusters import CORRAL

KILLS = 8


class Registry:
    """``corral registry`` on one port and folder, started again and again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.log = folder / "log"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self.log.write_text("")
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [
                    *CORRAL, "registry", "--open", "--data-dir", str(self.folder / "data"),
                    "--port", str(self.port),
                ],
                stdout=log, stderr=log, stdin=subprocess.DEVNULL,
            )  # fmt: skip
        wait_for(self.process, self.log, "corral registry is ready")

    def end(self, number: signal.Signals) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(number)
            self.process.wait(60)


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[Registry]:
    one = Registry(tmp_path)
    one.start()
    yield one
    one.end(signal.SIGKILL)


async def test_killed_again_and_again(registry: Registry, tmp_path: Path) -> None:
    chance = random.Random(7)
    settings = ClientSettings(chunk=300_000, tries=60, first_wait=0.05, longest_wait=0.2)
    pushed: dict[Reference, bytes] = {}
    stop = asyncio.Event()

    async def push(artifacts: Artifacts, who: int) -> None:
        number = 0
        while not stop.is_set():
            content = random.Random(who * 1000 + number).randbytes(1_000_000)
            path = tmp_path / f"layer-{who}"
            await asyncio.to_thread(path.write_bytes, content)
            ref = Reference.parse(f"127.0.0.1:{registry.port}/ns/job-{who}/models:round-{number}")
            done = await artifacts.push(ref, [Layer("x/y", path)], artifact_type="x/z")
            pushed[done.reference] = content
            number += 1

    async with Artifacts(settings=settings) as artifacts:
        async with asyncio.TaskGroup() as group:
            for who in range(3):
                group.create_task(push(artifacts, who))
            for _ in range(KILLS):
                await asyncio.sleep(chance.uniform(0.02, 0.25))
                await asyncio.to_thread(registry.end, signal.SIGKILL)
                await asyncio.to_thread(registry.start)
            stop.set()
        assert len(pushed) >= 3
        for ref, content in pushed.items():
            manifest = await artifacts.manifest(ref)
            assert await artifacts.read(ref, manifest.layers[0], limit=1 << 20) == content
    for path in await asyncio.to_thread(lambda: list((tmp_path / "data/blobs").glob("*/*"))):
        content = await asyncio.to_thread(path.read_bytes)
        assert hashlib.sha256(content).hexdigest() == path.name, "no blob is torn"


CLIENT = """
import asyncio, resource, sys
from pathlib import Path
from corral.oci import Artifacts, Layer, Reference

async def work(host, source, target):
    async with Artifacts() as artifacts:
        ref = Reference.parse(f"{host}/ns/job/models:{source.name}")
        await artifacts.push(ref, [Layer("x/y", source)], artifact_type="x/z")
        manifest = await artifacts.manifest(ref)
        await artifacts.fetch(ref, manifest.layers[0], target)

asyncio.run(work(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def peaks(registry: Registry, source: Path, target: Path) -> tuple[int, int]:
    """KiB that the client and the registry had at most, after a push and a pull."""
    host = f"127.0.0.1:{registry.port}"
    done = subprocess.run(
        [sys.executable, "-c", CLIENT, host, str(source), str(target)],
        capture_output=True, text=True, timeout=150, check=True,
    )  # fmt: skip
    assert registry.process is not None
    status = Path(f"/proc/{registry.process.pid}/status").read_text()
    peak = next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))
    return int(done.stdout), int(peak)


def test_memory_does_not_grow_with_what_travels(registry: Registry, tmp_path: Path) -> None:
    found = {}
    for name, size in (("small", 40), ("large", 400)):
        source, target = tmp_path / name, tmp_path / f"{name}-back"
        piece = random.Random(size).randbytes(1 << 20)
        with source.open("wb") as file:
            for number in range(size):
                file.write(number.to_bytes(8, "big") + piece[8:])
        found[name] = peaks(registry, source, target)
        assert target.stat().st_size == size << 20
    for small, large in zip(found["small"], found["large"], strict=True):
        assert large - small < 40 << 10, found
