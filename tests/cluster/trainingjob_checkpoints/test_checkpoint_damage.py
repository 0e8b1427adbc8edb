"""Damaged checkpoints are passed over, marked and told of, on every store."""

from __future__ import annotations

from corral.checkpoints.paths import MANIFEST
from corral.checkpoints.store import Store
from corral.kube.types import Obj
from tests.cluster.trainingjob_checkpoints.checkpoint_stage import (
    Pod,
    Stage,
    downloaded,
    storage_of,
)
from tests.stores.servers import Served

GOOD = {"model.bin": b"good weights"}
NEWER = {"model.bin": b"better weights"}


async def prepared(stage: Stage, served: Served) -> tuple[Obj, Pod, Store, str]:
    """A job with two checkpoints; the id of the newer one."""
    await stage.secret(served.credentials)
    job = await stage.job("mnist", storage_of(served))
    pod = await stage.pod(job)
    await pod.save(10, GOOD)
    newest = (await pod.save(20, NEWER))["id"]
    assert [found["step"] for found in await pod.restore()] == [20, 10]
    return job, pod, stage.store(served, job), newest


async def assert_passed_over(stage: Stage, pod: Pod, why: str) -> None:
    (candidate,) = await pod.restore()
    assert await downloaded(candidate) == GOOD
    await stage.until_phases({"mnist-000001": "Ready", "mnist-000002": "Failed"})
    assert why in (await stage.checkpoints())["mnist-000002"]["status"]["message"]

    async def told() -> bool:
        found = await stage.events("CheckpointRejected")
        return any("mnist-000002" in message and why in message for message in found)

    await stage.until(told)


async def test_torn_manifest(stage: Stage, served: Served) -> None:
    _, pod, store, newest = await prepared(stage, served)
    data = store.read(f"{newest}/{MANIFEST}").data
    store.write(f"{newest}/{MANIFEST}", [data[: len(data) // 2]])
    stage.stores._opened.clear()  # what was read once is remembered for a minute
    await assert_passed_over(stage, pod, "CheckpointManifestInvalid")


async def test_truncated_file(stage: Stage, served: Served) -> None:
    _, pod, store, newest = await prepared(stage, served)
    store.write(f"{newest}/model.bin", [NEWER["model.bin"][:-1]])
    await assert_passed_over(stage, pod, "CheckpointFileTruncated")


async def test_flipped_bit(stage: Stage, served: Served) -> None:
    """Sizes are right, so it is the pod that finds out, and says so."""
    _, pod, store, newest = await prepared(stage, served)
    flipped = bytes([NEWER["model.bin"][0] ^ 1]) + NEWER["model.bin"][1:]
    store.write(f"{newest}/model.bin", [flipped])
    assert (await pod.restore())[0]["id"] == newest
    rejection = {"id": newest, "reason": "CheckpointDigestMismatch", "message": "model.bin"}
    older = [found for found in await pod.restore() if found["id"] != newest]
    restored = {"id": older[0]["id"], "step": 10}
    await pod.report(rejected=[rejection], restored=restored)
    await assert_passed_over(stage, pod, "CheckpointDigestMismatch: model.bin")
    job = await stage.get_job("mnist")
    assert job["status"]["checkpoint"]["restoredFrom"] == "mnist-000001"
    await pod.report(rejected=[rejection])
    assert len(await stage.events("CheckpointRejected")) == 1, "told once"
    assert "QUARANTINED.json" in store.entries(newest)[1]


async def test_nothing_good_is_left(stage: Stage, served: Served) -> None:
    _, pod, store, _ = await prepared(stage, served)
    for found in await pod.restore():
        store.delete([f"{found['id']}/model.bin"])
    assert await pod.restore() == []
    await stage.until_phases({"mnist-000001": "Failed", "mnist-000002": "Failed"})
    assert (await pod.save(30, GOOD))["complete"], "the next one is good again"
    assert [found["step"] for found in await pod.restore()] == [30]
