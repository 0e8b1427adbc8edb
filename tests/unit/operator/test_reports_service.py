"""The report endpoint without an API server: tokens, progress in time, and what pods are told."""

from __future__ import annotations

import asyncio
from copy import deepcopy
from typing import Any, cast

import pytest

from corral.families.trainingjob.checkpoints.stores import Stores
from corral.kube.client import KubeClient, KubeConnectionError
from corral.kube.errors import InternalError
from corral.kube.types import Obj
from corral.operator.reports.bodies import Announcement, Report, UploadRequest
from corral.operator.reports.errors import Fenced, Forbidden, Refused, Unauthorized, Unavailable
from corral.operator.reports.identity import TokenChecker
from corral.operator.reports.progress import ProgressBook
from corral.operator.reports.service import Caller, ReportService
from corral.operator.reports.views import Views
from corral.runtime.events.recorder import EventRecorder

AUDIENCE = "corral.dev/report"


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class FakeClient:
    """Answers reviews, and notes patches."""

    def __init__(self) -> None:
        self.status: Obj = reviewed()
        self.reviews = 0
        self.patches: list[Obj] = []
        self.error: Exception | None = None

    async def create(self, resource: Any, obj: Obj, **_: Any) -> Obj:
        if self.error is not None:
            raise self.error
        assert obj["spec"]["audiences"] == [AUDIENCE]
        self.reviews += 1
        return {"status": self.status}

    async def patch(self, resource: Any, name: str, *, patch: Obj, **_: Any) -> Obj:
        if self.error is not None:
            raise self.error
        self.patches.append(deepcopy(patch))
        return {}

    @property
    def steps(self) -> list[int]:
        return [patch["status"]["progress"]["step"] for patch in self.patches]


def reviewed(**changes: Any) -> Obj:
    extra = {
        "authentication.kubernetes.io/pod-name": ["mnist-0"],
        "authentication.kubernetes.io/pod-uid": ["pod-uid"],
    }
    user = {"username": "system:serviceaccount:a:mnist", "extra": extra}
    return {"authenticated": True, "audiences": [AUDIENCE], "user": user, **changes}


def as_client(fake: FakeClient) -> KubeClient:
    return cast(KubeClient, fake)


# --- tokens ------------------------------------------------------------------------------------


async def test_tokens_are_remembered_for_a_minute() -> None:
    fake, clock = FakeClient(), Clock()
    checker = TokenChecker(as_client(fake), AUDIENCE, clock=clock)
    for _ in range(3):
        found = await checker.identify("Bearer good")
        assert (found.namespace, found.pod, found.uid) == ("a", "mnist-0", "pod-uid")
    assert fake.reviews == 1
    await checker.identify("bearer other")
    assert fake.reviews == 2
    clock.now += 61
    await checker.identify("Bearer good")
    assert fake.reviews == 3
    assert all(b"good" not in digest for digest in checker._known)


@pytest.mark.parametrize(
    "status",
    [
        {"authenticated": False},
        {},
        reviewed(audiences=["kubernetes"]),
        reviewed(audiences=None),
        reviewed(user={"username": "system:serviceaccount:a:mnist"}),
        reviewed(user={"username": "admin", "extra": reviewed()["user"]["extra"]}),
    ],
)
async def test_bad_tokens_are_not_remembered(status: Obj) -> None:
    fake = FakeClient()
    fake.status = status
    checker = TokenChecker(as_client(fake), AUDIENCE, clock=Clock())
    for _ in range(2):
        with pytest.raises(Unauthorized):
            await checker.identify("Bearer bad")
    assert fake.reviews == 2
    fake.status = reviewed()
    await checker.identify("Bearer bad")


async def test_headers_that_prove_nothing() -> None:
    checker = TokenChecker(as_client(FakeClient()), AUDIENCE)
    for header in ("", "Bearer", "Bearer  ", "Basic eDp5", "Bearer " + "x" * 20_000):
        with pytest.raises(Unauthorized):
            await checker.identify(header)


@pytest.mark.parametrize("error", [KubeConnectionError("gone"), InternalError("oops")])
async def test_an_api_server_that_does_not_answer(error: Exception) -> None:
    fake = FakeClient()
    fake.error = error
    with pytest.raises(Unavailable):
        await TokenChecker(as_client(fake), AUDIENCE).identify("Bearer good")


# --- progress ----------------------------------------------------------------------------------

JOB: Obj = {
    "metadata": {"name": "mnist", "namespace": "a", "uid": "u", "annotations": {}},
    "spec": {"replicas": 1, "checkpoint": {"storage": {"pvc": {"size": "1Gi"}}, "interval": "5m"}},
    "status": {"attempt": 2},
}


async def test_first_and_last_at_once_the_rest_in_time() -> None:
    fake, clock = FakeClient(), Clock()
    book = ProgressBook(as_client(fake), clock=clock, wall=clock)
    await book.take(JOB, 1, Report(step=1, total=9))
    await book.take(JOB, 1, Report(step=2, total=9))
    await book.take(JOB, 1, Report(step=3, total=9))
    assert fake.steps == [1]
    assert await book.flush() == 2.0
    clock.now += 2
    assert await book.flush() is None
    assert fake.steps == [1, 3], "the newest wins"
    await book.take(JOB, 1, Report(step=9, total=9))
    assert fake.steps == [1, 3, 9]
    await book.take(JOB, 2, Report(step=4, total=9))
    assert fake.steps == [1, 3, 9, 4], "another attempt begins anew"
    assert all(patch["metadata"] == {"uid": "u"} for patch in fake.patches)
    assert {key for patch in fake.patches for key in patch["status"]} == {"progress"}


async def test_what_is_no_longer_reported_is_removed() -> None:
    fake, clock = FakeClient(), Clock()
    book = ProgressBook(as_client(fake), clock=clock, wall=clock)
    await book.take(JOB, 1, Report(step=1, epoch=3, metrics={"a": 1.0}))
    clock.now += 5
    await book.take(JOB, 1, Report(step=2, metrics={"b": 2.0}))
    progress = fake.patches[1]["status"]["progress"]
    assert progress["epoch"] is None
    assert progress["metrics"] == {"a": None, "b": 2.0}


async def test_the_writer_writes_what_waits() -> None:
    fake, clock = FakeClient(), Clock()

    async def sleep(seconds: float) -> None:
        clock.now += seconds
        await asyncio.sleep(0)

    book = ProgressBook(as_client(fake), clock=clock, wall=clock, sleep=sleep)
    task = asyncio.create_task(book.run())
    await book.take(JOB, 1, Report(step=1))
    await book.take(JOB, 1, Report(step=2))
    while fake.steps != [1, 2]:  # noqa: ASYNC110 - the loop's other task makes it true
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_failed_write_does_not_end_the_writer() -> None:
    fake, clock = FakeClient(), Clock()
    book = ProgressBook(as_client(fake), clock=clock, wall=clock)
    await book.take(JOB, 1, Report(step=1))
    await book.take(JOB, 1, Report(step=2))
    fake.error = KubeConnectionError("gone")
    assert await book.flush(everything=True) is None
    fake.error = None
    clock.now += 2
    await book.take(JOB, 1, Report(step=3))
    assert fake.steps == [1, 3]


# --- the service -------------------------------------------------------------------------------


class FakeViews:
    def __init__(self) -> None:
        self.jobs: dict[str, Obj] = {"mnist": JOB}
        self.fresh: dict[str, Obj] = {}
        self.pods: dict[str, Obj] = {"pod-uid": pod()}
        self.found: list[Obj] = []

    async def job(self, namespace: str, name: str, *, fresh: bool = False) -> Obj | None:
        return self.fresh.get(name, self.jobs.get(name)) if fresh else self.jobs.get(name)

    async def pod(self, namespace: str, name: str, uid: str) -> Obj | None:
        return self.pods.get(uid)

    async def checkpoints(self, namespace: str, job: str) -> list[Obj]:
        return self.found

    async def checkpoint(self, namespace: str, name: str) -> Obj | None:
        return None


def pod(*, attempt: int = 2, owner: str = "u", **labels: str) -> Obj:
    reference = {
        "apiVersion": "training.corral.dev/v1alpha1", "kind": "TrainingJob", "name": "mnist",
        "uid": owner, "controller": True,
    }  # fmt: skip
    given = {"trainingjob": "mnist", "replica-id": "0", "training.corral.dev/attempt": str(attempt)}
    return {
        "metadata": {
            "name": "mnist-0",
            "labels": {**given, **labels},
            "ownerReferences": [reference],
        }
    }


def service(fake: FakeClient, views: FakeViews) -> ReportService:
    client = as_client(fake)
    stores = Stores(client, environment={})
    recorder = EventRecorder(client, "test")
    return ReportService(client, stores, cast(Views, views), recorder, clock=Clock(), wall=Clock())


async def test_callers() -> None:
    views = FakeViews()
    found = await service(FakeClient(), views).identify("Bearer x", "a", "mnist")
    assert (found.replica, found.attempt, found.world) == (0, 2, 1)
    for wrong in (pod(owner="another"), pod(trainingjob="other")):
        views.pods["pod-uid"] = wrong
        with pytest.raises(Forbidden):
            await service(FakeClient(), views).identify("Bearer x", "a", "mnist")
    views.pods["pod-uid"] = pod(attempt=1)
    with pytest.raises(Fenced, match="attempt 2 of the job has begun"):
        await service(FakeClient(), views).identify("Bearer x", "a", "mnist")
    views.pods.clear()
    with pytest.raises(Forbidden, match="does not exist"):
        await service(FakeClient(), views).identify("Bearer x", "a", "mnist")


async def test_a_job_made_anew_is_found() -> None:
    """The copy at hand may be of the job before."""
    views = FakeViews()
    views.pods["pod-uid"] = pod(owner="new")
    views.fresh["mnist"] = {**JOB, "metadata": {**JOB["metadata"], "uid": "new"}}
    found = await service(FakeClient(), views).identify("Bearer x", "a", "mnist")
    assert found.job["metadata"]["uid"] == "new"


def caller(**more: Any) -> Caller:
    return Caller(**{"job": JOB, "pod": pod(), "replica": 0, "attempt": 2, "world": 1, **more})


async def test_publishing_reads_the_job_afresh() -> None:
    views = FakeViews()
    views.fresh["mnist"] = {**JOB, "status": {"attempt": 3}}
    with pytest.raises(Fenced):
        await service(FakeClient(), views).upload(caller(), UploadRequest(step=1, files=[]))


async def test_an_older_attempt_in_the_body_is_fenced() -> None:
    with pytest.raises(Fenced):
        await service(FakeClient(), FakeViews()).report(caller(), Report(step=1, attempt=1))


async def test_a_replica_that_was_restarted_alone_works_in_its_set() -> None:
    """It is of attempt 3, in a set of attempt 2; only its own earlier pod is fenced."""
    alone = {**JOB, "status": {"attempt": 2, "replicaAttempts": {"1": 3}}}
    views = FakeViews()
    views.jobs["mnist"] = alone
    others = await service(FakeClient(), views).identify("Bearer x", "a", "mnist")
    assert (others.attempt, others.set_attempt) == (2, 2)
    views.pods["pod-uid"] = pod(attempt=3, **{"replica-id": "1"})
    again = await service(FakeClient(), views).identify("Bearer x", "a", "mnist")
    assert (again.attempt, again.set_attempt) == (3, 2)
    await service(FakeClient(), views).report(again, Report(step=1, attempt=2))
    views.pods["pod-uid"] = pod(attempt=2, **{"replica-id": "1"})
    with pytest.raises(Fenced, match="attempt 3 of the job has begun; attempt 2 must stop"):
        await service(FakeClient(), views).identify("Bearer x", "a", "mnist")


async def test_parts_of_others_are_refused() -> None:
    found = service(FakeClient(), FakeViews())
    for replica, of, world, mine in ((1, 1, 1, 0), (0, 2, 2, 1), (2, 4, 2, 0), (0, 3, 2, 0)):
        request = UploadRequest(step=1, replica=replica, of=of, files=[])
        with pytest.raises(Forbidden):
            await found.upload(caller(world=world, replica=mine), request)
    with pytest.raises(Refused, match="on a volume"):  # so the part was accepted
        request = UploadRequest(step=1, replica=3, of=4, files=[])
        await found.upload(caller(world=2, replica=1), request)


async def test_announcing_is_for_volumes() -> None:
    bucket = deepcopy(JOB)
    bucket["spec"]["checkpoint"]["storage"] = {"s3": {"bucket": "b"}}
    announcement = Announcement(id="step-1.x", manifest={})
    with pytest.raises(Refused, match="object store"):
        await service(FakeClient(), FakeViews()).announce(caller(job=bucket), announcement)


async def test_what_a_pod_is_told() -> None:
    views = FakeViews()
    going = {
        "metadata": {
            "name": "mnist-000001",
            "deletionTimestamp": "2026-01-01T00:00:00Z",
            "annotations": {"training.corral.dev/job-uid": "u"},
        },
        "spec": {"jobRef": {"name": "mnist"}, "step": 1, "uri": "pvc://c/step-1.x"},
        "status": {"phase": "Ready"},
    }
    views.found = [going]
    job = {**JOB, "metadata": {**JOB["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}
    found = service(FakeClient(), views)
    answer = await found.report(caller(job=job), Report())
    assert answer == {
        "checkpointAt": None,
        "checkpointNow": None,
        "delete": ["step-1.x"],
        "interval": 300.0,
        "stop": True,
    }
    answer = await found.report(caller(replica=1, world=2), Report())
    assert answer["delete"] == [], "one pod deletes"
