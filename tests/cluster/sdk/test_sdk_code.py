"""Folders reach pods whichever way they are sent, and leave nothing behind."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from corral.client import errors
from corral.client.access import Access
from corral.client.code import CODE_OF
from corral.sdk.clients import AsyncTrainingClient
from corral.sdk.programs.shipping import INLINE
from tests.cluster.objects import Objects, eventually

pytestmark = pytest.mark.timeout(150)
SECONDS = 90.0


@pytest.fixture
def client(cluster_access: Access, namespace: str) -> AsyncTrainingClient:
    """Straight to the API: a gateway knows no ConfigMaps."""
    return AsyncTrainingClient(access=cluster_access, namespace=namespace)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A program that needs a module beside it, and leaves a file."""
    tmp_path.chmod(0o777)
    (tmp_path / "main.py").write_text(
        "import sys\nfrom pathlib import Path\nfrom lib.words import said\n"
        "Path('result.txt').write_text(said(sys.argv[1]))\nprint(said(sys.argv[1]))\n"
    )
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "words.py").write_text("def said(word): return f'<{word}>'\n")
    return tmp_path


async def test_a_folder_of_this_machine_is_mounted(
    client: AsyncTrainingClient, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CORRAL_SHIP", raising=False)
    job = await client.train(folder, ["a b"], retries=0)
    volumes = job.spec["template"]["spec"]["volumes"]
    assert [volume.get("hostPath", {}).get("path") for volume in volumes] == [str(folder)]
    await client.wait_for_job_status(job, timeout=SECONDS)
    assert (folder / "result.txt").read_text() == "<a b>"


async def test_folders_are_not_mounted_where_pods_may_not_have_them(
    client: AsyncTrainingClient,
    folder: Path,
    cluster: Objects,
    namespace: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("CORRAL_SHIP", raising=False)
    label = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "baseline"}}}
    path, kind = f"/api/v1/namespaces/{namespace}", "application/merge-patch+json"
    assert cluster.backend.request("PATCH", path, label, content_type=kind).code == 200
    job = await client.train(folder, ["x"], dry_run=True)
    assert [sorted(volume) for volume in job.spec["template"]["spec"]["volumes"]] == [
        ["emptyDir", "name"]
    ]


async def test_a_large_folder_goes_by_config_maps(
    client: AsyncTrainingClient, folder: Path, objects: Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CORRAL_SHIP", "archive")
    (folder / "noise.bin").write_bytes(os.urandom(1_200_000))
    job = await client.train("main.py", ["x"], directory=folder, name="large", retries=0)
    owned = _code(objects)
    assert len(owned) == 2
    assert {owner["uid"] for obj in owned for owner in obj["metadata"]["ownerReferences"]} == {
        job.uid
    }
    await client.wait_for_job_status(job, timeout=SECONDS)
    assert [line async for line in client.get_job_logs(job)] == ["<x>"]
    assert not (folder / "result.txt").exists()  # every pod has a copy of its own
    again = await client.restart_job(job)
    assert again.uid != job.uid
    await client.wait_for_job_status(job, timeout=SECONDS)
    await client.delete_job(job)
    eventually(lambda: not _code(objects))


async def test_a_refused_job_leaves_no_code(
    client: AsyncTrainingClient, folder: Path, objects: Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CORRAL_SHIP", "archive")
    (folder / "noise.bin").write_bytes(os.urandom(2 * INLINE))
    with pytest.raises(errors.Invalid):
        await client.train(folder, ["x"], replicas=0)
    assert not _code(objects)
    checked = await client.train(folder, ["x"], dry_run=True)
    assert checked.phase == "Pending"
    assert not _code(objects)


def _code(objects: Objects) -> list[dict[str, object]]:
    path = f"/api/v1/namespaces/{objects.namespace}/configmaps?labelSelector={CODE_OF}"
    items: list[dict[str, object]] = objects.backend.request("GET", path).json()["items"]
    return items
