"""Copies that save themselves: they share a folder, go on from each other, and save when asked."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from corral.families.spot.jobs import reported
from corral.kube.resources import PODS
from corral.kube.types import Obj
from tests.cluster.spot_checkpoints.spot_stage import SpotStage

TRAINS = """
import pathlib, sys, time
import corral.inpod as corral
state = corral.restore()
step = state.step + 1 if state else 0
print("from", step, flush=True)
def save(path):
    (path / "weights").write_text(str(step))
while step < 2000:
    corral.report(step=step, total=2000)
    corral.maybe_checkpoint(save, step=step)
    step += 1
    time.sleep(0.02)
"""
COMMAND = ("python", "-c", TRAINS)

pytestmark = pytest.mark.usefixtures("node")


async def began(stage: SpotStage, pod: Obj) -> int:
    """The step that a copy began with."""

    async def look() -> list[str]:
        return re.findall(r"^from (\d+)$", await stage.log(pod, "trainer"), re.MULTILINE)

    return int((await stage.until(look))[0])


async def saved(stage: SpotStage, pod: Obj) -> reported.LastCheckpoint:
    """The newest checkpoint of a copy, when it has one."""

    async def look() -> reported.LastCheckpoint | None:
        found = await stage.client.get(PODS, pod["metadata"]["name"], namespace=stage.namespace)
        return reported.last_checkpoint(PODS.stamp(found))

    found: reported.LastCheckpoint = await stage.until(look)
    return found


def manifests(root: Path) -> list[Path]:
    """Of all complete checkpoints of all copies, the newest last."""
    return sorted(root.rglob("MANIFEST.json"), key=step_of)


def step_of(manifest: Path) -> int:
    return int(json.loads(manifest.read_text())["step"])


def damaged(root: Path) -> tuple[str, int]:
    """Change the newest one; its name, and the step of the one before."""
    *_, before, newest = manifests(root)
    weights = newest.parent / "weights"
    weights.write_text("?" * weights.stat().st_size)
    return newest.parent.name, step_of(before)


async def test_a_copy_goes_on_from_what_another_has_saved(stage: SpotStage, tmp_path: Path) -> None:
    job = await stage.job(command=COMMAND, checkpointInterval="1s")
    first = await stage.copy(job, 0, 1, local_root=tmp_path)
    second = await stage.copy(job, 1, 2, local_root=tmp_path)
    assert await began(stage, first) == 0 and await began(stage, second) == 0
    step = (await saved(stage, second)).step
    await stage.stop(second)  # told by SIGTERM: it saves before it leaves
    await stage.stop(first)
    again = await stage.copy(job, 0, 3, local_root=tmp_path)
    assert await began(stage, again) > step
    found = await stage.client.get(PODS, again["metadata"]["name"], namespace=stage.namespace)
    await stage.until(lambda: _restored(stage, again))
    folders = {path.name for path in (tmp_path / stage.namespace / "digits").glob("*/*")}
    assert folders == {"replica-0", "replica-1"}
    assert found["metadata"]["name"].startswith("digits-replica-0-3")


async def _restored(stage: SpotStage, pod: Obj) -> reported.Restored | None:
    found = await stage.client.get(PODS, pod["metadata"]["name"], namespace=stage.namespace)
    return reported.restored(PODS.stamp(found))


async def test_a_damaged_one_falls_back_to_an_older(stage: SpotStage, tmp_path: Path) -> None:
    job = await stage.job(command=COMMAND, checkpointInterval="1s")
    first = await stage.copy(job, 0, 1, local_root=tmp_path)
    await saved(stage, first)
    second = await stage.copy(job, 1, 2, local_root=tmp_path)
    await began(stage, second)
    await stage.stop(first)
    await stage.stop(second)
    newest, expected = damaged(tmp_path)
    again = await stage.copy(job, 0, 3, local_root=tmp_path)
    assert await began(stage, again) == expected + 1
    (text,) = await stage.until(lambda: stage.events("CheckpointRejected"))
    assert newest in text


async def test_a_backup_by_the_program_itself(stage: SpotStage, tmp_path: Path) -> None:
    job = await stage.job(command=COMMAND, checkpointInterval="1h")
    pod = await stage.copy(job, 0, 1, local_root=tmp_path)
    await began(stage, pod)
    await stage.backup("now", podName=pod["metadata"]["name"], engine="Application")
    status = await stage.ended("now")
    assert status["phase"] == "Completed", status
    (file,) = status["checkpointFiles"]
    assert file["filePath"] in manifests(tmp_path)[-1].parts
    assert (await saved(stage, pod)).id == file["filePath"]
    await stage.stop(pod)


async def test_a_program_that_does_not_answer_holds_up_nothing(stage: SpotStage) -> None:
    job = await stage.job(
        command=("sleep", "600"), checkpointStorage={"type": "pvc"}, engine="Kubelet"
    )
    pod = await stage.copy(job)
    name = pod["metadata"]["name"]
    await stage.backup("stuck", podName=name, engine="Application", timeoutSeconds=2)
    await stage.backup("other", podName=name, engine="Directory", imageRepo="127.0.0.1:1/x")
    assert "spec.directory" in (await stage.ended("other"))["message"]
    status = await stage.ended("stuck")
    assert status["phase"] == "Failed" and "longer than 2 s" in status["message"]


async def test_who_reports_to_nobody_is_told_so(stage: SpotStage) -> None:
    pod = await stage.pod("plain", ["sleep", "600"])
    await stage.backup("now", podName=pod["metadata"]["name"], engine="Application")
    status = await stage.ended("now")
    assert status["phase"] == "Failed" and "reports to nobody" in status["message"]
