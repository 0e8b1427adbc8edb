"""Checkpoints in folders of the machine, and what the operator's own keys do not open."""

from __future__ import annotations

import json
from pathlib import Path

from corral.checkpoints.local import LocalStore
from corral.checkpoints.repository import Repository
from corral.checkpoints.writer import About
from corral.kube.client import KubeClient
from corral.kube.types import Obj
from tests.cluster.trainingjob_checkpoints.checkpoint_stage import Stage, staged

FILES = [b"weights"]


def saved(folder: Path, job: Obj, step: int) -> Obj:
    """What a pod would write: a checkpoint in the job's folder; its manifest."""
    repository = Repository(LocalStore(folder, durable=False))
    about = About(attempt=1, job_uid=job["metadata"]["uid"])
    with repository.begin(step, about) as writer:
        writer.add("model.bin", FILES)
        manifest = writer.commit()
    assert manifest is not None
    found: Obj = json.loads(manifest.encode())
    return found


async def test_retention_deletes_in_folders(
    client: KubeClient, namespace: str, tmp_path: Path
) -> None:
    async with staged(client, namespace, local_root=tmp_path) as stage:
        job = await stage.job("mnist", {"local": {}}, retention={"keepLast": 2})
        pod = await stage.pod(job)
        folder = tmp_path / namespace / "mnist" / job["metadata"]["uid"]
        for step in (1, 2, 3, 4):
            manifest = saved(folder, job, step)
            await pod.good("checkpoints", {"id": manifest["id"], "manifest": manifest})
        await stage.until_phases({"mnist-000003": "Ready", "mnist-000004": "Ready"})
        left = Repository(LocalStore(folder)).scan().manifests
        assert [manifest.step for manifest in left] == [4, 3]
        names = {path.name for path in folder.iterdir() if path.name.startswith("step-")}
        assert names == {manifest.id for manifest in left}


async def test_no_folders_without_a_root(stage: Stage, tmp_path: Path) -> None:
    job = await stage.job("mnist", {"local": {"path": str(tmp_path)}})
    pod = await stage.pod(job)
    manifest = saved(tmp_path, job, 1)
    body = {"id": manifest["id"], "manifest": manifest}
    status, answer = await pod.post("checkpoints", body)
    assert (status, "embedded clusters only" in answer["error"]) == (409, True)


async def test_the_operators_own_keys_stay_at_home(stage: Stage) -> None:
    """Not sent to a server that a user names, nor used for another namespace."""
    bucket = {"bucket": "training", "endpoint": "http://127.0.0.1:9"}
    pod = await stage.pod(await stage.job("away", {"s3": bucket}))
    status, answer = await pod.post("restore", {"from": "latest"})
    assert (status, "own credentials are not for this server" in answer["error"]) == (409, True)
    pod = await stage.pod(await stage.job("home", {"s3": {"bucket": "training"}}))
    address = "s3://training/another/job/uid/step-000000000001.x"
    status, answer = await pod.post("restore", {"from": address})
    assert (status, f"folders of namespace {stage.namespace} only" in answer["error"]) == (
        409,
        True,
    )
    status, answer = await pod.post("restore", {"from": "gs://training/x/step-1.x"})
    assert (status, "kept elsewhere" in answer["error"]) == (409, True)
    status, answer = await pod.post("restore", {"from": "mnist-000001"})
    assert status == 404
