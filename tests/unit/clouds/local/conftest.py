"""Local clouds whose VMs all end with the test."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from corral.clouds import VmRequest
from corral.clouds.local import LocalProvider, LocalSettings
from corral.clouds.local.processes import Process, below
from corral.clouds.local.records import Folder

AGENT = Path(__file__).with_name("agent.py")


class Cloud:
    """One folder, any number of providers on it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.settings = LocalSettings(
            folder=folder,
            command=(sys.executable, str(AGENT), "{data}"),
            stop_grace_s=5.0,
            look_s=0.01,
        )

    def provider(self, **changes: Any) -> LocalProvider:
        return LocalProvider(replace(self.settings, **changes))

    def of(self, name: str) -> Folder:
        return Folder(self.folder / "vms" / name)

    def request(self, number: int = 0, **changes: Any) -> VmRequest:
        request = VmRequest(
            name=f"vm-{number}",
            request_id=str(UUID(int=number + 1)),
            owner="o",
            zone="local-a",
            machine_type="small",
        )
        return replace(request, **changes)

    def processes(self, name: str) -> set[Process]:
        """All that the VM is and runs."""
        running = self.of(name).running()
        assert running is not None
        return {running.process, *below([running.pid])}

    def end(self) -> None:
        for path in (self.folder / "vms").glob("*"):
            running = Folder(path).running()
            if running is not None and running.process.alive:
                running.process.send(signal.SIGSTOP)
                for process in below([running.pid]):
                    process.send(signal.SIGKILL)
                running.process.send(signal.SIGKILL)


@pytest.fixture
async def cloud(tmp_path: Path) -> AsyncIterator[Cloud]:
    made = Cloud(tmp_path / "cloud")
    yield made
    made.end()


async def until(condition: Callable[[], bool], *, seconds: float = 20.0) -> None:
    """Wait for something that happens in another process."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110  # another process sets no event of ours
            await asyncio.sleep(0.01)


Until = Callable[[Callable[[], bool]], Awaitable[None]]


@pytest.fixture(name="until")
def _until() -> Until:
    return until
