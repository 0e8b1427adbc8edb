"""Four replicas train with a real collective; whatever is killed, the weights come out the same.

The measure is one process alone: the undisturbed job ends in its weights, bit for bit, and so must
all others. "The middle" is when a checkpoint is Ready and the job still runs.
"""

from __future__ import annotations

import pytest

from tests.cluster.objects import Objects, eventually
from tests.cluster.training.training_stage import (
    API,
    ARGS,
    AT_ONCE,
    STEPS,
    Jobs,
    Obj,
    lose_node,
    regain_node,
    restarts,
)

pytestmark = pytest.mark.timeout(400)
JOB = "digits-jax"


def check_result(jobs: Jobs, name: str, alone: Obj) -> Obj:
    """Wait for the good end of a job; its last status."""
    job = jobs.succeeded(name)
    assert jobs.result(name) == alone, jobs.story(name)
    status: Obj = job["status"]
    return status


@pytest.mark.parametrize("name", [JOB, pytest.param("digits-local", marks=pytest.mark.soak)])
def test_undisturbed(jobs: Jobs, alone: Obj, name: str) -> None:
    jobs.create(name, args=AT_ONCE)
    status = check_result(jobs, name, alone)
    assert alone["accuracy"] > 0.95
    assert status["replicas"] | {"restarts": 0, "succeeded": 4, "failed": 0} == status["replicas"]
    results = {jobs.result(name, replica)["weights"] for replica in range(4)}
    assert results == {alone["weights"]}
    assert status["progress"]["step"] == status["progress"]["totalSteps"] == STEPS
    assert status["checkpoint"]["lastStep"] == STEPS


def test_killed_replica(jobs: Jobs, alone: Obj) -> None:
    """Replica 0 is the one that writes checkpoints, and where the others meet."""
    jobs.create(JOB, args=ARGS)
    jobs.kill_replica(jobs.middle(JOB), 0)
    status = check_result(jobs, JOB, alone)
    assert restarts({"status": status}) == 1
    failure = status["failure"]
    assert (failure["replica"], failure["signal"]) == (0, 9)
    assert status["checkpoint"]["restoredFrom"]


def test_killed_operator(jobs: Jobs, alone: Obj) -> None:
    """Training goes on without it, and what it missed is told to the next."""
    jobs.create(JOB, args=ARGS)
    before = jobs.middle(JOB)
    pods = {pod["metadata"]["uid"] for pod in jobs.pods(JOB).values()}
    jobs.operator.kill()
    jobs.operator.start()
    status = check_result(jobs, JOB, alone)
    assert restarts({"status": status}) == 0
    assert {pod["metadata"]["uid"] for pod in jobs.pods(JOB).values()} == pods
    assert status["checkpoint"]["lastStep"] == STEPS > before["status"]["checkpoint"]["lastStep"]


@pytest.mark.soak
def test_killed_operator_while_a_replica_is_killed(jobs: Jobs, alone: Obj) -> None:
    jobs.create(JOB, args=ARGS)
    job = jobs.middle(JOB)
    jobs.operator.kill()
    jobs.kill_replica(job, 1)
    jobs.operator.start()
    assert restarts({"status": check_result(jobs, JOB, alone)}) == 1


def test_killed_node(jobs: Jobs, cluster: Objects, alone: Obj) -> None:
    """The agent and all its pods are gone at once, and the node is declared lost."""
    jobs.create(JOB, args=ARGS)
    job = jobs.middle(JOB)
    pods = jobs.pods(JOB)
    node = jobs.nodes[pods[0]["spec"]["nodeName"]]
    lost = [replica for replica, pod in pods.items() if pod["spec"]["nodeName"] == node.name]
    node.kill()
    for replica in lost:  # one whose peers are gone may have ended by itself
        jobs.kill_replica(job, replica, running=False)
    lose_node(cluster, node)
    try:
        assert check_result(jobs, JOB, alone)["attempt"] > job["status"]["attempt"]
        where = {pod["spec"]["nodeName"] for pod in jobs.pods(JOB).values()}
        assert node.name not in where
    finally:
        regain_node(cluster, node)


@pytest.mark.soak
def test_suspended_and_resumed(jobs: Jobs, alone: Obj) -> None:
    jobs.create(JOB, args=ARGS)
    jobs.middle(JOB)
    set_suspend(jobs, True)
    job = jobs.wait(JOB, lambda status: condition(status, "Suspended") == "True")
    eventually(lambda: not jobs.pods(JOB), seconds=60)
    step = job["status"]["checkpoint"]["lastStep"]
    set_suspend(jobs, False)
    status = check_result(jobs, JOB, alone)
    assert restarts({"status": status}) == 0
    assert 0 < step < STEPS
    assert status["checkpoint"]["restoredFrom"]
    assert condition(status, "Suspended") == "False"


def set_suspend(jobs: Jobs, value: bool) -> None:
    patch = {"spec": {"runPolicy": {"suspend": value}}}
    jobs.objects.patch(API, "trainingjobs", JOB, patch)


def condition(status: Obj, kind: str) -> str:
    found = {item["type"]: item["status"] for item in status.get("conditions") or ()}
    return str(found.get(kind, ""))


@pytest.mark.soak
def test_scaled_while_it_trains(jobs: Jobs, alone: Obj) -> None:
    """Four replicas become two; the parts of a batch are the same, and so are the weights."""
    name = "digits-elastic"
    jobs.create(name, args=ARGS)
    jobs.middle(name)
    jobs.objects.patch(API, "trainingjobs", name, {"spec": {"replicas": 2}})
    check_result(jobs, name, alone)
    assert "of 2 begins after step" in jobs.log(f"{name}-0")
    assert set(jobs.pods(name)) == {0, 1}
