"""Runs of backups: on a schedule, over the death of the operator, and after their end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from corral.api.spot.kinds import CHECKPOINTBACKUPS
from corral.families.spot.backups.controller import BackupController
from corral.families.spot.backups.engines import Outcome, Run, Tell
from corral.families.spot.backups.images import Images
from corral.kube.client import KubeClient
from corral.kube.resources import PODS
from corral.kube.types import Obj
from corral.runtime import Manager
from corral.runtime.keys import format_time
from tests.cluster.spot_checkpoints.spot_stage import SpotStage

NOON = 1_800_000_000.0 - 1_800_000_000.0 % 3600


class Steered:
    """An engine that ends when the case says so."""

    def __init__(self) -> None:
        self.runs: list[Run] = []
        self.go = asyncio.Event()
        self.ended = asyncio.Event()

    async def save(self, run: Run, tell: Tell) -> Outcome:
        self.runs.append(run)
        await tell({"phase": "ImageBuilding"})
        try:
            await self.go.wait()
        finally:
            self.ended.set()
        built = {"containerName": "main", "imageName": f"r/x:{int(run.started)}", "pushed": True}
        return Outcome(images=[built])


class Clock:
    def __init__(self, now: float) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


@asynccontextmanager
async def operating(
    client: KubeClient, engine: Steered, clock: Clock
) -> AsyncIterator[BackupController]:
    """An operator with backups alone; leaving it is its death."""
    manager = Manager(client)
    backups = BackupController(manager, {"Directory": engine}, Images(client), wall=clock)
    queue = manager.controller("backups", backups.reconcile, workers=2)
    queue.watch(backups.backups)
    backups.again = queue.queue.add
    manager.add_task("runs", backups.run)
    running = asyncio.create_task(manager.run())
    try:
        await manager.wait_ready()
        yield backups
    finally:
        manager.stop()
        await running


@pytest.fixture
async def scene(client: KubeClient, namespace: str) -> SpotStage:
    """A pod that says that it runs; no operator."""
    stage = SpotStage(client, namespace, None, "")  # type: ignore[arg-type]
    container = {"name": "main", "image": "python", "command": ["sleep", "600"]}
    spec = {"containers": [container], "nodeSelector": {"nowhere": "true"}}
    await client.create(PODS, {"metadata": {"name": "one"}, "spec": spec}, namespace=namespace)
    await client.patch(
        PODS, "one", namespace=namespace, patch={"status": {"phase": "Running"}},
        subresource="status",
    )  # fmt: skip
    return stage


async def phase(stage: SpotStage, wanted: str) -> Obj:
    async def look() -> Obj | None:
        found = await stage.client.get(CHECKPOINTBACKUPS, "b", namespace=stage.namespace)
        status: Obj = found.get("status") or {}
        return status if status.get("phase") == wanted else None

    try:
        found: Obj = await stage.until(look, seconds=20)
    except TimeoutError:
        raise AssertionError(f"{(await stage.backups())['b'].get('status')}") from None
    return found


async def test_the_next_operator_goes_on_with_a_run(scene: SpotStage) -> None:
    engine, clock = Steered(), Clock(NOON)
    async with operating(scene.client, engine, clock):
        await scene.backup("b", podName="one", engine="Directory", imageRepo="r/x")
        await phase(scene, "ImageBuilding")
    assert len(engine.runs) == 1
    engine.go.set()
    clock.now += 100
    async with operating(scene.client, engine, clock):
        status = await phase(scene, "Completed")
    assert [run.started for run in engine.runs] == [NOON, NOON]
    assert status["checkpointImage"] == f"r/x:{int(NOON)}"
    async with operating(scene.client, engine, clock) as backups:
        assert await backups.reconcile(f"{scene.namespace}/b") is None
    assert len(engine.runs) == 2  # what is over stays over


async def test_a_run_that_nobody_has_ended_in_time_has_failed(scene: SpotStage) -> None:
    engine, clock = Steered(), Clock(NOON)
    async with operating(scene.client, engine, clock):
        await scene.backup("b", podName="one", engine="Directory", timeoutSeconds=60)
        await phase(scene, "ImageBuilding")
    clock.now += 61
    async with operating(scene.client, engine, clock):
        status = await phase(scene, "Failed")
    assert "longer than 60 s" in status["message"] and len(engine.runs) == 1


async def test_a_schedule_goes_on_after_every_end(scene: SpotStage) -> None:
    engine, clock = Steered(), Clock(NOON + 10)
    engine.go.set()
    await scene.backup(
        "b", podName="one", engine="Directory", imageRepo="r/x", schedule="*/5 * * * *"
    )
    # it was made now; the case's time is its own
    begun = {"phase": "Completed", "startTime": format_time(NOON)}
    await scene.client.patch(
        CHECKPOINTBACKUPS, "b", namespace=scene.namespace, patch={"status": begun},
        subresource="status",
    )  # fmt: skip
    async with operating(scene.client, engine, clock) as backups:
        waits = await backups.reconcile(f"{scene.namespace}/b")
        assert waits is not None and waits.requeue_after == 290.0 and engine.runs == []
        for number in (1, 2, 3):
            clock.now = NOON + number * 300 + 1
            backups.again(f"{scene.namespace}/b")
            start = format_time(clock.now)

            async def look(start: str = start) -> bool:
                status = (await scene.backups())["b"]["status"]
                return status["startTime"] == start and status["phase"] == "Completed"

            await scene.until(look, seconds=20)
    assert [run.started for run in engine.runs] == [NOON + n * 300 + 1 for n in (1, 2, 3)]
    status = (await scene.backups())["b"]["status"]
    names = [item["imageName"] for item in status["builtImages"]]
    assert names == [f"r/x:{int(NOON + n * 300 + 1)}" for n in (3, 2, 1)]
    assert status["checkpointImage"] == names[0]


async def test_deleting_one_ends_its_run(scene: SpotStage) -> None:
    engine, clock = Steered(), Clock(NOON)
    async with operating(scene.client, engine, clock):
        await scene.backup("b", podName="one", engine="Directory")
        await phase(scene, "ImageBuilding")
        await scene.client.delete(CHECKPOINTBACKUPS, "b", namespace=scene.namespace)
        await asyncio.wait_for(engine.ended.wait(), 20)
    assert len(engine.runs) == 1


async def test_immediate_ones_do_not_wait_for_others(scene: SpotStage) -> None:
    engine, clock = Steered(), Clock(NOON)
    async with operating(scene.client, engine, clock):
        for number in range(10):
            await scene.backup(f"slow-{number}", podName="one", engine="Directory")

        async def full() -> bool:
            return len(engine.runs) == 8

        await scene.until(full)
        await scene.backup("b", podName="one", engine="Directory", immediate=True)
        await phase(scene, "ImageBuilding")
        assert len(engine.runs) == 9
        engine.go.set()
        for number in range(10):
            assert (await scene.ended(f"slow-{number}"))["phase"] == "Completed"
