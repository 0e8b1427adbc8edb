"""What the controller does about a job: what is asked of the server, in which order."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from copy import deepcopy
from typing import Any, cast

import pytest
from prometheus_client import CollectorRegistry

from corral.api.training.kinds import CHECKPOINTS, TRAININGJOBS
from corral.families.trainingjob.lifecycle.limits import RunLimits
from corral.families.trainingjob.reconciler import Reconciler, register
from corral.families.trainingjob.settings import TrainingSettings
from corral.kube import errors
from corral.kube.client import KubeClient
from corral.kube.resources import NAMESPACES, NODES, PODS, Resource
from corral.runtime import Change, Manager, NotYetConsistent, Result, RuntimeMetrics
from corral.runtime.keys import format_time
from tests.unit.families.trainingjob.training_world import (
    START,
    condition,
    ended,
    make_job,
    scheduled,
    unschedulable,
)
from tests.unit.families.trainingjob.trainingjob_fakes import FakeApi

Obj = dict[str, Any]
KEY = "ns/job"


class JobApi(FakeApi):
    """An API with jobs in it, and logs."""

    async def patch(self, resource: Resource, name: str, *, patch: Obj, **more: Any) -> Obj:
        if resource != TRAININGJOBS:
            return await super().patch(resource, name, patch=patch, **more)
        assert more["subresource"] == "status"
        self._begin("patch", resource, name, patch)
        job = deepcopy(self.objects[resource][more["namespace"], name])
        if patch["metadata"]["resourceVersion"] != job["metadata"]["resourceVersion"]:
            raise errors.Conflict(name)
        job["status"] = _merged(job.get("status") or {}, patch["status"])
        return self.put(resource, job)

    async def delete(self, resource: Resource, name: str, **more: Any) -> Obj:
        found = self.objects.get(resource, {}).get((more["namespace"], name)) or {}
        if (found.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
            more["grace_seconds"] = 0  # it has ended already
        left = await super().delete(resource, name, **{"grace_seconds": None, **more})
        if "metadata" in left:
            left["metadata"]["deletionTimestamp"] = format_time(START + 30)
            self.put(resource, left)
        return left

    async def log_lines(self, pod: str, *args: Any, **more: Any) -> AsyncGenerator[str, None]:
        yield f"the last words of {pod}"


def _merged(old: Obj, patch: Obj) -> Obj:
    out = dict(old)
    for key, value in patch.items():
        if value is None:
            out.pop(key, None)
        else:
            nested = isinstance(value, dict)
            out[key] = _merged(out.get(key) or {}, value) if nested else value
    return out


class Desk:
    """A reconciler, its server, and informers that see everything before each look."""

    def __init__(self, **spec: Any) -> None:
        self.api = JobApi()
        self.manager = Manager(
            cast(KubeClient, self.api), metrics=RuntimeMetrics(CollectorRegistry())
        )
        self.now = START
        self.reconciler = self._operator()
        self.api.put(TRAININGJOBS, make_job(**spec))
        names = {"name": "ns", "namespace": ""}
        self.api.put(NAMESPACES, {"metadata": names})

    def _operator(self, manager: Manager | None = None) -> Reconciler:
        return Reconciler(
            manager or self.manager, TrainingSettings(), limits=RunLimits(), wall=lambda: self.now
        )

    def restart(self) -> None:
        """Another process takes over."""
        self.manager = Manager(cast(KubeClient, self.api))
        self.reconciler = self._operator()

    def sync(self) -> None:
        caches = self.reconciler.caches
        informers = {
            TRAININGJOBS: caches.jobs,
            PODS: caches.pods,
            NAMESPACES: caches.namespaces,
            NODES: caches.nodes,
            CHECKPOINTS: self.reconciler.checkpoints,
            **caches.children,
        }
        for resource, informer in informers.items():
            found = deepcopy(list(self.api.objects.get(resource, {}).values()))
            informer.replaced(found, "1")

    async def look(self, *, fresh: bool = True) -> Result | None:
        if fresh:
            self.sync()
        self.api.requests.clear()
        return await self.reconciler.reconcile(KEY)

    @property
    def status(self) -> Obj:
        found: Obj = self.api.objects[TRAININGJOBS]["ns", "job"].get("status") or {}
        return found

    def pods(self) -> dict[str, Obj]:
        return {name: pod for (_, name), pod in self.api.objects.get(PODS, {}).items()}

    def change(self, name: str, make: Any) -> None:
        self.api.put(PODS, make(deepcopy(self.pods()[name])))

    def writes(self) -> list[tuple[str, str]]:
        return [(verb, kind) for verb, kind, _ in self.api.requests if verb != "discover"]


def _runs(pod: Obj) -> Obj:
    pod["status"] = {"phase": "Running"}
    return pod


async def test_the_status_is_written_before_pods_are_created() -> None:
    desk = Desk()
    await desk.look()
    verbs = desk.writes()
    assert verbs[0] == ("patch", "TrainingJob")
    assert verbs.count(("create", "Pod")) == 2
    assert verbs.index(("create", "Service")) < verbs.index(("create", "Pod"))
    assert desk.status["attempt"] == 1
    assert set(desk.pods()) == {"job-0", "job-1"}


async def test_a_steady_job_costs_nothing() -> None:
    desk = Desk()
    await desk.look()
    for name in desk.pods():
        desk.change(name, _runs)
    await desk.look()
    assert desk.status["phase"] == "Running"
    assert await desk.look() == Result(300.0)
    assert desk.writes() == []


async def test_a_conflict_is_tried_again_with_a_fresh_read() -> None:
    desk = Desk()
    desk.sync()
    desk.api.put(TRAININGJOBS, make_job(replicas=3))  # changed meanwhile
    with pytest.raises(errors.Conflict):
        await desk.look(fresh=False)
    assert not desk.pods()
    await desk.look()
    assert len(desk.pods()) == 3


async def test_own_writes_must_have_been_seen() -> None:
    desk = Desk()
    await desk.look()
    desk.reconciler.caches.jobs._reflector.version = "1"  # type: ignore[misc]
    with pytest.raises(NotYetConsistent):
        await desk.look(fresh=False)


async def test_a_failure_is_explained_with_the_log() -> None:
    desk = Desk()
    await desk.look()
    desk.change("job-0", _runs)
    desk.change("job-1", lambda pod: ended(_runs(pod), 3))
    await desk.look()
    assert desk.status["failure"]["logTail"] == "the last words of job-1"
    assert desk.status["replicas"]["restarts"] == 1
    assert desk.writes() == [("patch", "TrainingJob"), ("delete", "Pod"), ("delete", "Pod")]


async def test_a_quota_is_shown_and_tried_again() -> None:
    desk = Desk()
    refused = errors.Forbidden("pods is forbidden: exceeded quota: few")
    desk.api.refuse = lambda verb, resource, _: (
        refused if (verb, resource) == ("create", PODS) else None
    )
    soon = await desk.look()
    assert soon is not None and soon.requeue_after < 0.1
    result = await desk.look()
    assert condition(desk.status, "Running")["reason"] == "QuotaExceeded"
    assert result == Result(1.0)
    desk.api.refuse = lambda *_: None
    desk.now += 1
    await desk.look()
    assert len(desk.pods()) == 2
    assert desk.status["attempt"] == 1


async def test_a_quota_that_was_shown_at_a_wrong_time_is_tried_again() -> None:
    """The clock was two years ahead, and is right again."""
    desk, ahead = Desk(), 730 * 86400
    desk.now += ahead
    desk.api.refuse = lambda verb, resource, _: (
        errors.Forbidden("exceeded quota: few") if (verb, resource) == ("create", PODS) else None
    )
    await desk.look()
    await desk.look()
    desk.api.refuse = lambda *_: None
    desk.now -= ahead
    await desk.look()
    assert len(desk.pods()) == 2


async def test_what_may_pass_is_raised() -> None:
    desk = Desk()
    desk.api.refuse = lambda verb, resource, _: (
        errors.InternalError("etcd") if (verb, resource) == ("create", PODS) else None
    )
    with pytest.raises(errors.InternalError):
        await desk.look()
    assert "reason" not in condition(desk.status, "Failed")


async def test_nothing_is_made_in_a_namespace_that_goes() -> None:
    desk = Desk()
    gone = errors.Forbidden("going", details={"causes": [{"reason": "NamespaceTerminating"}]})
    desk.api.refuse = lambda verb, *_: gone if verb == "create" else None
    assert await desk.look() == Result(300.0)


async def test_another_process_does_not_create_what_may_have_been_created() -> None:
    desk = Desk()
    await desk.look()
    del desk.api.objects[PODS]["ns", "job-1"]
    desk.restart()
    await desk.look()
    assert desk.status["attempt"] == 2
    assert ("create", "Pod") not in desk.writes()


async def test_a_finished_job_is_cleaned_up_and_deleted() -> None:
    desk = Desk(policy={"ttlSecondsAfterFinished": 5, "cleanPodPolicy": "All"})
    await desk.look()
    for name in desk.pods():
        desk.change(name, lambda pod: ended(_runs(pod), 0))
    await desk.look()
    assert desk.writes().count(("delete", "Pod")) == 2
    result = await desk.look()
    assert result == Result(5.0)
    assert not desk.pods()
    desk.now += 5
    await desk.look()
    assert ("delete", "TrainingJob") in desk.writes()
    desk.sync()
    assert await desk.look() is None


async def test_placeholders_are_created_once() -> None:
    desk = Desk(replicas=3, elastic={"minReplicas": 1, "maxReplicas": 3})
    await desk.look()
    for name in ("job-0", "job-1"):
        desk.change(name, lambda pod: scheduled(_runs(pod)))
    desk.change("job-2", lambda pod: unschedulable({**pod, "status": {"phase": "Pending"}}))
    desk.now += 20
    await desk.look()
    assert desk.status["worldSize"] == 2
    desk.api.objects[PODS].clear()
    await desk.look()
    for name in ("job-0", "job-1"):
        desk.change(name, lambda pod: scheduled(_runs(pod)))
    await desk.look()
    place = desk.pods()["job-grow-2"]
    assert "replica-id" not in place["metadata"]["labels"]
    assert place["spec"]["containers"][0]["envFrom"][0]["configMapRef"]["optional"] is False
    await desk.look()
    assert desk.writes() == []


async def test_who_wakes_a_job() -> None:
    manager = Manager(cast(KubeClient, JobApi()))
    register(manager, TrainingSettings(workers=3))
    (controller,) = manager._controllers
    old, new = make_job(), make_job()
    old["metadata"]["resourceVersion"], new["metadata"]["resourceVersion"] = "1", "2"
    new["status"] = {"progress": {"step": 1}}
    jobs = controller.informers[0]
    jobs.store.put(new)
    jobs._notify(Change("updated", old, new))
    assert len(controller.queue) == 0
    jobs._notify(Change("updated", new, {**new, "metadata": {**new["metadata"], "generation": 2}}))
    assert len(controller.queue) == 1
