"""What the controller asks of the server for a job, in which order, and how often."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator
from copy import deepcopy
from typing import Any, cast

import pytest
from prometheus_client import CollectorRegistry

from corral.api.mpi.kinds import MPIJOBS
from corral.families.mpijob.lifecycle.limits import MPISettings
from corral.families.mpijob.reconciler import Reconciler, register
from corral.kube import errors
from corral.kube.client import KubeClient
from corral.kube.resources import (
    CONFIGMAPS,
    JOBS,
    NODES,
    PODS,
    SECRETS,
    SERVICES,
    Resource,
)
from corral.runtime import Change, Manager, Result, RuntimeMetrics
from tests.unit.families.mpijob.mpijob_world import START, ended, make_job, over, stamp
from tests.unit.families.trainingjob.trainingjob_fakes import FakeApi

Obj = dict[str, Any]
KEY = "bar/foo"
FIRST = [
    ("create", "Service", "foo"),
    ("create", "ConfigMap", "foo-config"),
    ("create", "Secret", "foo-ssh"),
    ("patch", "MPIJob", "foo"),
    ("create", "Pod", "foo-worker-0"),
    ("create", "Pod", "foo-worker-1"),
    ("create", "Job", "foo-launcher"),
    ("patch", "MPIJob", "foo"),
]
"""The finalizer is the first patch, the status the second."""


class Api(FakeApi):
    """With merge patches, statuses and logs."""

    async def patch(self, resource: Resource, name: str, *, patch: Obj, **more: Any) -> Obj:
        self._begin("patch", resource, name, patch)
        known = self.objects.get(resource, {}).get((more["namespace"], name))
        if known is None:
            raise errors.NotFound(name, details={"kind": resource.plural})
        version = (patch.get("metadata") or {}).get("resourceVersion")
        if version not in (None, known["metadata"]["resourceVersion"]):
            raise errors.Conflict(name)
        return self.put(resource, _merged(known, patch))

    async def delete(self, resource: Resource, name: str, **more: Any) -> Obj:
        return await super().delete(resource, name, **{**more, "grace_seconds": 0})

    async def log_lines(self, pod: str, *args: Any, **more: Any) -> AsyncGenerator[str, None]:
        self.requests.append(("log", "Pod", pod))
        yield "rank 1 aborts on foo-worker-0"


def _merged(old: Obj, patch: Obj) -> Obj:
    out = dict(old)
    for key, value in patch.items():
        if value is None:
            out.pop(key, None)
        elif isinstance(value, dict):
            out[key] = _merged(out.get(key) or {}, value)
        else:
            out[key] = value
    return out


AHEAD = 730 * 86400.0
"""Seconds by which a clock is wrong."""


class Desk:
    """A reconciler, its server, and informers that see everything before each look."""

    def __init__(self, edits: dict[str, Any] | None = None, **settings: Any) -> None:
        self.api = Api()
        self.now = START
        self.settings = MPISettings(**settings)
        self.registry = CollectorRegistry()
        self._take_over(RuntimeMetrics(self.registry))
        self.api.put(MPIJOBS, make_job(edits))

    def _take_over(self, metrics: RuntimeMetrics | None = None) -> None:
        self.manager = Manager(cast(KubeClient, self.api), metrics=metrics)
        self.reconciler = Reconciler(self.manager, self.settings, wall=lambda: self.now)

    def restart(self) -> None:
        """Another process takes over."""
        self._take_over()

    def sync(self) -> None:
        caches = self.reconciler.caches
        informers = {MPIJOBS: caches.jobs, PODS: caches.pods, NODES: caches.nodes}
        for resource, informer in {**informers, **caches.children}.items():
            found = deepcopy(list(self.api.objects.get(resource, {}).values()))
            informer.replaced(found, str(10**6))

    async def look(self, *, after: float = 0.0) -> Result | None:
        """One look with everything seen; only its requests are kept."""
        self.now += after
        self.sync()
        self.api.requests.clear()
        return await self.reconciler.reconcile(KEY)

    def job(self) -> Obj:
        return self.api.objects[MPIJOBS]["bar", "foo"]

    def status(self) -> Obj:
        status: Obj = self.job().get("status") or {}
        return status

    def child(self, resource: Resource, name: str) -> Obj:
        return self.api.objects[resource]["bar", name]

    def change(self, resource: Resource, name: str, patch: Obj) -> None:
        self.api.put(resource, _merged(self.child(resource, name), patch))

    def become(self, phase: str, *names: str, **status: Any) -> None:
        ready = {"type": "Ready", "status": "True" if phase == "Running" else "False"}
        for name in names:
            known = {"phase": phase, "conditions": [ready], "startTime": stamp(), **status}
            self.change(PODS, name, {"status": known})

    def launch(self, name: str = "foo-launcher-x", phase: str = "Running", **status: Any) -> None:
        """What the Job controller would do."""
        owner = self.child(JOBS, "foo-launcher")
        reference = {"apiVersion": "batch/v1", "kind": "Job", "name": "foo-launcher"}
        reference |= {"uid": owner["metadata"]["uid"], "controller": True}
        template = owner["spec"]["template"]
        metadata = {"name": name, "namespace": "bar", "creationTimestamp": stamp()}
        metadata |= {"labels": template["metadata"]["labels"], "ownerReferences": [reference]}
        self.api.put(PODS, {"metadata": metadata, "spec": template["spec"], "status": {}})
        self.become(phase, name, **status)

    async def run(self) -> None:
        """Everything runs."""
        await self.look()
        self.become("Running", "foo-worker-0", "foo-worker-1")
        self.launch()
        await self.look(after=1)

    def metric(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(name, labels)


async def test_a_job_is_made_with_few_requests() -> None:
    desk = Desk()
    await desk.look()
    assert sorted(desk.api.requests) == sorted(FIRST)
    assert desk.api.requests[-2:] == FIRST[-2:]
    assert {kind for _, kind, _ in desk.api.requests[:4]} == {
        "Service", "ConfigMap", "Secret", "MPIJob",
    }  # fmt: skip
    assert desk.status()["replicaStatuses"] == {"Launcher": {}, "Worker": {}}
    assert desk.job()["metadata"]["finalizers"] == ["corral.dev/mpijob-cleanup"]


async def test_a_steady_job_costs_nothing() -> None:
    desk = Desk()
    await desk.run()
    assert Counter(desk.api.requests) == {
        ("patch", "ConfigMap", "foo-config"): 1,
        ("patch", "MPIJob", "foo"): 1,
    }
    for _ in range(3):
        result = await desk.look(after=400)
        assert desk.api.requests == []
        assert result == Result(300.0)


async def test_a_new_process_asks_for_the_keys_alone() -> None:
    desk = Desk()
    await desk.run()
    desk.restart()
    await desk.look(after=9)
    assert desk.api.requests == [("get", "Secret", "foo-ssh")]


def hosts(desk: Desk) -> int:
    """How many workers can be found by those who look for hosts."""
    return len(desk.child(CONFIGMAPS, "foo-config")["data"]["discover_hosts.sh"].splitlines()) - 1


async def test_a_job_that_begins_is_not_counted_at_every_step() -> None:
    desk = Desk({"W|replicas": 4})
    await desk.look()
    desk.become("Running", "foo-worker-0")
    result = await desk.look(after=60)
    assert desk.api.requests == []
    assert result is not None and result.requeue_after == pytest.approx(15)
    desk.become("Running", "foo-worker-1")
    result = await desk.look(after=9)
    assert desk.api.requests == []
    assert result is not None and result.requeue_after == pytest.approx(6)
    await desk.look(after=6)  # it does not go on: what there is is told
    assert desk.api.verbs() == ["patch", "patch"]
    assert desk.status()["replicaStatuses"]["Worker"] == {"active": 2}
    assert hosts(desk) == 2


async def test_what_runs_is_told_while_others_find_no_node() -> None:
    desk = Desk()
    await desk.look()
    desk.become("Running", "foo-worker-0")
    await desk.look(after=60)
    assert desk.api.requests == []
    stuck = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    stuck["lastTransitionTime"] = stamp()
    desk.change(PODS, "foo-worker-1", {"status": {"conditions": [stuck]}})
    await desk.look(after=1)
    assert desk.status()["replicaStatuses"]["Worker"] == {"active": 1}
    assert hosts(desk) == 1


async def test_all_hosts_are_told_before_the_launcher_begins() -> None:
    desk = Desk()
    await desk.look()
    desk.become("Running", "foo-worker-0")
    await desk.look(after=0.1)
    assert desk.api.requests == []
    desk.become("Running", "foo-worker-1")
    await desk.look(after=0.1)
    assert desk.api.requests == [("patch", "ConfigMap", "foo-config")]
    assert hosts(desk) == 2
    desk.launch()
    await desk.look(after=0.1)
    assert desk.api.requests == [("patch", "MPIJob", "foo")]
    assert desk.status()["replicaStatuses"] == {"Launcher": {"active": 1}, "Worker": {"active": 2}}


async def test_progress_of_a_running_job_is_bundled() -> None:
    desk = Desk()
    await desk.run()
    desk.change(
        MPIJOBS,
        "foo",
        {"spec": {"mpiReplicaSpecs": {"Worker": {"replicas": 4}}}, "metadata": {"generation": 2}},
    )
    await desk.look(after=60)
    desk.become("Running", "foo-worker-2")
    await desk.look(after=1)  # the first change is told at once
    assert desk.status()["replicaStatuses"]["Worker"] == {"active": 3}
    assert hosts(desk) == 3
    desk.become("Running", "foo-worker-3")
    await desk.look(after=0.1)  # all of them are there: whoever looks for hosts is told
    assert desk.api.requests == [("patch", "ConfigMap", "foo-config")]
    result = await desk.look(after=0.1)
    assert desk.api.requests == []
    assert result is not None and result.requeue_after == pytest.approx(0.3)
    await desk.look(after=0.5)
    assert desk.api.requests == [("patch", "MPIJob", "foo")]
    assert desk.status()["replicaStatuses"]["Worker"] == {"active": 4}


async def test_the_end_of_a_launcher_is_told_with_what_comes_of_it() -> None:
    desk = Desk()
    await desk.run()
    desk.become("Succeeded", "foo-launcher-x")
    desk.become("Pending", "foo-worker-0")
    result = await desk.look(after=60)
    assert desk.api.requests == []
    assert result is not None and result.requeue_after == pytest.approx(15)
    done = {"conditions": [over("Complete")], "completionTime": stamp(9)}
    desk.change(JOBS, "foo-launcher", {"status": done})
    await desk.look(after=1)
    assert desk.api.requests == [("patch", "MPIJob", "foo")]
    assert desk.status()["replicaStatuses"] == {"Launcher": {"succeeded": 1}, "Worker": {}}


async def test_a_verdict_that_does_not_come_is_not_waited_for() -> None:
    desk = Desk()
    await desk.run()
    desk.become("Succeeded", "foo-launcher-x")
    await desk.look(after=60)
    await desk.look(after=15)
    assert desk.api.requests == [("patch", "MPIJob", "foo")]
    assert desk.status()["replicaStatuses"]["Launcher"] == {}
    assert await desk.look(after=1) == Result(300.0)
    assert desk.api.requests == []


async def test_from_beginning_to_end_in_three_requests_more() -> None:
    """Whatever the order: all hosts once, ``Running`` and the end."""
    desk = Desk()
    seen: list[tuple[str, str, str]] = []
    await desk.look()
    seen += desk.api.requests
    for pod in ("foo-worker-1", "foo-worker-0"):
        desk.become("Running", pod)
        await desk.look(after=0.1)
        seen += desk.api.requests
    desk.launch(phase="Pending")
    await desk.look(after=0.1)
    seen += desk.api.requests
    desk.become("Running", "foo-launcher-x")
    await desk.look(after=0.1)
    seen += desk.api.requests
    desk.become("Succeeded", "foo-launcher-x")
    await desk.look(after=0.1)
    seen += desk.api.requests
    done = {"conditions": [over("Complete")], "completionTime": stamp(9)}
    desk.change(JOBS, "foo-launcher", {"status": done})
    await desk.look(after=0.1)
    seen += desk.api.requests
    more = [("patch", "ConfigMap", "foo-config"), *[("patch", "MPIJob", "foo")] * 2]
    assert Counter(seen) == Counter([*FIRST, *more])


async def test_the_last_one_is_not_waited_for() -> None:
    desk = Desk({"spec|launcherCreationPolicy": "WaitForWorkersReady"})
    await desk.look()
    assert not desk.api.objects.get(JOBS)
    desk.become("Running", "foo-worker-0", "foo-worker-1")
    await desk.look(after=0.1)
    assert ("create", "Job", "foo-launcher") in desk.api.requests


async def test_the_status_comes_first_where_pods_go() -> None:
    desk = Desk()
    await desk.run()
    desk.become("Failed", "foo-worker-1", containerStatuses=[ended(137, reason="OOMKilled")])
    desk.api.requests.clear()
    await desk.look(after=5)
    assert desk.api.requests[:3] == [
        ("log", "Pod", "foo-worker-1"),
        ("patch", "MPIJob", "foo"),
        ("delete", "Pod", "foo-worker-1"),
    ]
    failure = desk.status()["failure"]
    assert (failure["pod"], failure["reason"]) == ("foo-worker-1", "OOMKilled")
    assert failure["logTail"] == "rank 1 aborts on foo-worker-0"
    await desk.look(after=5)
    assert ("create", "Pod", "foo-worker-1") in desk.api.requests


async def test_the_process_that_the_log_names() -> None:
    desk = Desk({"run|backoffLimit": 0})
    await desk.run()
    desk.become("Failed", "foo-launcher-x", containerStatuses=[ended(7)])
    failed = over("Failed", "BackoffLimitExceeded", "limit")
    desk.change(JOBS, "foo-launcher", {"status": {"failed": 1, "conditions": [failed]}})
    await desk.look(after=5)
    failure = desk.status()["failure"]
    assert (failure["replica"], failure["pod"]) == ("Worker", "foo-worker-0")
    assert (failure["reason"], failure["exitCode"]) == ("ProcessFailed", 7)
    assert desk.metric("mpi_operator_jobs_failed_total") == 1
    assert desk.metric("mpi_operator_jobs_created_total") == 1
    await desk.look(after=5)
    assert desk.api.requests == []


async def test_success_is_counted_and_cleaned_up() -> None:
    desk = Desk({"run|cleanPodPolicy": "All"})
    await desk.run()
    info = {"launcher": "foo-launcher", "namespace": "bar"}
    assert desk.metric("mpi_operator_job_info", **info) == 1
    done = {"conditions": [over("Complete")], "completionTime": stamp(9)}
    desk.change(JOBS, "foo-launcher", {"status": done})
    await desk.look(after=10)
    assert desk.api.requests == [
        ("patch", "MPIJob", "foo"),
        ("delete", "Pod", "foo-worker-0"),
        ("delete", "Pod", "foo-worker-1"),
    ]
    assert desk.metric("mpi_operator_jobs_successful_total") == 1
    assert await desk.look(after=10) is None
    assert desk.api.requests == []


async def test_a_launcher_that_went_right_after_its_end() -> None:
    desk = Desk({"run|ttlSecondsAfterFinished": 0})
    await desk.run()
    done = {"conditions": [over("Complete")], "completionTime": stamp(9)}
    desk.change(JOBS, "foo-launcher", {"status": done})
    desk.sync()
    del desk.api.objects[JOBS]["bar", "foo-launcher"]
    await desk.look()
    assert ("create", "Job", "foo-launcher") not in desk.api.requests
    assert desk.status()["completionTime"] == stamp(9)


async def test_expired() -> None:
    desk = Desk({"run|ttlSecondsAfterFinished": 5})
    await desk.run()
    done = {"conditions": [over("Complete")], "completionTime": stamp(1)}
    desk.change(JOBS, "foo-launcher", {"status": done})
    result = await desk.look(after=1)
    assert result is not None and result.requeue_after == 4
    await desk.look(after=4)
    assert desk.api.requests == [("delete", "MPIJob", "foo")]


async def test_suspended_and_resumed_elsewhere() -> None:
    desk = Desk()
    await desk.run()
    desk.change(
        MPIJOBS, "foo", {"metadata": {"generation": 2}, "spec": {"runPolicy": {"suspend": True}}}
    )
    await desk.look(after=1)
    assert desk.api.requests == [
        ("patch", "ConfigMap", "foo-config"),
        ("patch", "Job", "foo-launcher"),
        ("delete", "Pod", "foo-worker-0"),
        ("delete", "Pod", "foo-worker-1"),
        ("patch", "MPIJob", "foo"),
    ]
    del desk.api.objects[PODS]["bar", "foo-launcher-x"]
    desk.change(JOBS, "foo-launcher", {"status": {"startTime": stamp()}})
    specs = {"Launcher": {"template": {"spec": {"nodeSelector": {"gpu": "a"}}}}}
    spec = {"runPolicy": {"suspend": False}, "mpiReplicaSpecs": specs}
    desk.change(MPIJOBS, "foo", {"metadata": {"generation": 3}, "spec": spec})
    await desk.look(after=1)
    patches = [found for found in desk.api.requests if found[1] == "Job"]
    assert patches == [("patch", "Job", "foo-launcher")] * 2
    launcher = desk.child(JOBS, "foo-launcher")
    assert "startTime" not in launcher["status"]
    assert launcher["spec"]["suspend"] is False
    assert launcher["spec"]["template"]["spec"]["nodeSelector"] == {"gpu": "a"}


class TestTrouble:
    async def test_the_status_is_written_though_pods_are_refused(self) -> None:
        desk = Desk()
        desk.api.refuse = lambda verb, resource, _: (
            errors.Forbidden("exceeded quota") if (verb, resource) == ("create", PODS) else None
        )
        result = await desk.look()
        assert result is not None and result.requeue_after == 0.5
        assert desk.status()["conditions"][0]["type"] == "Created"
        assert not desk.api.objects.get(JOBS)
        await desk.look(after=0.1)
        assert ("create", "Pod", "foo-worker-0") not in desk.api.requests
        result = await desk.look(after=1)
        assert result is not None and result.requeue_after == 1.0

    async def test_what_may_pass_is_raised(self) -> None:
        desk = Desk()
        desk.api.refuse = lambda verb, resource, _: (
            errors.ServiceUnavailable("down") if (verb, resource) == ("create", PODS) else None
        )
        with pytest.raises(errors.ApiError):
            await desk.look()

    async def test_somebody_else_was_faster(self) -> None:
        desk = Desk()
        desk.sync()
        desk.change(MPIJOBS, "foo", {"metadata": {"labels": {"a": "b"}}})
        with pytest.raises(errors.Conflict):
            await desk.reconciler.reconcile(KEY)

    async def test_an_invalid_job_is_told_once(self) -> None:
        desk = Desk({"spec|slotsPerWorker": -1})
        await desk.look()
        assert desk.api.requests == [("patch", "MPIJob", "foo")]
        assert desk.status()["conditions"][0]["reason"] == "ValidationError"
        await desk.look()
        assert desk.api.requests == []

    @pytest.mark.parametrize("spec", [None, "x", [], {}, {"mpiReplicaSpecs": 3}])
    async def test_a_malformed_job_harms_nobody(self, spec: Any) -> None:
        desk = Desk()
        desk.job()["spec"] = spec
        await desk.look()
        assert desk.status()["conditions"][0]["reason"] == "ValidationError"

    async def test_a_foreign_object(self) -> None:
        desk = Desk()
        desk.api.put(SERVICES, {"metadata": {"name": "foo", "namespace": "bar"}})
        result = await desk.look()
        assert result is not None and result.requeue_after == 0.5
        assert not desk.api.objects.get(PODS)
        assert desk.status()["conditions"][0]["type"] == "Created"

    async def test_what_an_earlier_job_had_is_waited_for(self) -> None:
        desk = Desk()
        earlier = {"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "name": "foo"}
        owners = [{**earlier, "uid": "old", "controller": True}]
        metadata = {"name": "foo", "namespace": "bar", "ownerReferences": owners}
        desk.api.put(SERVICES, {"metadata": metadata})
        assert await desk.look() == Result(1.0)

    async def test_another_manager_has_it(self) -> None:
        desk = Desk({"run|managedBy": "kueue.x-k8s.io/multikueue"})
        assert await desk.look() is None
        assert desk.api.requests == []


class TestDeletion:
    async def test_in_order(self) -> None:
        desk = Desk()
        await desk.run()
        desk.change(MPIJOBS, "foo", {"metadata": {"deletionTimestamp": stamp(1)}})
        assert await desk.look() == Result(2.0)
        assert desk.api.requests == [
            ("delete", "Job", "foo-launcher"),
            ("delete", "Pod", "foo-launcher-x"),
        ]
        assert await desk.look() == Result(2.0)
        assert desk.api.requests == [
            ("delete", "Pod", "foo-worker-0"),
            ("delete", "Pod", "foo-worker-1"),
        ]
        assert await desk.look() is None
        assert desk.api.requests == [
            ("delete", "Service", "foo"),
            ("delete", "ConfigMap", "foo-config"),
            ("patch", "MPIJob", "foo"),
        ]
        assert not desk.job()["metadata"]["finalizers"]
        assert ("bar", "foo-ssh") in desk.api.objects[SECRETS]  # left to the garbage collector

    async def test_nothing_is_waited_for_for_ever(self) -> None:
        desk = Desk()
        await desk.run()
        desk.api.refuse = lambda verb, resource, _: (
            errors.NotFound("gone") if verb == "delete" else None
        )
        desk.change(MPIJOBS, "foo", {"metadata": {"deletionTimestamp": stamp(1)}})
        assert await desk.look() is not None
        assert await desk.look(after=31) is None
        assert not desk.job()["metadata"]["finalizers"]

    async def test_not_even_for_a_time_that_a_wrong_clock_wrote(self) -> None:
        desk = Desk()
        await desk.run()
        desk.api.refuse = lambda verb, resource, _: (
            errors.NotFound("gone") if verb == "delete" else None
        )
        desk.change(MPIJOBS, "foo", {"metadata": {"deletionTimestamp": stamp(AHEAD)}})
        assert await desk.look() is not None
        assert await desk.look(after=29) is not None
        assert await desk.look(after=1) is None
        assert not desk.job()["metadata"]["finalizers"]

    async def test_nothing_is_left(self) -> None:
        desk = Desk()
        desk.change(MPIJOBS, "foo", {"metadata": {"deletionTimestamp": stamp()}})
        assert await desk.look() is None
        assert desk.api.requests == []
        finalizers = ["corral.dev/mpijob-cleanup"]
        desk.change(MPIJOBS, "foo", {"metadata": {"finalizers": finalizers}})
        assert await desk.look() is None
        assert desk.api.requests == [("patch", "MPIJob", "foo")]

    async def test_orphans_are_left(self) -> None:
        desk = Desk()
        await desk.run()
        finalizers = ["orphan", "corral.dev/mpijob-cleanup"]
        metadata = {"deletionTimestamp": stamp(1), "finalizers": finalizers}
        desk.change(MPIJOBS, "foo", {"metadata": metadata})
        assert await desk.look() is None
        assert desk.api.requests == [("patch", "MPIJob", "foo")]
        assert desk.job()["metadata"]["finalizers"] == ["orphan"]


async def test_who_is_woken_by_what() -> None:
    manager = Manager(cast(KubeClient, Api()))
    register(manager, MPISettings())
    controller = manager._controllers[0]
    assert {informer.scope.resource for informer in controller.informers} >= {
        MPIJOBS, PODS, JOBS, SERVICES, CONFIGMAPS,
    }  # fmt: skip
    assert SECRETS not in {informer.scope.resource for informer in controller.informers}


def test_which_changes_of_pods_are_waited_for() -> None:
    from corral.families.mpijob.reconciler import _is_progress

    waiting = {"metadata": {"name": "a"}, "status": {"phase": "Pending"}}
    running = {**waiting, "status": {"phase": "Running"}}
    again = {**waiting, "status": {"phase": "Running", "containerStatuses": [{"restartCount": 1}]}}
    done = {**waiting, "status": {"phase": "Succeeded"}}
    failed = {**waiting, "status": {"phase": "Failed"}}
    going = {**running, "metadata": {"name": "a", "deletionTimestamp": stamp()}}
    assert _is_progress(Change("updated", waiting, running))
    assert _is_progress(Change("updated", running, done))
    assert not _is_progress(Change("updated", running, failed))
    assert not _is_progress(Change("updated", running, again))
    assert not _is_progress(Change("updated", running, going))
    assert not _is_progress(Change("deleted", running, None))
    assert not _is_progress(Change("added", None, running))


def test_which_changes_of_pods_matter() -> None:
    from corral.families.mpijob.reconciler import _gets_on

    waiting = {"metadata": {"name": "a"}, "status": {"phase": "Pending"}}
    placed = {**waiting, "spec": {"nodeName": "n"}}
    running = {**waiting, "status": {"phase": "Running"}}
    assert not _gets_on(Change("added", None, waiting))
    assert _gets_on(Change("added", None, running))
    assert not _gets_on(Change("updated", waiting, placed))
    assert _gets_on(Change("updated", waiting, running))
    assert _gets_on(Change("deleted", running, None))


# --- dead nodes ----------------------------------------------------------------------------------


def node(name: str = "n1", *, ready: bool = True, **labels: str) -> Obj:
    known = {"type": "Ready", "status": "True" if ready else "Unknown"}
    return {"metadata": {"name": name, "labels": labels}, "status": {"conditions": [known]}}


def join(desk: Desk, found: Obj) -> None:
    """A node is in the cluster, as it is."""
    metadata = {**found["metadata"], "namespace": ""}  # the fake has no objects without one
    desk.api.put(NODES, {**found, "metadata": metadata})
    del desk.api.objects[NODES]["", metadata["name"]]["metadata"]["namespace"]


def strand(desk: Desk, name: str, *, grace: int = 30, ahead: float = 0) -> None:
    """The pod is being deleted, by a clock so far ahead, and its node says nothing."""
    going = {"deletionTimestamp": stamp(ahead + grace), "deletionGracePeriodSeconds": grace}
    desk.change(PODS, name, {"metadata": going, "spec": {"nodeName": "n1"}})


async def begun(nodes: list[Obj]) -> Desk:
    desk = Desk()
    await desk.run()
    for found in nodes:
        join(desk, found)
    return desk


@pytest.mark.parametrize(
    ("nodes", "waits"),
    [([], 30.0), ([node(ready=False)], 90.0)],
    ids=["gone", "silent"],
)
async def test_a_worker_on_a_dead_node_is_replaced(nodes: list[Obj], waits: float) -> None:
    desk = await begun(nodes)
    strand(desk, "foo-worker-1")
    desk.now = START
    result = await desk.look(after=waits - 10)
    assert ("delete", "Pod", "foo-worker-1") not in desk.api.requests
    assert result is not None and 0 < result.requeue_after <= 10
    await desk.look(after=11)
    assert ("delete", "Pod", "foo-worker-1") in desk.api.requests
    await desk.look(after=1)
    assert ("create", "Pod", "foo-worker-1") in desk.api.requests


@pytest.mark.parametrize(
    ("nodes", "waits"),
    [([], 30.0), ([node(ready=False)], 90.0)],
    ids=["gone", "silent"],
)
async def test_a_worker_that_a_wrong_clock_deleted(nodes: list[Obj], waits: float) -> None:
    desk = await begun(nodes)
    strand(desk, "foo-worker-1", ahead=AHEAD)
    await desk.look()
    result = await desk.look(after=waits - 1)
    assert result is not None and result.requeue_after <= 1
    assert ("delete", "Pod", "foo-worker-1") not in desk.api.requests
    await desk.look(after=1)
    assert ("delete", "Pod", "foo-worker-1") in desk.api.requests


async def test_what_was_refused_at_a_wrong_time_is_tried_again() -> None:
    desk = Desk()
    desk.now += AHEAD
    desk.api.refuse = lambda verb, resource, _: (
        errors.Forbidden("no") if (verb, resource) == ("create", PODS) else None
    )
    await desk.look()
    desk.api.refuse = lambda *_: None
    await desk.look(after=-AHEAD)
    await desk.look(after=desk.settings.refusal_delay_cap)
    assert ("create", "Pod", "foo-worker-0") in desk.api.requests


async def test_a_node_that_answers_is_left_its_time() -> None:
    desk = await begun([node()])
    strand(desk, "foo-worker-1")
    result = await desk.look(after=1000)
    assert ("delete", "Pod", "foo-worker-1") not in desk.api.requests
    assert result is not None and result.requeue_after <= 60


async def test_force_is_not_used_twice() -> None:
    """Somebody else holds the pod."""
    desk = await begun([])
    strand(desk, "foo-worker-1", grace=0)
    await desk.look(after=1000)
    assert ("delete", "Pod", "foo-worker-1") not in desk.api.requests


async def test_a_suspended_job_is_rid_of_dead_workers() -> None:
    desk = await begun([node(ready=False)])
    suspended = {"spec": {"runPolicy": {"suspend": True}}, "metadata": {"generation": 2}}
    desk.change(MPIJOBS, "foo", suspended)
    strand(desk, "foo-worker-0")
    strand(desk, "foo-worker-1")
    await desk.look(after=1000)
    deleted = [name for verb, _, name in desk.api.requests if verb == "delete"]
    assert sorted(deleted) == ["foo-worker-0", "foo-worker-1"]


async def test_teardown_leaves_no_names_behind() -> None:
    desk = await begun([node(ready=False)])
    going = {"deletionTimestamp": stamp(1), "finalizers": ["corral.dev/mpijob-cleanup"]}
    desk.change(MPIJOBS, "foo", {"metadata": going})
    for name in ("foo-worker-0", "foo-worker-1"):
        strand(desk, name)
    desk.now = START
    for _ in range(3):
        await desk.look(after=2)
    assert {name for verb, _, name in desk.api.requests if verb == "delete"} == set()
    await desk.look(after=60)
    assert not [name for _, name in desk.api.objects[PODS] if "worker" in name]
    assert not desk.job()["metadata"]["finalizers"]


# --- how it is launched, decided again -----------------------------------------------------------


AGENTS = {"corral.dev/runtime": "process"}


def by_agent(desk: Desk) -> tuple[bool, bool]:
    """Whether launcher and ConfigMap are made for our agent."""
    volumes = desk.child(JOBS, "foo-launcher")["spec"]["template"]["spec"]["volumes"]
    keys = [item["key"] for v in volumes for item in v.get("configMap", {}).get("items", ())]
    return "rsh" in keys, "rsh" in desk.child(CONFIGMAPS, "foo-config")["data"]


async def suspended_on(*nodes: Obj, **settings: Any) -> Desk:
    desk = Desk({"run|suspend": True}, **settings)
    for found in nodes:
        join(desk, found)
    await desk.look()
    return desk


async def resume(desk: Desk) -> None:
    desk.change(
        MPIJOBS, "foo", {"spec": {"runPolicy": {"suspend": False}}, "metadata": {"generation": 2}}
    )
    for _ in range(3):
        await desk.look(after=1)


@pytest.mark.parametrize("agent", [True, False])
async def test_a_job_that_never_ran_is_launched_as_its_nodes_are_by_then(agent: bool) -> None:
    desk = await suspended_on(node(**({} if agent else AGENTS)))
    assert by_agent(desk) == (not agent, not agent)
    join(desk, node(**(AGENTS if agent else {})))
    await desk.look(after=400)
    assert by_agent(desk) == (not agent, not agent)  # not before it is resumed
    await resume(desk)
    assert by_agent(desk) == (agent, agent)
    assert not desk.child(JOBS, "foo-launcher")["spec"].get("suspend")
    waits = desk.child(PODS, "foo-worker-0")["spec"]["containers"][0]["command"]
    assert (waits == ["sleep", "infinity"]) == agent


async def test_a_launcher_that_is_right_is_kept() -> None:
    desk = await suspended_on(node(**AGENTS))
    before = desk.child(JOBS, "foo-launcher")["metadata"]["uid"]
    await resume(desk)
    assert desk.child(JOBS, "foo-launcher")["metadata"]["uid"] == before


async def test_pods_keep_what_they_were_made_for() -> None:
    desk = Desk()
    join(desk, node())
    await desk.run()
    join(desk, node(**AGENTS))
    await desk.look(after=400)
    assert by_agent(desk) == (False, False)
