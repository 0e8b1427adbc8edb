"""The package in pods and the endpoint in the operator understand each other, on every store."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from corral.kube.types import Obj
from tests.cluster.trainingjob_checkpoints.checkpoint_stage import Pod, Stage, storage_of
from tests.stores.servers import Served

SCRIPT = """
import pathlib
import corral.inpod as corral

state = corral.restore()
start = state.step + 1 if state else 0
if state:
    print("restored", state.step, (pathlib.Path(state) / "model.bin").read_bytes().decode())
for step in range(start, start + 3):
    corral.report(step=step, total=6, epoch=step / 2, loss=1 / (step + 1))
    def save(path, step=step):
        (pathlib.Path(path) / "model.bin").write_bytes(b"weights of step %d" % step)
    corral.maybe_checkpoint(save, step=step, force=step == start + 2)
corral.flush()
"""


def told(job: Obj, pod: Pod, folder: Path) -> dict[str, str]:
    """The environment of the pod."""
    folder.mkdir()
    (folder / "token").write_text(pod.token)
    metadata = job["metadata"]
    return {
        "CORRAL_JOB": metadata["name"],
        "CORRAL_NAMESPACE": metadata["namespace"],
        "CORRAL_JOB_UID": metadata["uid"],
        "CORRAL_REPLICA": "0",
        "CORRAL_REPLICAS": "1",
        "CORRAL_ATTEMPT": str(pod.attempt),
        "CORRAL_REPORT_URL": pod.url,
        "CORRAL_REPORT_TOKEN_FILE": str(folder / "token"),
        "CORRAL_CHECKPOINT_DIR": str(folder / "staging"),
        "CORRAL_CHECKPOINT_STORE": "remote",
        "CORRAL_CHECKPOINT_INTERVAL": "600",
        "CORRAL_RESTORE_FROM": "latest",
    }


async def train(job: Obj, pod: Pod, folder: Path) -> str:
    """Run the script as the pod would; what it printed."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", SCRIPT,
        env={**os.environ, **told(job, pod, folder)},
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    output, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
    return output.decode()


async def progressed(stage: Stage, step: int) -> Obj:
    """The progress in the status, when it has come to a step."""

    async def look() -> Obj | None:
        progress: Obj = (await stage.get_job("mnist"))["status"].get("progress") or {}
        return progress if progress.get("step") == step else None

    found: Obj = await stage.until(look)
    return found


async def test_training_goes_on_where_it_was(stage: Stage, served: Served, tmp_path: Path) -> None:
    await stage.secret(served.credentials)
    job = await stage.job("mnist", storage_of(served))
    assert await train(job, await stage.pod(job), tmp_path / "first") == ""
    await stage.until_phases({"mnist-000001": "Ready"})
    progress = await progressed(stage, 2)
    assert (progress["percent"], progress["epoch"]) == (33, 1)

    await stage.set_attempt("mnist", 2)
    await stage.delete_pod("mnist-0")
    pod = await stage.pod(job, attempt=2)
    assert await train(job, pod, tmp_path / "second") == "restored 2 weights of step 2\n"
    await stage.until_phases({"mnist-000001": "Ready", "mnist-000002": "Ready"})
    assert (await progressed(stage, 5))["metrics"].keys() == {"loss"}
    found = await stage.get_job("mnist")
    assert found["status"]["checkpoint"]["restoredFrom"] == "mnist-000001"

    newest = (await pod.restore())[0]["id"]
    store = stage.store(served, job)
    store.write(f"{newest}/model.bin", [b"weights of step 6"])  # as long, and wrong
    await stage.set_attempt("mnist", 3)
    await stage.delete_pod("mnist-0")
    pod = await stage.pod(job, attempt=3)
    assert await train(job, pod, tmp_path / "third") == "restored 2 weights of step 2\n"
    assert (await stage.phases())["mnist-000002"] == "Failed"

    await stage.until(lambda: stage.events("CheckpointRejected"))
