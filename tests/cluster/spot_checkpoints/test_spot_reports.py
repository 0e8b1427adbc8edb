"""What copies of spot jobs tell and ask; the pods are played, with the tokens they would have."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import aiohttp
import pytest

from corral.api.spot.kinds import JOB_LABEL, PREEMPTION_TAINT, SPOTINSTANCEJOBS
from corral.checkpoints.location import open_store
from corral.checkpoints.manifest import FileEntry, Manifest
from corral.checkpoints.paths import QUARANTINED
from corral.clouds import Notice, NoticeKind
from corral.cluster.node.notices import condition_of
from corral.families.spot.jobs import reported
from corral.families.spot.names import copy_name
from corral.kube.resources import JOBS, NODES, PODS, SECRETS, SERVICEACCOUNTS
from corral.kube.types import Obj
from corral.runtime.owners import owner_reference
from corral.runtime.pods.reports import REPORT_AUDIENCE
from tests.backends import own_scope
from tests.cluster.spot_checkpoints.spot_stage import SpotStage
from tests.cluster.trainingjob_checkpoints.checkpoint_stage import Pod, downloaded
from tests.stores.servers import SERVERS, Served, remote_stores


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


@pytest.fixture(scope=own_scope, params=remote_stores())
def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    """One object store, running."""
    with SERVERS[request.param](tmp_path_factory.mktemp(request.param)) as found:
        yield found


_NOWHERE = {"nodeSelector": {"nowhere": "true"}}


async def played(
    stage: SpotStage,
    http: aiohttp.ClientSession,
    job: Obj,
    replica: int = 0,
    attempt: int = 1,
    *,
    node: str = "",
) -> Pod:
    """The pod of a copy that does not run, with its token."""
    name = copy_name(job, replica, attempt)
    template = {"containers": [{"name": "trainer", "image": "python"}], "restartPolicy": "Never"}
    owner = await stage.client.create(
        JOBS,
        {
            "metadata": {
                "name": name,
                "namespace": stage.namespace,
                "ownerReferences": [owner_reference(job)],
            },
            # the case is its controller
            "spec": {"managedBy": "tests.corral.dev/case", "template": {"spec": template}},
        },
    )
    pod = await stage.client.create(
        PODS,
        {
            "metadata": {
                "name": name,
                "namespace": stage.namespace,
                "labels": {JOB_LABEL: job["metadata"]["name"]},
                "ownerReferences": [owner_reference(JOBS.stamp(owner))],
            },
            "spec": template | ({"nodeName": node} if node else _NOWHERE),
        },
    )
    bound = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": pod["metadata"]["uid"]}
    answer = await stage.client.create_subresource(
        SERVICEACCOUNTS,
        "default",
        namespace=stage.namespace,
        subresource="token",
        body={
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"audiences": [REPORT_AUDIENCE], "boundObjectRef": bound},
        },
    )
    url = f"{stage.report_url}/v1/namespaces/{stage.namespace}/spotinstancejobs"
    where = f"{url}/{job['metadata']['name']}"
    return Pod(http, where, answer["status"]["token"], 0, attempt)


async def notes(stage: SpotStage, job: Obj, replica: int = 0, attempt: int = 1) -> Obj:
    found = await stage.client.get(
        PODS, copy_name(job, replica, attempt), namespace=stage.namespace
    )
    return PODS.stamp(found)


async def status(stage: SpotStage, job: Obj, **fields: Any) -> None:
    await stage.client.patch(
        SPOTINSTANCEJOBS,
        job["metadata"]["name"],
        namespace=stage.namespace,
        patch={"status": fields},
        subresource="status",
    )


def manifest(job: Obj, step: int, *, attempt: int = 1) -> Obj:
    """The manifest that a copy wrote to its volume."""
    files = (FileEntry("model.bin", 3, hashlib.sha256(b"abc").hexdigest()),)
    found = Manifest(
        id=f"step-{step:012d}.n{step}",
        step=step,
        time=time.time(),
        files=files,
        attempt=attempt,
        job_uid=job["metadata"]["uid"],
    )
    read: Obj = json.loads(found.encode())
    return read


class TestReports:
    async def test_progress_and_checkpoints_are_noted_on_the_pod(
        self, stage: SpotStage, http: aiohttp.ClientSession
    ) -> None:
        job = await stage.job(checkpointInterval="20s")
        pod = await played(stage, http, job)
        answer = await pod.report(step=3, total=10, restored={"id": "step-1.x", "step": 1})
        assert answer == {
            "checkpointAt": None, "checkpointNow": None, "deadline": None, "delete": [],
            "interval": 20.0,
            "stop": False,
        }  # fmt: skip
        found = await notes(stage, job)
        told = reported.progress(found)
        assert told is not None and (told.step, told.total) == (3, 10)
        assert reported.restored(found) == reported.Restored("step-1.x", 1)
        written = manifest(job, 5)
        await pod.good("checkpoints", {"id": written["id"], "manifest": written, "duration": 1.5})
        last = reported.last_checkpoint(await notes(stage, job))
        assert last is not None
        assert (last.id, last.step, last.seconds, last.bytes) == (written["id"], 5, 1.5, 3)

    async def test_a_checkpoint_is_asked_for_until_one_answers(
        self, stage: SpotStage, http: aiohttp.ClientSession
    ) -> None:
        job = await stage.job()
        pod = await played(stage, http, job, replica=1)
        other = await played(stage, http, job, replica=0, attempt=2)
        await status(stage, job, checkpointRequest={"id": "now-1", "replica": 1})

        async def asked() -> bool:
            return (await pod.report(step=1))["checkpointNow"] == "now-1"

        await stage.until(asked)
        assert (await other.report(step=1))["checkpointNow"] is None
        written = manifest(job, 5)
        await pod.good(
            "checkpoints", {"id": written["id"], "manifest": written, "request": "now-1"}
        )

        async def answered() -> bool:
            return (await pod.report(step=1))["checkpointNow"] is None

        await stage.until(answered)

    async def test_a_start_that_was_replaced_is_fenced(
        self, stage: SpotStage, http: aiohttp.ClientSession
    ) -> None:
        job = await stage.job()
        old, new = await played(stage, http, job), await played(stage, http, job, attempt=4)
        other = await played(stage, http, job, replica=1, attempt=2)
        copies = [
            {"name": copy_name(job, 0, 4), "replica": 0, "attempt": 4},
            {"name": copy_name(job, 1, 2), "replica": 1, "attempt": 2},
        ]
        await status(stage, job, jobStatuses=copies)

        async def fenced() -> bool:
            code, answer = await old.post("report", {"attempt": 1, "step": 1})
            return code != 200 and "attempt 4" in str(answer)

        await stage.until(fenced)
        await new.report(step=1)
        await other.report(step=1)

    async def test_who_is_no_copy_is_refused(
        self, stage: SpotStage, http: aiohttp.ClientSession
    ) -> None:
        job, another = await stage.job(), await stage.job("another")
        pod = await played(stage, http, job)
        stranger = Pod(http, pod.url.replace("/digits", "/another"), pod.token)
        assert (await stranger.post("report", {"step": 1}))[0] == 403
        nobody = Pod(http, pod.url.replace("/digits", "/nobody"), pod.token)
        assert (await nobody.post("report", {"step": 1}))[0] == 404
        assert (await pod.post("report", {"step": 1}, token="made-up"))[0] == 401
        assert another["metadata"]["name"] == "another"

    async def test_when_the_machine_goes_is_told(
        self, stage: SpotStage, http: aiohttp.ClientSession
    ) -> None:
        job = await stage.job()
        name = f"machine-{stage.namespace}"
        taint = {"key": PREEMPTION_TAINT, "value": "1800000000", "effect": "NoSchedule"}
        machine = {"metadata": {"name": name}, "spec": {"taints": [taint]}}
        await stage.client.create(NODES, machine)
        try:
            pod = await played(stage, http, job, node=name)

            async def told() -> bool:
                return (await pod.report(step=1))["deadline"] == 1_800_000_000.0

            await stage.until(told)
        finally:
            await stage.client.delete(NODES, name)

    async def test_a_machine_at_risk_is_asked_for_one_checkpoint(
        self, stage: SpotStage, http: aiohttp.ClientSession
    ) -> None:
        job = await stage.job()
        name = f"machine-{stage.namespace}"
        await stage.client.create(NODES, {"metadata": {"name": name}})
        try:
            pod = await played(stage, http, job, node=name)
            assert (await pod.report(step=1))["checkpointNow"] is None
            notice = Notice(kind=NoticeKind.REBALANCE, vm=name, seen=time.time())
            patch = {"status": {"conditions": [condition_of(notice)]}}
            await stage.client.patch(
                NODES, name, patch=patch, kind="strategic", subresource="status"
            )

            async def asked() -> str | None:
                found: str | None = (await pod.report(step=1))["checkpointNow"]
                return found

            request = await stage.until(asked)
            assert request == f"risk-{int(notice.seen)}"
            written = manifest(job, 5)
            told = {"id": written["id"], "manifest": written, "duration": 1.5, "request": request}
            await pod.good("checkpoints", told)

            async def content() -> bool:
                return await asked() is None

            await stage.until(content)
        finally:
            await stage.client.delete(NODES, name)

    async def test_damage_is_told_of(self, stage: SpotStage, http: aiohttp.ClientSession) -> None:
        job = await stage.job()
        pod = await played(stage, http, job)
        rejected = {"id": "step-1.x", "reason": "CheckpointDigestMismatch", "message": "broken"}
        await pod.report(rejected=[rejected])
        (text,) = await stage.until(lambda: stage.events("CheckpointRejected"))
        assert "step-1.x was passed over" in text and "broken" in text


class TestBuckets:
    async def job(self, stage: SpotStage, served: Served, **config: Any) -> Obj:
        location = served.location
        kind = {"s3": "s3", "gs": "gcs", "az": "azure"}[location.scheme]
        storage = {"type": kind, "bucket": location.url}
        secret = {"metadata": {"name": "keys"}, "stringData": dict(served.credentials)}
        await stage.client.create(SECRETS, secret, namespace=stage.namespace)
        return await stage.job(
            spec={"credentialsSecretRef": {"name": "keys"}}, checkpointStorage=storage, **config
        )

    async def test_any_copy_starts_from_the_newest_of_all(
        self, stage: SpotStage, http: aiohttp.ClientSession, served: Served
    ) -> None:
        job = await self.job(stage, served)
        first = await played(stage, http, job, replica=0, attempt=1)
        second = await played(stage, http, job, replica=1, attempt=2)
        await first.save(10, {"model.bin": b"ten"})
        saved = await second.save(20, {"model.bin": b"twenty" * 1000})
        third = await played(stage, http, job, replica=0, attempt=3)
        newest, older = await third.restore()
        assert (newest["step"], older["step"]) == (20, 10)
        assert await downloaded(newest) == {"model.bin": b"twenty" * 1000}
        last = reported.last_checkpoint(await notes(stage, job, 1, 2))
        assert last is not None and last.id == saved["id"] and last.bytes == 6000

    async def test_damage_falls_back(
        self, stage: SpotStage, http: aiohttp.ClientSession, served: Served
    ) -> None:
        job = await self.job(stage, served)
        first = await played(stage, http, job, replica=0, attempt=1)
        second = await played(stage, http, job, replica=1, attempt=2)
        await first.save(10, {"model.bin": b"ten"})
        cut = await second.save(20, {"model.bin": b"twenty"})
        worse = await second.save(30, {"model.bin": b"thirty"})
        metadata = job["metadata"]
        place = served.location.below(
            metadata["namespace"], metadata["name"], metadata["uid"], "replica-1"
        )
        store = open_store(place, served.credentials)
        store.delete([f"{cut['id']}/model.bin"])
        third = await played(stage, http, job, replica=0, attempt=3)
        assert [found["step"] for found in await third.restore()] == [30, 10]
        assert QUARANTINED in store.entries(cut["id"])[1]
        # a byte that has changed is found by the copy that reads it
        await third.report(rejected=[{"id": worse["id"], "message": "a digest is wrong"}])
        assert [found["step"] for found in await third.restore()] == [10]
        assert len(await stage.until(lambda: stage.events("CheckpointRejected"))) >= 1

    async def test_only_the_newest_start_of_a_copy_commits(
        self, stage: SpotStage, http: aiohttp.ClientSession, served: Served
    ) -> None:
        job = await self.job(stage, served)
        old = await played(stage, http, job, replica=0, attempt=1)
        begun = await old.begin(10, {"model.bin": b"old"})
        new = await played(stage, http, job, replica=0, attempt=2)
        await new.save(5, {"model.bin": b"new"})
        code, answer = await old.finish(begun, {"model.bin": b"old"})
        assert code != 200 and "attempt 2" in str(answer)
        (found,) = await new.restore()
        assert found["step"] == 5

    async def test_a_commit_may_be_repeated_and_no_more_than_are_kept(
        self, stage: SpotStage, http: aiohttp.ClientSession, served: Served
    ) -> None:
        job = await self.job(stage, served, keep=2)
        pod = await played(stage, http, job)
        for step in (1, 2, 3):
            begun = await pod.begin(step, {"model.bin": bytes([step])})
            first = await pod.finish(begun, {"model.bin": bytes([step])})
            again = await pod.finish(begun, {"model.bin": bytes([step])})
            assert first == again == (200, {"complete": True, "name": begun["id"]})
        assert [found["step"] for found in await pod.restore()] == [3, 2]

    async def test_what_the_copy_may_not(
        self, stage: SpotStage, http: aiohttp.ClientSession, served: Served
    ) -> None:
        job = await self.job(stage, served)
        pod = await played(stage, http, job)
        code, answer = await pod.post("restore", {"from": "s3://elsewhere/step-1.x"})
        assert code == 409 and "latest" in answer["error"]
        pod.of = 2
        code, answer = await pod.post("uploads", {"step": 1, "of": 2, "files": []})
        assert code == 409 and "whole checkpoints" in answer["error"]


async def test_folders_are_not_for_urls(stage: SpotStage, http: aiohttp.ClientSession) -> None:
    job = await stage.job()
    pod = await played(stage, http, job)
    code, answer = await pod.post("restore", {})
    assert code == 409 and "volume" in answer["error"]
