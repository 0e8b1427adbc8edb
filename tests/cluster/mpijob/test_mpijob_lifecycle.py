"""MPIJobs begin, run, end, are cleaned up and go."""

from __future__ import annotations

import pytest

from tests.cluster.mpijob.mpi_operating import Jobs, condition, ended, mpijob, replica, types
from tests.cluster.objects import Objects, eventually


def test_running_when_all_run(jobs: Jobs) -> None:
    jobs.create(mpijob("foo"))
    workers = jobs.workers("foo", 2)
    status = jobs.until("foo", "Created")
    namespace = jobs.objects.namespace
    created = condition(status, "Created")
    assert created["reason"] == "MPIJobCreated"
    assert created["message"] == f"MPIJob {namespace}/foo is created."
    assert status["startTime"]
    jobs.become([jobs.launcher_pod("foo")], "Running")
    jobs.become(workers[:1], "Running")
    status = jobs.wait(
        "foo",
        lambda s: s["replicaStatuses"] == {"Launcher": {"active": 1}, "Worker": {"active": 1}},
    )
    assert types(status) == [("Created", "True")]
    jobs.become(workers[1:], "Running")
    status = jobs.until("foo", "Running")
    assert types(status) == [("Created", "True"), ("Running", "True")]
    assert condition(status, "Running")["message"] == f"MPIJob {namespace}/foo is running."
    assert status["replicaStatuses"] == {"Launcher": {"active": 1}, "Worker": {"active": 2}}
    assert jobs.told("foo", "MPIJobRunning") == f"MPIJob {namespace}/foo is running"
    assert jobs.told("foo", "MPIJobCreated") == f"MPIJob {namespace}/foo is created."


@pytest.mark.parametrize("policy", ["None", "Running", "All"])
def test_success_and_clean_up(jobs: Jobs, policy: str) -> None:
    jobs.create(mpijob("foo", workers=3, runPolicy={"cleanPodPolicy": policy}))
    workers = jobs.workers("foo", 3)
    jobs.become(workers[:1], "Running")
    jobs.become(workers[1:2], "Succeeded")
    jobs.become([jobs.launcher_pod("foo")], "Running")
    jobs.wait("foo", lambda s: s["replicaStatuses"]["Worker"] == {"active": 1, "succeeded": 1})
    jobs.end("foo")
    status = jobs.until("foo", "Succeeded")
    namespace = jobs.objects.namespace
    assert condition(status, "Succeeded")["reason"] == "MPIJobSucceeded"
    message = f"MPIJob {namespace}/foo successfully completed."
    assert condition(status, "Succeeded")["message"] == message
    assert status["replicaStatuses"] == {"Launcher": {"succeeded": 1}, "Worker": {}}
    assert status["completionTime"] == jobs.launcher("foo")["status"]["completionTime"]
    never = condition(status, "Running")
    assert never["status"] == "False"
    assert never["lastTransitionTime"] == status["completionTime"]
    assert never["message"].endswith("is finished but Running condition was never set.")
    assert jobs.told("foo", "MPIJobSucceeded") == message
    left = {"None": 3, "Running": 1, "All": 0}[policy]
    jobs.workers("foo", left)
    assert "failure" not in status
    for api, plural, name in (("batch/v1", "jobs", "foo-launcher"), ("v1", "services", "foo")):
        assert jobs.objects.find(api, plural, name)


def test_success_ends_running(jobs: Jobs) -> None:
    jobs.create(mpijob("foo"))
    jobs.run("foo")
    jobs.end("foo")
    status = jobs.until("foo", "Succeeded")
    assert types(status) == [("Created", "True"), ("Running", "False"), ("Succeeded", "True")]
    assert condition(status, "Running")["reason"] == "MPIJobRunning"


def test_failure_with_the_words_of_the_pod(jobs: Jobs) -> None:
    jobs.create(mpijob("foo", runPolicy={"backoffLimit": 0, "cleanPodPolicy": "All"}))
    jobs.run("foo")
    jobs.end("foo", "Failed", reason="FailedReason", message="first message")
    status = jobs.until("foo", "Failed")
    failed = condition(status, "Failed")
    assert failed["reason"] == "BackoffLimitExceeded/FailedReason"
    assert failed["message"].endswith(": first message")
    assert status["replicaStatuses"] == {"Launcher": {"failed": 1}, "Worker": {}}
    assert status["completionTime"]
    assert types(status)[1:] == [("Running", "False"), ("Failed", "True")]
    failure = status["failure"]
    assert (failure["replica"], failure["exitCode"]) == ("Launcher", 1)
    assert failure["pod"].startswith("foo-launcher-")
    assert jobs.told("foo", "BackoffLimitExceeded/FailedReason") == failed["message"]
    jobs.workers("foo", 0)


def test_a_failed_pod_of_the_launcher_alone_is_no_failure(jobs: Jobs) -> None:
    job = mpijob("foo", runPolicy={"backoffLimit": 3})
    job["spec"]["mpiReplicaSpecs"]["Launcher"]["restartPolicy"] = "Never"
    jobs.create(job)
    jobs.run("foo")
    jobs.end("foo", "Failed")
    status = jobs.wait("foo", lambda s: s["replicaStatuses"]["Launcher"].get("failed") == 1)
    assert not condition(status, "Failed")
    assert condition(status, "Running")["status"] == "True"
    jobs.said("foo", "MPIJobRestarting")
    jobs.become([jobs.launcher_pod("foo")], "Running")
    jobs.end("foo")
    assert "failure" not in jobs.until("foo", "Succeeded")


def test_deadline(jobs: Jobs) -> None:
    jobs.create(mpijob("foo", runPolicy={"activeDeadlineSeconds": 1}))
    status = jobs.until("foo", "Failed", reason="DeadlineExceeded")
    assert status["failure"]["reason"] == "DeadlineExceeded"
    jobs.said("foo", "DeadlineExceeded")


def test_the_worker_behind_the_launcher_is_named(jobs: Jobs) -> None:
    jobs.create(mpijob("foo", runPolicy={"backoffLimit": 0}))
    jobs.run("foo")
    killed = ended("worker", 137, reason="OOMKilled")
    jobs.become(jobs.workers("foo", 2)[1:], "Failed", containerStatuses=[killed])
    status = jobs.wait("foo", lambda s: s.get("failure"))
    jobs.end("foo", "Failed")
    status = jobs.until("foo", "Failed")
    failure = status["failure"]
    assert (failure["replica"], failure["index"]) == ("Worker", 1)
    assert (failure["pod"], failure["reason"]) == ("foo-worker-1", "OOMKilled")
    assert (failure["exitCode"], failure["signal"]) == (137, 9)


def test_dead_workers_are_replaced(jobs: Jobs) -> None:
    jobs.create(mpijob("foo"))
    jobs.run("foo")
    dead = jobs.workers("foo", 2)[0]
    jobs.become([dead], "Failed", containerStatuses=[ended("worker", 3)])

    def anew() -> bool:
        found = jobs.pods("foo", "worker")
        return len(found) == 2 and found[0]["metadata"]["uid"] != dead["metadata"]["uid"]

    eventually(anew)
    status = jobs.get("foo")["status"]
    assert (status["failure"]["pod"], status["failure"]["exitCode"]) == ("foo-worker-0", 3)
    assert not condition(status, "Failed")
    jobs.said("foo", "MPIJobRestarting")


@pytest.mark.parametrize("policy", ["None", "All"])
def test_eviction(jobs: Jobs, policy: str) -> None:
    jobs.create(mpijob("foo", runPolicy={"cleanPodPolicy": policy}))
    jobs.run("foo")
    worker = jobs.workers("foo", 2)[1]
    jobs.become([worker], "Failed", reason="Evicted", message="The node was low on resource")
    status = jobs.until("foo", "Failed", reason="MPIJobEvicted")
    assert condition(status, "Failed")["message"] == "1/2 workers are evicted"
    assert status["completionTime"]
    assert status["failure"]["pod"] == "foo-worker-1"
    assert status["failure"]["reason"] == "Evicted"
    assert jobs.told("foo", "MPIJobEvicted") == "1/2 workers are evicted"
    jobs.workers("foo", 0 if policy == "All" else 2)
    eventually(lambda: jobs.launcher("foo")["spec"]["suspend"])


def test_deleted_when_its_time_is_over(jobs: Jobs) -> None:
    jobs.create(mpijob("foo", runPolicy={"ttlSecondsAfterFinished": 1}))
    jobs.run("foo")
    jobs.end("foo")
    eventually(lambda: jobs.find("foo") is None, seconds=60)
    eventually(lambda: not jobs.pods("foo"), seconds=60)


def test_everything_goes_with_the_job(jobs: Jobs) -> None:
    jobs.create(mpijob("foo"))
    jobs.run("foo")
    assert jobs.get("foo")["metadata"]["finalizers"] == ["corral.dev/mpijob-cleanup"]
    jobs.delete("foo")
    eventually(lambda: jobs.find("foo") is None, seconds=60)
    eventually(lambda: not jobs.pods("foo"), seconds=60)
    for api, plural, name in (
        ("v1", "services", "foo"),
        ("v1", "configmaps", "foo-config"),
        ("v1", "secrets", "foo-ssh"),
        ("batch/v1", "jobs", "foo-launcher"),
    ):
        eventually(lambda a=api, p=plural, n=name: jobs.objects.find(a, p, n) is None, seconds=60)
    assert jobs.told("foo", "MPIJobDeleted")


def test_the_launcher_goes_before_the_workers(jobs: Jobs) -> None:
    jobs.create(mpijob("foo"))
    jobs.run("foo")
    pod = jobs.launcher_pod("foo")["metadata"]["name"]
    hold = {"metadata": {"finalizers": ["example.test/hold"]}}
    jobs.objects.patch("v1", "pods", pod, hold)
    jobs.delete("foo")
    eventually(lambda: "deletionTimestamp" in jobs.objects.get("v1", "pods", pod)["metadata"])
    workers = jobs.workers("foo", 2)
    assert not any("deletionTimestamp" in found["metadata"] for found in workers)
    jobs.objects.patch("v1", "pods", pod, {"metadata": {"finalizers": None}})
    eventually(lambda: jobs.find("foo") is None and not jobs.pods("foo"), seconds=60)


def test_a_namespace_goes_with_its_jobs(jobs: Jobs, cluster: Objects, unique: str) -> None:
    name = f"gone-{unique}"
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    cluster.create("namespaces", namespace)
    inside = Jobs(Objects(cluster.backend, name), jobs.kubeconfig)
    eventually(lambda: inside.objects.find("v1", "serviceaccounts", "default"))
    inside.create(mpijob("foo"))
    inside.workers("foo", 2)
    cluster.delete("v1", "namespaces", name)
    eventually(lambda: cluster.find("v1", "namespaces", name) is None, seconds=60)


def test_the_template_has_a_policy_of_its_own(jobs: Jobs) -> None:
    job = mpijob("foo", workers=0)
    job["spec"]["mpiReplicaSpecs"]["Launcher"] = replica("launcher", restartPolicy="Always")
    jobs.create(job)
    assert jobs.launcher("foo")["spec"]["template"]["spec"]["restartPolicy"] == "OnFailure"
    words = "Restart policy in pod template overridden by restart policy in replica spec"
    assert jobs.told("foo", "SetPodTemplateRestartPolicy") == words
