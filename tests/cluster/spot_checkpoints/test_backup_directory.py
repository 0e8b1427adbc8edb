"""The Directory engine: what a directory holds becomes an image, which starts go on from."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

import pytest

from corral.api.spot.kinds import CHECKPOINTBACKUPS
from corral.kube.resources import PODS
from corral.kube.types import Obj
from corral.oci import Artifacts, Manifest, NotFound, Reference
from tests.cluster.spot_checkpoints.spot_stage import SpotStage

WRITES = """
import os, pathlib, sys, time
root = pathlib.Path(os.environ["CORRAL_DIRECTORY"])
print("found", sorted(p.name for p in root.iterdir()), flush=True)
old = root / "state"
step = int(old.read_text()) if old.exists() else 0
(root / "sub").mkdir(exist_ok=True)
(root / "sub" / "data").write_text("x" * 100)
link = root / "newest"
if not link.is_symlink():
    link.symlink_to("sub/data")
(root / ".state").write_text(str(step + 1))
(root / ".state").rename(old)
print("at", step + 1, flush=True)
time.sleep(600)
"""
COMMAND = ("python", "-c", WRITES)

VOLUME: Obj = {
    "container": {
        "volumeMounts": [{"name": "state", "mountPath": "/state"}],
        "env": [{"name": "D", "value": "/state"}],
    },
    "volumes": [{"name": "state", "emptyDir": {}}],
}

pytestmark = pytest.mark.usefixtures("node")


async def read(stage: SpotStage, image: str) -> tuple[Manifest, dict[str, tarfile.TarInfo], bytes]:
    """What an image holds, pulled as anybody would."""
    reference = Reference.parse(image)
    async with Artifacts(stage.registry.registries()) as artifacts:
        manifest = await artifacts.manifest(reference)
        (layer,) = manifest.layers
        raw = await artifacts.read(reference, layer, limit=1 << 20)
    with tarfile.open(fileobj=io.BytesIO(raw)) as archive:
        return manifest, {member.name: member for member in archive}, raw


def damage(stage: SpotStage, digest: str) -> None:
    """Change what the registry has stored of a layer, without its name."""
    (file,) = Path(stage.registry.folder).rglob(f"{digest.removeprefix('sha256:')}*")
    data = bytearray(file.read_bytes())
    data[600] ^= 0xFF
    file.chmod(0o644)
    file.write_bytes(data)


async def at(stage: SpotStage, pod: Obj) -> str:
    """What a copy says when it has begun."""

    async def look() -> str:
        found = await stage.client.get(PODS, pod["metadata"]["name"], namespace=stage.namespace)
        said = await stage.log(pod, "trainer")
        status = found.get("status") or {}
        if status.get("phase") in ("Succeeded", "Failed"):
            restored = await stage.log(pod, "corral-restore")
            raise AssertionError(f"{said}\n{restored}\n{status.get('initContainerStatuses')}")
        return said if "at " in said else ""

    return str(await stage.until(look))


async def test_a_directory_becomes_an_image_that_can_be_pulled(stage: SpotStage) -> None:
    job = await stage.job(engine="Directory", directory="/state", command=COMMAND)
    pod = await stage.copy(job)
    await at(stage, pod)
    await stage.backup(
        "now", podName=pod["metadata"]["name"], imageRepo=stage.repository, engine="Directory"
    )
    status = await stage.ended("now")
    assert status["phase"] == "Completed", status
    assert status["checkpointImage"] == status["builtImages"][0]["imageName"]
    assert status["builtImages"][0]["pushed"] and status["completionTime"]
    manifest, members, raw = await read(stage, status["checkpointImage"])
    assert members["state/state"].isreg() and members["state/newest"].issym()
    assert manifest.annotations["dev.corral.directory"] == "/state"
    async with Artifacts(stage.registry.registries()) as artifacts:
        reference = Reference.parse(status["checkpointImage"])
        config = json.loads(await artifacts.read(reference, manifest.config, limit=1 << 20))
    assert config["rootfs"]["diff_ids"] == [manifest.layers[0].digest]
    assert len(raw) == manifest.layers[0].size


async def test_a_start_goes_on_from_the_newest_that_is_intact(stage: SpotStage) -> None:
    job = await stage.job(engine="Directory", directory="/state", command=COMMAND)
    images: list[str] = []
    digests: list[str] = []
    for attempt in (1, 2):
        pod = await stage.copy(job, attempt=attempt, restore_images=images)
        assert f"at {attempt}" in await at(stage, pod)
        name = f"save-{attempt}"
        await stage.backup(
            name, podRef={"name": pod["metadata"]["name"]}, engine="Directory",
            resourceRef={"name": "digits"}, schedule="immediately",
            registry={"url": stage.repository.partition("/")[0],
                      "repository": stage.repository.partition("/")[2]},
        )  # fmt: skip
        status = await stage.ended(name)
        assert status["phase"] == "Completed", status
        images.insert(0, status["checkpointImage"])
        manifest, _, _ = await read(stage, images[0])
        digests.insert(0, manifest.layers[0].digest)
        await stage.stop(pod)
    third = await stage.copy(job, attempt=3, restore_images=images)
    text = await at(stage, third)
    assert "found ['newest', 'state', 'sub']" in text and "at 3" in text
    await stage.stop(third)
    damage(stage, digests[0])
    fourth = await stage.copy(job, attempt=4, restore_images=images)
    assert "at 2" in await at(stage, fourth)
    assert "is passed over" in await stage.log(fourth, "corral-restore")


async def test_nothing_intact_is_a_new_beginning(stage: SpotStage) -> None:
    job = await stage.job(engine="Directory", directory="/state", command=COMMAND)
    gone = f"{stage.repository}:gone"
    pod = await stage.copy(job, restore_images=[gone])
    assert "at 1" in await at(stage, pod)


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"podName": "nobody", "directory": "/state"}, "there is no pod nobody"),
        ({"directory": "/nowhere"}, "/nowhere could not be read"),
        ({}, "spec.directory"),
        ({"directory": "/state", "nodeName": "other"}, "not on other"),
        ({"directory": "/state", "imageRepo": "registry.corral.local/others/x"}, "kept below"),
        ({"directory": "/state", "imageRepo": "127.0.0.1:1/x"}, "could not be stored"),
        (
            {"directory": "/state", "imageRepoCredentials": {"name": "k", "namespace": "others"}},
            "of another namespace",
        ),
        ({"directory": "/state", "imageRepoCredentials": {"name": "k"}}, "there is no Secret"),
        (
            {"directory": "/state", "containers": [{"name": "other", "image": "127.0.0.1:1/x:y"}]},
            "has no container other",
        ),
    ],
)
async def test_what_cannot_be_saved_says_why(stage: SpotStage, spec: Obj, said: str) -> None:
    pod = await stage.pod("idle", ["sleep", "600"], **VOLUME)
    asked = {"podName": pod["metadata"]["name"], "imageRepo": stage.repository}
    await stage.backup("now", **(asked | {"engine": "Directory"} | spec))
    status = await stage.ended("now")
    assert status["phase"] == "Failed" and said in status["message"], status
    assert await stage.until(lambda: stage.events("CheckpointFailed"))


async def test_the_pod_goes_if_asked(stage: SpotStage) -> None:
    pod = await stage.pod("one", ["sh", "-c", "echo 1 > $D/a; echo ok; sleep 600"], **VOLUME)
    await stage.until(lambda: stage.log(pod))
    await stage.backup(
        "now",
        podName=pod["metadata"]["name"],
        imageRepo=stage.repository,
        engine="Directory",
        directory="/state",
        stopPod=True,
    )
    status = await stage.ended("now")
    assert status["phase"] == "CompletedPodDeleted", status
    _, members, _ = await read(stage, status["checkpointImage"])
    assert "state/a" in members


async def test_backups_by_interval_on_request_and_no_more_than_are_kept(stage: SpotStage) -> None:
    from corral.api.spot.kinds import SPOTINSTANCEJOBS

    job = await stage.job(
        engine="Directory", directory="/state", command=COMMAND, checkpointInterval="1s", keep=2
    )
    pod = await stage.copy(job)
    await at(stage, pod)

    async def several() -> list[str]:
        found = await stage.backups()
        numbers = sorted(int(name.rpartition("-")[2]) for name in found)
        done = [b for b in found.values() if (b.get("status") or {}).get("phase") == "Completed"]
        return [b["status"]["checkpointImage"] for b in done] if numbers[-1:] >= [4] else []

    assert await stage.until(several)
    first = (await stage.backups()).get("digits-backup-1")
    assert first is None or first["metadata"].get("deletionTimestamp")
    ask = {"status": {"checkpointRequest": {"id": "asked-for", "replica": 0}}}
    await stage.client.patch(
        SPOTINSTANCEJOBS, "digits", namespace=stage.namespace, patch=ask, subresource="status"
    )

    async def answered() -> Obj | None:
        for backup in (await stage.backups()).values():
            notes = backup["metadata"].get("annotations") or {}
            if "asked-for" in notes.values():
                return backup
        return None

    found = await stage.until(answered)
    assert found["spec"]["immediate"] is True
    await stage.stop(pod)


async def test_the_image_of_a_spot_job_goes_with_its_backup(stage: SpotStage) -> None:
    job = await stage.job(
        engine="Directory", directory="/state", command=COMMAND, checkpointInterval="1s", keep=1
    )
    pod = await stage.copy(job)
    await at(stage, pod)

    async def first() -> str:
        found = (await stage.backups()).get("digits-backup-1") or {}
        return str((found.get("status") or {}).get("checkpointImage") or "")

    image = await stage.until(first)
    await stage.until_gone(CHECKPOINTBACKUPS, "digits-backup-1")
    async with Artifacts(stage.registry.registries()) as artifacts:
        with pytest.raises(NotFound):
            await artifacts.manifest(Reference.parse(image))
    await stage.stop(pod)
