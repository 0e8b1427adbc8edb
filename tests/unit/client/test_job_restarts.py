"""Restarts against an API server that fails at the worst moments."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest
from aiohttp import web
from jobs_fake_api import answer, condition, events, listed, mpijob, refuse, serving

from corral.client import Jobs
from corral.client.errors import Changed, Conflict, Invalid, RestartIncomplete
from corral.client.restarts import RESTARTED_ANNOTATION, fresh_copy
from corral.kube.client import KubeClient

Obj = dict[str, Any]
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


class Server:
    """One MPIJob and no code; what a case changes is in the fields."""

    def __init__(self, job: Obj | None = None) -> None:
        self.job: Obj | None = job or mpijob("pi", "1", condition("Failed"))
        self.log: list[str] = []
        self.created: list[Obj] = []
        self.rehearsal = 201
        self.failures: list[web.Response] = []
        """Answers to creates, before they work."""
        self.deleted = asyncio.Event()
        self.hold = asyncio.Event()
        """The create waits for it."""
        self.hold.set()

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        if "configmaps" in request.path:
            return answer(listed("1"))
        if request.method == "GET":
            return await self._read(request)
        dry = request.query.get("dryRun") == "All"
        self.log.append(f"{request.method}{' dry' if dry else ''}")
        if request.method == "DELETE":
            self.job = None
            self.deleted.set()
            return answer({"kind": "Status", "status": "Success"})
        if dry:
            made = orjson.loads(await request.read())
            if self.rehearsal != 201:
                return refuse(self.rehearsal, "Invalid", "it is wrong now")
            return answer(made, 201)
        await self.hold.wait()
        if self.failures:
            return self.failures.pop(0)
        body = orjson.loads(await request.read())
        body["metadata"] |= {"uid": "new", "resourceVersion": "9"}
        self.created.append(body)
        self.job = body
        return answer(body, 201)

    async def _read(self, request: web.Request) -> web.StreamResponse:
        if "watch" in request.query:
            return await events(request)
        if request.path.endswith("/pi"):
            found = refuse(404, "NotFound", "no", name="pi", kind="mpijobs")
            return answer(self.job) if self.job else found
        return answer(listed("5", *([self.job] if self.job else [])))


async def restart(server: Server, **how: Any) -> Obj:
    async with serving(server) as client:
        return await jobs(client).restart("mpijobs", "ns", "pi", **how)


def jobs(client: KubeClient) -> Jobs:
    return Jobs(client, clock=lambda: NOW)


async def test_it_is_rehearsed_deleted_and_created() -> None:
    server = Server()
    made = await restart(server)
    assert server.log == ["POST dry", "DELETE", "POST"]
    assert made["metadata"]["uid"] == "new"
    assert made["metadata"]["annotations"][RESTARTED_ANNOTATION] == "2026-01-02T03:04:05Z"


async def test_what_would_be_refused_is_not_deleted() -> None:
    server = Server()
    server.rehearsal = 422
    with pytest.raises(Invalid, match="it is wrong now"):
        await restart(server)
    assert server.log == ["POST dry"]


async def test_a_cancelled_restart_is_carried_through() -> None:
    server = Server()
    server.hold.clear()
    async with serving(server) as client:
        task = asyncio.create_task(jobs(client).restart("mpijobs", "ns", "pi"))
        async with asyncio.timeout(30):
            await server.deleted.wait()
            task.cancel()
            server.hold.set()
            with pytest.raises(asyncio.CancelledError):
                await task
    assert len(server.created) == 1


async def test_a_create_that_fails_for_good_gives_the_manifest() -> None:
    server = Server()
    server.failures = [refuse(403, "Forbidden", 'pods "x" is forbidden: exceeded quota: q')]
    with pytest.raises(RestartIncomplete, match="exceeded quota") as caught:
        await restart(server)
    assert caught.value.manifest["metadata"]["name"] == "pi"
    assert caught.value.manifest["spec"] == mpijob("pi")["spec"]


@pytest.mark.parametrize(
    ("job", "how", "error", "said"),
    [
        (mpijob("pi", "1", condition("Running")), {}, Conflict, "only a job that is over"),
        (mpijob("pi", "1", condition("Failed"), deletionTimestamp="x"), {"force": True}, Conflict,
         "is being deleted"),
        (mpijob("pi", "1", condition("Failed"), ownerReferences=[{"controller": True}]), {},
         Conflict, "belongs to another object"),
        (mpijob("pi", "2", condition("Failed")), {"resource_version": "1"}, Changed, "has changed"),
    ],
)  # fmt: skip
async def test_refusals(job: Obj, how: Obj, error: type[Exception], said: str) -> None:
    server = Server(job)
    with pytest.raises(error, match=said):
        await restart(server, **how)
    assert server.log == []


async def test_checkpoints_are_not_lost_unasked() -> None:
    job = mpijob("pi", "1", condition("Failed"))
    job["status"]["checkpoint"] = {"count": 3}
    server = Server(job)
    with pytest.raises(Conflict, match=r"has checkpoints \(3\)") as caught:
        await restart(server)
    assert "restore.from" in caught.value.hint
    await restart(server, force=True)
    assert len(server.created) == 1


def test_a_copy_has_what_people_wrote_and_no_more() -> None:
    old = mpijob(
        "pi", "7", condition("Failed"), labels={"a": "b"}, annotations={"c": "d"},
        finalizers=["x/y"], managedFields=[{}], generation=4, ownerReferences=[{"uid": "o"}],
    )  # fmt: skip
    fresh = fresh_copy(old, restarted_at=NOW)
    assert set(fresh) == {"apiVersion", "kind", "metadata", "spec"}
    assert fresh["metadata"] == {
        "name": "pi",
        "namespace": "ns",
        "labels": {"a": "b"},
        "annotations": {"c": "d", RESTARTED_ANNOTATION: "2026-01-02T03:04:05Z"},
        "ownerReferences": [{"uid": "o"}],
    }
