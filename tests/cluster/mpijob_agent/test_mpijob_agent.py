"""MPIJobs on process nodes: no images, no sshd, and the launcher reaches its workers."""

from __future__ import annotations

from typing import Any

from tests.cluster.mpijob.mpi_operating import Jobs, condition, mpijob
from tests.cluster.objects import eventually

Obj = dict[str, Any]
REACH = """
for host in $(sed 's/ .*//' /etc/mpi/hostfile); do
  $PRTE_MCA_plm_ssh_agent -o ConnectionAttempts=10 $host 'echo reached $(hostname)' || exit 9
done
"""
ABORT = REACH + "echo rank 1 aborts on foo-worker-1; exit 7"


def launching(script: str, **more: Any) -> Obj:
    """Workers have no command: with an image they would run its sshd."""
    job = mpijob("foo", **more)
    for role in ("Launcher", "Worker"):
        spec = job["spec"]["mpiReplicaSpecs"][role]["template"]["spec"]
        spec["containers"][0]["image"] = "python:3.12"
        spec["terminationGracePeriodSeconds"] = 2
    launcher = job["spec"]["mpiReplicaSpecs"]["Launcher"]
    launcher["template"]["spec"]["containers"][0]["command"] = ["sh", "-c", script]
    launcher["restartPolicy"] = "Never"
    return job


def log(jobs: Jobs, pod: str) -> str:
    path = jobs.objects.path("v1", "pods", pod)
    return jobs.objects.backend.request("GET", f"{path}/log").body.decode()


def test_every_worker_is_reached(jobs: Jobs) -> None:
    waits = "WaitForWorkersReady"
    jobs.create(launching(REACH, launcherCreationPolicy=waits))
    status = jobs.until("foo", "Succeeded")
    assert status["replicaStatuses"]["Launcher"] == {"succeeded": 1}
    (pod,) = jobs.pods("foo", "launcher")
    said = log(jobs, pod["metadata"]["name"])
    assert [f"reached foo-worker-{index}" for index in range(2)] == said.splitlines()
    rbac = "rbac.authorization.k8s.io/v1"
    assert "foo-launcher" in jobs.objects.names(rbac, "roles")
    jobs.delete("foo")
    eventually(lambda: "foo-launcher" not in jobs.objects.names(rbac, "roles"), seconds=60)
    eventually(lambda: not jobs.pods("foo"), seconds=60)


def test_the_pod_of_a_rank_that_aborts_is_named(jobs: Jobs) -> None:
    policy = {"backoffLimit": 0, "cleanPodPolicy": "All"}
    jobs.create(launching(ABORT, launcherCreationPolicy="WaitForWorkersReady", runPolicy=policy))
    status = jobs.until("foo", "Failed")
    assert condition(status, "Failed")["reason"].startswith("BackoffLimitExceeded")
    failure = status["failure"]
    assert (failure["replica"], failure["index"], failure["pod"]) == ("Worker", 1, "foo-worker-1")
    assert (failure["reason"], failure["exitCode"]) == ("ProcessFailed", 7)
    assert failure["node"] in ("one", "two")
    assert "reached foo-worker-1" in failure["logTail"]
    jobs.workers("foo", 0)


def test_a_worker_that_dies_is_named_and_replaced(jobs: Jobs) -> None:
    job = launching("sleep 1000")
    worker = job["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]
    worker["command"] = [
        "sh",
        "-c",
        "echo last words; [ $(hostname) = foo-worker-1 ] && exit 5; sleep 1000",
    ]
    jobs.create(job)
    status = jobs.wait("foo", lambda s: s.get("failure"))
    failure = status["failure"]
    assert (failure["pod"], failure["exitCode"]) == ("foo-worker-1", 5)
    assert failure["logTail"] == "last words"
    assert not condition(status, "Failed")
    jobs.said("foo", "MPIJobRestarting")


def test_a_launcher_that_its_node_starts_again(jobs: Jobs) -> None:
    """Its pod is gone by the time that the Job gives up: why was noted before."""
    job = launching("echo last words; exit 4", workers=1, runPolicy={"backoffLimit": 1})
    job["spec"]["mpiReplicaSpecs"]["Launcher"]["restartPolicy"] = "OnFailure"
    jobs.create(job)
    status = jobs.until("foo", "Failed")
    assert condition(status, "Failed")["reason"].startswith("BackoffLimitExceeded")
    failure = status["failure"]
    assert (failure["replica"], failure["exitCode"]) == ("Launcher", 4)
    assert failure["pod"].startswith("foo-launcher-")
    assert failure["logTail"] == "last words"
