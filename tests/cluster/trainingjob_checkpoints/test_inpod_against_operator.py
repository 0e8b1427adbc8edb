"""The in-pod package against the operator's endpoint and real store servers."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from corral.inpod.environment import Environment
from corral.inpod.replica import Replica
from corral.inpod.restoring import Restored
from corral.kube.types import Obj
from tests.cluster.trainingjob_checkpoints.checkpoint_stage import PART, Pod, Stage, storage_of
from tests.stores.servers import Served

BIG = os.urandom(PART + 100_000)


def environment(job: Obj, pod: Pod, folder: Path, **more: Any) -> Environment:
    folder.mkdir(exist_ok=True)
    (folder / "token").write_text(pod.token)
    return Environment(
        job=job["metadata"]["name"],
        job_uid=job["metadata"]["uid"],
        replica=pod.replica,
        process=pod.replica,
        attempt=pod.attempt,
        report_url=pod.url,
        token_file=str(folder / "token"),
        checkpoint_dir=str(folder / "checkpoints"),
        **more,
    )


def save(content: bytes) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        (path / "sub").mkdir()
        (path / "sub" / "big file.bin").write_bytes(content)
        (path / "small").write_bytes(b"s")

    return write


def checkpointed(environment: Environment, step: int, content: bytes, **options: Any) -> None:
    replica = Replica(environment, pace=0.0)
    replica.report(step, total=10, metrics={"loss": 0.5})
    try:
        assert replica.maybe_checkpoint(save(content), step=step, force=True, **options)
    finally:
        replica.close()


def restored(environment: Environment) -> Restored | None:
    replica = Replica(environment, pace=0.0)
    try:
        return replica.restore()
    finally:
        replica.close()


async def test_every_store_takes_and_gives_back(
    stage: Stage, served: Served, tmp_path: Path
) -> None:
    await stage.secret(served.credentials)
    job = await stage.job("mnist", storage_of(served))
    place = environment(job, await stage.pod(job), tmp_path / "pod", remote=True)
    assert await asyncio.to_thread(restored, place) is None
    await asyncio.to_thread(checkpointed, place, 3, BIG, metrics={"loss": 0.25})
    await stage.until_phases({"mnist-000001": "Ready"})
    found = (await stage.checkpoints())["mnist-000001"]
    assert found["spec"]["metrics"] == {"loss": 0.25}
    again = await asyncio.to_thread(restored, place)
    assert again is not None
    assert (again.step, again.metrics) == (3, {"loss": 0.25})
    assert (again / "sub/big file.bin").read_bytes() == BIG
    status = (await stage.get_job("mnist"))["status"]
    assert status["progress"]["step"] == 3
    assert status["checkpoint"]["restoredFrom"] == "mnist-000001"


async def test_shards_of_two_replicas_become_one_checkpoint(
    stage: Stage, served: Served, tmp_path: Path
) -> None:
    await stage.secret(served.credentials)
    job = await stage.job("shards", storage_of(served), replicas=2)
    pods = [await stage.pod(job, replica=n, world=2) for n in range(2)]
    places = [
        environment(job, pod, tmp_path / str(pod.replica), remote=True, replicas=2, processes=2)
        for pod in pods
    ]
    saves = (
        asyncio.to_thread(checkpointed, place, 5, bytes([place.process]) * 1000, sharded=True)
        for place in places
    )
    await asyncio.gather(*saves)
    await stage.until_phases({"shards-000001": "Ready"})
    for place in places:
        found = await asyncio.to_thread(restored, place)
        assert found is not None
        assert (found / "sub/big file.bin").read_bytes() == bytes([place.process]) * 1000
        assert len(found.shards) == 2


async def test_a_checkpoint_on_a_volume_becomes_an_object(stage: Stage, tmp_path: Path) -> None:
    job = await stage.job("volume", {"pvc": {"size": "1Gi"}})
    place = environment(job, await stage.pod(job), tmp_path / "pod")
    await asyncio.to_thread(checkpointed, place, 7, b"weights")
    await stage.until_phases({"volume-000001": "Ready"})
    found = await asyncio.to_thread(restored, place)
    assert found is not None
    assert found.step == 7
    name = (await stage.get_job("volume"))["status"]["checkpoint"]["restoredFrom"]
    assert name == "volume-000001"
