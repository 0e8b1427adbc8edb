"""Several providers on one folder, all at once and at random: nothing is left behind."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random
from uuid import UUID

import pytest

from corral.clouds import BadRequest, StockOut, Transient, VmRef
from corral.clouds.local import Fault
from tests.unit.clouds.local.conftest import Cloud, Until


def processes_of(folder: Path) -> list[str]:
    """Command lines that name the folder: VMs, their guards and agents."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if str(folder) in command:
            found.append(command)
    return found


async def worker(cloud: Cloud, seed: int, ids: Random) -> None:
    rng = Random(seed)
    provider = cloud.provider(stop_grace_s=0.2)
    for _ in range(8):
        name = f"vm-{rng.randrange(2)}"
        ref = VmRef(name, "local-a")
        action = rng.choice(["create", "create", "create", "delete", "kill", "preempt", "look"])
        try:
            if action == "create":
                identity = str(UUID(int=ids.getrandbits(128), version=4))
                request = cloud.request(0, name=name, request_id=identity)
                first, second = await asyncio.gather(
                    provider.create(request), provider.create(request)
                )
                assert first.id == second.id
            elif action == "delete":
                await provider.delete(ref)
            elif action == "kill":
                await provider.kill(ref)
            elif action == "preempt":
                await provider.preempt(ref, notice_s=rng.choice([0.0, 0.2]))
            else:
                assert len(await provider.list("o")) <= 2
        except (BadRequest, StockOut, Transient):
            continue  # another worker was there before


@pytest.mark.parametrize("seed", [1, 2])
async def test_a_storm_leaves_nothing(cloud: Cloud, until: Until, seed: int) -> None:
    provider = cloud.provider(stop_grace_s=0.2)
    provider.faults.plan(
        Fault(operation="create", lose=True, times=2), Fault(operation="delete", lose=True)
    )
    ids = Random(seed)
    async with asyncio.timeout(100):
        await asyncio.gather(*(worker(cloud, seed * 10 + n, ids) for n in range(3)))
        for vm in await provider.list("o"):
            await provider.delete(vm.ref)
    assert await provider.list("o") == []
    assert not list((cloud.folder / "vms").iterdir())
    await until(lambda: processes_of(cloud.folder) == [])
