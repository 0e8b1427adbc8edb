"""A registry that is killed at any moment keeps what it answered for, and pushes go on."""

from __future__ import annotations

import asyncio
import hashlib
import random
import signal
import subprocess
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
