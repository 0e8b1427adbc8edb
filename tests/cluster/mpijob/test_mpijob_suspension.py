"""Suspended jobs, as Kueue and people have them; other managers; launchers that wait."""

from __future__ import annotations

from typing import Any

from tests.cluster.mpijob.mpi_operating import Jobs, condition, mpijob, types
from tests.cluster.objects import eventually

Obj = dict[str, Any]
GATES = [{"name": "kueue.x-k8s.io/topology"}]
TOLERATIONS = [{"key": "spot", "operator": "Exists", "effect": "NoSchedule"}]


def directives(**more: Any) -> Obj:
    """What an admission to a cluster queue writes into both templates."""
    template = {
        "metadata": {"labels": {"flavor": "a100"}, "annotations": {"admitted": "yes"}},
        "spec": {"nodeSelector": {"gpu": "a100"}, "tolerations": TOLERATIONS, **more},
    }
    return {"mpiReplicaSpecs": {role: {"template": template} for role in ("Launcher", "Worker")}}


def test_created_suspended_changed_resumed(jobs: Jobs) -> None:
    jobs.create(mpijob("foo", runPolicy={"suspend": True}))
    status = jobs.until("foo", "Suspended")
    assert types(status) == [("Created", "True"), ("Suspended", "True"), ("Running", "False")]
    assert condition(status, "Suspended")["message"] == "MPIJob suspended"
    assert condition(status, "Running")["reason"] == "MPIJobSuspended"
    namespace = jobs.objects.namespace
    assert condition(status, "Running")["message"] == f"MPIJob {namespace}/foo is suspended."
    assert "startTime" not in status
    assert status["replicaStatuses"] == {"Launcher": {}, "Worker": {}}
    assert jobs.launcher("foo")["spec"]["suspend"] is True
    assert {"foo"} <= jobs.objects.names("v1", "services")
    assert {"foo-config"} <= jobs.objects.names("v1", "configmaps")
    assert {"foo-ssh"} <= jobs.objects.names("v1", "secrets")
    assert not jobs.pods("foo")
    jobs.patch("foo", {**directives(schedulingGates=GATES), "runPolicy": {"suspend": False}})
    status = jobs.until("foo", "Suspended", "False", reason="MPIJobResumed")
    assert condition(status, "Suspended")["message"] == "MPIJob resumed"
    assert status["startTime"]
    for pod in (*jobs.workers("foo", 2), jobs.launcher_pod("foo")):
        assert pod["spec"]["nodeSelector"] == {"gpu": "a100"}
        assert pod["spec"]["schedulingGates"] == GATES
        assert TOLERATIONS[0] in pod["spec"]["tolerations"]
        assert pod["metadata"]["labels"]["flavor"] == "a100"
        assert pod["metadata"]["annotations"]["admitted"] == "yes"
    jobs.run("foo")
    assert jobs.told("foo", "MPIJobSuspended") == "MPIJob suspended"
    assert jobs.told("foo", "MPIJobResumed") == "MPIJob resumed"


def test_suspended_later_and_resumed_elsewhere(jobs: Jobs) -> None:
    jobs.create(mpijob("foo"))
    jobs.run("foo")
    began = jobs.get("foo")["status"]["startTime"]
    jobs.suspend("foo")
    status = jobs.until("foo", "Suspended")
    assert condition(status, "Running")["status"] == "False"
    assert status["startTime"] == began
    eventually(lambda: not jobs.pods("foo"))
    jobs.wait("foo", lambda s: s["replicaStatuses"] == {"Launcher": {}, "Worker": {}})
    assert jobs.launcher("foo")["spec"]["suspend"] is True
    jobs.patch("foo", directives())
    jobs.patch("foo", {"mpiReplicaSpecs": {"Launcher": {"template": {"spec": {"containers": [
        {"name": "launcher", "image": "mpi:2", "command": ["mpirun", "hello"]}]}}}}})  # fmt: skip
    jobs.suspend("foo", suspend=False)
    pod = jobs.launcher_pod("foo")
    assert pod["spec"]["nodeSelector"] == {"gpu": "a100"}
    assert pod["spec"]["containers"][0]["image"] == "mpi:1"  # of a Job that no one may change
    jobs.run("foo")
    status = jobs.get("foo")["status"]
    assert condition(status, "Running")["status"] == "True"
    assert status["startTime"] >= began
    # and once more, elsewhere again: the launcher has begun before
    jobs.suspend("foo")
    jobs.until("foo", "Suspended")
    eventually(lambda: not jobs.pods("foo"))
    other = {"spec": {"nodeSelector": {"gpu": "h100"}, "tolerations": []}}
    specs = {role: {"template": other} for role in ("Launcher", "Worker")}
    jobs.patch("foo", {"mpiReplicaSpecs": specs, "runPolicy": {"suspend": False}})
    for pod in (*jobs.workers("foo", 2), jobs.launcher_pod("foo")):
        assert pod["spec"]["nodeSelector"] == {"gpu": "h100"}
        assert TOLERATIONS[0] not in (pod["spec"].get("tolerations") or [])
    jobs.run("foo")


def test_finished_workers_stay_while_suspended(jobs: Jobs) -> None:
    jobs.create(mpijob("foo", runPolicy={"cleanPodPolicy": "Running"}))
    workers = jobs.workers("foo", 2)
    jobs.become([jobs.launcher_pod("foo")], "Running")
    jobs.become(workers[:1], "Running")
    jobs.become(workers[1:], "Succeeded")
    jobs.wait("foo", lambda s: s["replicaStatuses"]["Worker"] == {"active": 1, "succeeded": 1})
    jobs.suspend("foo")
    assert jobs.workers("foo", 1)[0]["metadata"]["name"] == "foo-worker-1"
    jobs.suspend("foo", suspend=False)
    jobs.until("foo", "Suspended", "False")
    jobs.wait("foo", lambda s: jobs.launcher("foo")["spec"]["suspend"] is False)


def test_other_managers_are_left_alone(jobs: Jobs) -> None:
    jobs.create(mpijob("theirs", runPolicy={"managedBy": "kueue.x-k8s.io/multikueue"}))
    jobs.create(mpijob("ours", runPolicy={"managedBy": "kubeflow.org/mpi-operator"}))
    jobs.workers("ours", 2)
    jobs.until("ours", "Created")
    theirs = jobs.get("theirs")
    assert "status" not in theirs and "finalizers" not in theirs["metadata"]
    assert not jobs.pods("theirs")
    assert jobs.objects.names("v1", "services") == {"ours"}
    jobs.delete("theirs")
    eventually(lambda: jobs.find("theirs") is None)


def test_the_launcher_waits_for_ready_workers(jobs: Jobs) -> None:
    jobs.create(mpijob("foo", launcherCreationPolicy="WaitForWorkersReady"))
    workers = jobs.workers("foo", 2)
    jobs.become(workers, "Running", ready=False)
    status = jobs.wait("foo", lambda s: s["replicaStatuses"] == {"Worker": {"active": 2}})
    assert jobs.objects.find("batch/v1", "jobs", "foo-launcher") is None
    jobs.become(workers[:1], "Running")
    assert jobs.objects.find("batch/v1", "jobs", "foo-launcher") is None
    jobs.become(workers[1:], "Running")
    jobs.launcher("foo")
    status = jobs.wait("foo", lambda s: "Launcher" in s["replicaStatuses"])
    assert not condition(status, "Running")


def test_it_also_waits_when_resumed(jobs: Jobs) -> None:
    jobs.create(
        mpijob("foo", launcherCreationPolicy="WaitForWorkersReady", runPolicy={"suspend": True})
    )
    jobs.until("foo", "Suspended")
    assert jobs.launcher("foo")["spec"]["suspend"] is True
    jobs.suspend("foo", suspend=False)
    for _ in range(2):
        workers = jobs.workers("foo", 2)
        jobs.become(workers[:1], "Running")
        jobs.wait("foo", lambda s: s["replicaStatuses"]["Worker"] == {"active": 1})
        assert jobs.launcher("foo")["spec"]["suspend"] is True
        assert not jobs.pods("foo", "launcher")
        jobs.become(workers[1:], "Running")
        jobs.run("foo")
        jobs.suspend("foo")
        jobs.until("foo", "Suspended")
        eventually(lambda: not jobs.pods("foo"))
        jobs.suspend("foo", suspend=False)


def test_a_steady_job_is_left_alone(jobs: Jobs) -> None:
    jobs.create(mpijob("foo"))
    jobs.run("foo")
    before = {
        kind: jobs.objects.get(api, kind, name)["metadata"]["resourceVersion"]
        for api, kind, name in (
            ("kubeflow.org/v2beta1", "mpijobs", "foo"),
            ("v1", "configmaps", "foo-config"),
        )
    }
    jobs.objects.patch("v1", "pods", "foo-worker-0", {"metadata": {"annotations": {"a": "b"}}})
    jobs.create(mpijob("other"))
    jobs.workers("other", 2)
    assert jobs.get("foo")["metadata"]["resourceVersion"] == before["mpijobs"]
