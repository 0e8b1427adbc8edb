"""Checkpoints in object stores, by signed URLs, on every store."""

from __future__ import annotations

import asyncio
import os

import pytest

from corral.checkpoints.repository import Repository
from corral.families.trainingjob.checkpoints.objects import CheckpointObjects
from corral.kube.client import KubeClient, KubeConnectionError
from corral.operator.reports import ReportSettings, UploadSettings
from tests.cluster.trainingjob_checkpoints.checkpoint_stage import (
    PART,
    Stage,
    downloaded,
    send,
    staged,
    storage_of,
)
from tests.stores.servers import Served

FILES = {"model.bin": b"weights" * 100, "optimizer/state.bin": b"momentum"}


async def test_uploaded_committed_restored(stage: Stage, served: Served) -> None:
    await stage.secret(served.credentials)
    job = await stage.job("mnist", storage_of(served, prefix="jobs"))
    pod = await stage.pod(job)
    begun = await pod.begin(12, FILES, metrics={"loss": 0.5}, request="please")
    assert begun["name"] == "mnist-000001"
    assert await stage.phases() == {"mnist-000001": "Writing"}
    assert await pod.restore() == []
    status, answer = await pod.finish(begun, FILES, duration=1.5, request="please")
    assert (status, answer) == (200, {"complete": True, "name": "mnist-000001"})
    again = await pod.post(f"uploads/{begun['id']}/commit", {**pod._part(FILES), "replica": 0})
    assert again == (200, answer), "a commit may be repeated"

    found = (await stage.checkpoints())["mnist-000001"]
    assert found["spec"]["jobRef"] == {"name": "mnist"}
    assert found["spec"]["step"] == 12
    assert found["spec"]["metrics"] == {"loss": 0.5}
    assert {file["path"] for file in found["spec"]["files"]} == set(FILES)
    assert found["status"]["phase"] == "Ready"
    assert found["status"]["bytes"] == sum(map(len, FILES.values()))
    assert found["status"]["durationSeconds"] == 1.5
    assert "ownerReferences" not in found["metadata"], "the data outlives the job"
    store = stage.store(served, job, "jobs")
    assert found["spec"]["uri"].startswith(store.url.partition("?")[0])

    (candidate,) = await pod.restore()
    assert (candidate["id"], candidate["step"]) == (begun["id"], 12)
    assert await downloaded(candidate) == FILES
    if served.ranged:
        assert Repository(store).verify(Repository(store).get(begun["id"])) == []


async def test_large_files_go_in_parts(stage: Stage, served: Served) -> None:
    await stage.secret(served.credentials)
    job = await stage.job("large", storage_of(served))
    pod = await stage.pod(job)
    files = {"big.bin": os.urandom(2 * PART + 17), "small.bin": b"x"}
    begun = await pod.begin(1, files)
    assert [len(place["requests"]) for place in begun["files"]] == [3, 1]
    status, answer = await pod.finish(begun, files)
    assert (status, answer["complete"]) == (200, True)
    if served.ranged:
        (candidate,) = await pod.restore()
        assert await downloaded(candidate) == files


async def test_tampered_urls_are_refused(stage: Stage, served: Served) -> None:
    await stage.secret(served.credentials)
    job = await stage.job("mnist", storage_of(served))
    pod = await stage.pod(job)
    begun = await pod.begin(3, FILES)
    request = begun["files"][0]["requests"][0]
    for tampered in (
        {**request, "url": request["url"].replace("model.bin", "MANIFEST.json")},
        {**request, "method": "GET"},
        {**request, "url": request["url"].partition("?")[0]},
    ):
        body = None if tampered["method"] == "GET" else b"evil"
        status, _, _ = await asyncio.to_thread(send, tampered, body)
        assert status in (400, 401, 403), tampered["url"]
    assert not stage.ids_in(stage.store(served, job))


async def test_expired_urls_are_refused(client: KubeClient, namespace: str, served: Served) -> None:
    settings = ReportSettings(uploads=UploadSettings(url_ttl=1.0))
    async with staged(client, namespace, settings=settings) as stage:
        await stage.secret(served.credentials)
        pod = await stage.pod(await stage.job("mnist", storage_of(served)))
        begun = await pod.begin(3, FILES)
        request = begun["files"][0]["requests"][0]

        async def refused() -> bool:
            status, _, _ = await asyncio.to_thread(send, request, b"late")
            return status in (400, 401, 403)

        await stage.until(refused)


async def test_torn_uploads_are_not_committed(stage: Stage, served: Served) -> None:
    await stage.secret(served.credentials)
    job = await stage.job("mnist", storage_of(served))
    pod = await stage.pod(job)
    begun = await pod.begin(3, FILES)
    first = begun["files"][0]["requests"][0]
    assert (await asyncio.to_thread(send, first, b"too short"))[0] in (200, 201)
    commit = f"uploads/{begun['id']}/commit"
    status, answer = await pod.post(commit, pod._part(FILES))
    assert status == 409
    assert "model.bin has 9 bytes, not 700" in answer["error"]
    assert not stage.ids_in(stage.store(served, job))
    assert await pod.restore() == []
    status, answer = await pod.finish(begun, FILES)
    assert (status, answer["complete"]) == (200, True), "mended, it is good"


async def test_shards_need_each_other(stage: Stage, served: Served) -> None:
    await stage.secret(served.credentials)
    job = await stage.job("sharded", storage_of(served), replicas=2)
    pods = [await stage.pod(job, replica=n, world=2, sharded=True) for n in (0, 1)]
    parts = [{"shard.bin": bytes([n]) * 10} for n in (0, 1)]
    begun = [await pod.begin(7, files) for pod, files in zip(pods, parts, strict=True)]
    assert begun[0]["id"] == begun[1]["id"]
    assert await stage.phases() == {"sharded-000001": "Writing"}
    assert await pods[0].finish(begun[0], parts[0]) == (
        200,
        {"complete": False, "name": "sharded-000001"},
    )
    assert await pods[0].restore() == []
    assert await pods[1].finish(begun[1], parts[1]) == (
        200,
        {"complete": True, "name": "sharded-000001"},
    )
    await stage.until_phases({"sharded-000001": "Ready"})
    (candidate,) = await pods[1].restore()
    data = await downloaded(candidate)
    assert sorted(data.values()) == [part["shard.bin"] for part in parts]
    assert sorted(entry["shard"] for entry in candidate["files"]) == [0, 1]
    wrong = {**pods[1]._part(parts[1]), "replica": 0, "step": 8}
    status, answer = await pods[1].post("uploads", wrong)
    assert (status, answer["error"]) == (403, "part 0 of 2 is not that of replica 1")


async def test_an_older_attempt_is_fenced(stage: Stage, served: Served) -> None:
    await stage.secret(served.credentials)
    job = await stage.job("mnist", storage_of(served))
    old = await stage.pod(job)
    begun = await old.begin(3, FILES)
    await stage.set_attempt("mnist", 2)
    status, answer = await old.finish(begun, FILES)
    assert (status, answer["fenced"]) == (409, True)
    assert not stage.ids_in(stage.store(served, job))

    async def told() -> bool:
        status, answer = await old.post("report", {"replica": 0, "attempt": 1, "step": 4})
        return status == 409 and answer["fenced"] is True

    await stage.until(told)
    await stage.until_phases({})  # what it was writing is given up, data included
    await stage.delete_pod("mnist-0")
    new = await stage.pod(job, attempt=2)
    assert (await new.save(2, FILES))["complete"]
    assert len(stage.ids_in(stage.store(served, job))) == 1


async def test_the_store_itself_fences(stage: Stage, served: Served) -> None:
    """Even if the API were wrong about the attempt: the newer one has marked the store."""
    await stage.secret(served.credentials)
    job = await stage.job("mnist", storage_of(served))
    pod = await stage.pod(job)
    begun = await pod.begin(3, FILES)
    Repository(stage.store(served, job)).claim(2)
    status, answer = await pod.finish(begun, FILES)
    assert (status, answer["fenced"]) == (409, True)


async def test_secrets_without_keys_are_refused(stage: Stage, served: Served) -> None:
    job = await stage.job("mnist", storage_of(served))
    pod = await stage.pod(job)
    status, answer = await pod.post("uploads", {**pod._part(FILES), "step": 1})
    assert status == 409
    assert "there is no Secret keys" in answer["error"]
    await stage.secret({"GOOGLE_APPLICATION_CREDENTIALS": "/etc/passwd"})
    status, answer = await pod.post("uploads", {**pod._part(FILES), "step": 1})
    assert status == 409
    assert "needs the keys" in answer["error"]


async def test_an_operator_that_dies_in_a_commit(
    stage: Stage, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The manifest is there, the object does not say so, and the pod is gone as well."""
    await stage.secret(served.credentials)
    job = await stage.job("mnist", storage_of(served))
    pod = await stage.pod(job)
    begun = await pod.begin(3, FILES)

    async def dies(*_: object, **__: object) -> None:
        raise KubeConnectionError("the process was killed here")

    with monkeypatch.context() as dying:
        dying.setattr(CheckpointObjects, "ready", dies)
        assert (await pod.finish(begun, FILES))[0] == 503
    assert await stage.phases() == {"mnist-000001": "Writing"}
    await stage.set_attempt("mnist", 2)
    await stage.until_phases({"mnist-000001": "Ready"})
    await stage.delete_pod("mnist-0")
    (candidate,) = await (await stage.pod(job, attempt=2)).restore()
    assert await downloaded(candidate) == FILES
