"""Replicas fail and pods are lost: jobs are restarted, and say why."""

from __future__ import annotations

import pytest

from tests.backends import Backend, add_node
from tests.cluster.objects import Objects
from tests.cluster.trainingjob.operating import Jobs, condition

PULLS = ("ErrImageNeverPull", "ErrImagePull", "ImagePullBackOff")
FIRST_FAILS = """
if [ $CORRAL_REPLICA = 1 ] && [ $CORRAL_REPLICA_ATTEMPT = 1 ]; then echo alas; exit 3; fi
if [ $CORRAL_REPLICA_ATTEMPT = 1 ]; then sleep 1000; fi
"""


def test_all_begin_anew(jobs: Jobs) -> None:
    jobs.create("again", FIRST_FAILS, replicas=3)
    status = jobs.phase("again", "Succeeded")
    assert status["attempt"] == 2
    assert status["replicas"]["restarts"] == 1
    labels = [pod["metadata"]["labels"] for pod in jobs.pods("again")]
    assert {found["training.corral.dev/attempt"] for found in labels} == {"2"}
    failure = status["failure"]
    assert (failure["replica"], failure["pod"], failure["exitCode"]) == (1, "again-1", 3)
    assert failure["reason"] == "Error"
    assert failure["logTail"] == "alas"
    assert failure["node"] in ("one", "two")
    jobs.said("again", "ReplicaFailed")


def test_one_begins_anew_alone(jobs: Jobs) -> None:
    script = "[ $CORRAL_REPLICA = 1 ] && [ $CORRAL_REPLICA_ATTEMPT = 1 ] && exit 3; sleep 1000"
    jobs.create("alone", script, replicas=3, runPolicy={"restartScope": "Replica"})

    def anew(status: dict[str, object]) -> bool:
        is_running = condition(status, "Running").get("status") == "True"
        return is_running and bool(status.get("replicaAttempts"))

    status = jobs.wait("alone", anew)
    assert status["attempt"] == 1
    assert status["replicaAttempts"] == {"1": 2}
    assert status["replicas"]["restarts"] == 1
    labels = [pod["metadata"]["labels"] for pod in jobs.pods("alone")]
    assert [found["training.corral.dev/attempt"] for found in labels] == ["1", "2", "1"]


def test_gives_up_at_the_limit(jobs: Jobs) -> None:
    script = (
        "for i in $(seq 30); do echo line $i; done; echo bad data > /dev/termination-log; exit 7"
    )
    jobs.create("never", script, replicas=1, runPolicy={"backoffLimit": 2})
    status = jobs.phase("never", "Failed")
    assert condition(status, "Failed")["reason"] == "BackoffLimitExceeded"
    assert status["replicas"]["restarts"] == 2
    assert status["attempt"] == 3
    assert status["completionTime"]
    failure = status["failure"]
    assert failure["exitCode"] == 7
    assert failure["logTail"].splitlines() == [f"line {i}" for i in range(11, 31)]
    jobs.said("never", "BackoffLimitExceeded")


def test_signals_are_named(jobs: Jobs) -> None:
    jobs.create("killed", "kill -9 $$$$", runPolicy={"backoffLimit": 0})
    failure = jobs.phase("killed", "Failed")["failure"]
    assert (failure["exitCode"], failure["signal"]) == (137, 9)


def test_what_succeeded_is_not_repeated_alone(jobs: Jobs) -> None:
    script = "[ $CORRAL_REPLICA = 0 ] && exit 0; [ $CORRAL_REPLICA_ATTEMPT = 1 ] && exit 1; exit 0"
    jobs.create("keep", script, replicas=2, runPolicy={"restartScope": "Replica"})
    status = jobs.phase("keep", "Succeeded")
    labels = [pod["metadata"]["labels"] for pod in jobs.pods("keep")]
    assert [found["training.corral.dev/attempt"] for found in labels] == ["1", "2"]
    assert status["completedReplicas"] == "0-1"


def test_deleted_pod_is_no_failure(jobs: Jobs) -> None:
    jobs.create("lost", "sleep 1000", replicas=2, runPolicy={"backoffLimit": 0})
    jobs.running("lost", attempt=1)
    jobs.objects.delete("v1", "pods", "lost-1")
    status = jobs.running("lost", attempt=2)
    assert status["replicas"]["restarts"] == 0
    assert status["replicas"]["disruptions"] == 1
    assert status["failure"]["replica"] == 1
    jobs.said("lost", "PodLost")


def test_image_that_cannot_be_pulled_is_shown(jobs: Jobs) -> None:
    jobs.create("image", "true", image="registry.invalid/no/such:image")

    def stuck(status: dict[str, object]) -> bool:
        reason = condition(status, "Running").get("reason")
        return reason in PULLS

    status = jobs.wait("image", stuck)
    assert status["failure"]["pod"] == "image-0"
    assert status["failure"]["reason"] in PULLS
    assert status["replicas"]["restarts"] == 0
    assert status["phase"] == "Pending"


def test_a_replica_without_memory_is_named(jobs: Jobs) -> None:
    code = "x = bytearray(512 << 20); print(len(x))"
    jobs.create(
        "hungry",
        "",
        image="python:3.12",
        command=["python", "-c", code],
        resources={"limits": {"memory": "64Mi"}},
        runPolicy={"backoffLimit": 0},
    )
    status = jobs.wait("hungry", lambda s: s.get("completionTime"))
    if status["phase"] == "Succeeded":
        pytest.skip("memory is not limited here")
    if status["failure"]["exitCode"] == 1:
        pytest.skip("allocations fail here instead of being killed")
    assert status["failure"]["reason"] == "OOMKilled"
    assert status["failure"]["signal"] == 9


def test_a_replica_that_its_node_drives_out_is_no_failure(jobs: Jobs, backend: Backend) -> None:
    node = add_node(backend, "three")
    try:
        template = {
            "spec": {
                "nodeSelector": {"kubernetes.io/hostname": "three"},
                "terminationGracePeriodSeconds": 1,
            }
        }
        jobs.create("driven", "sleep 1000", template=template, runPolicy={"backoffLimit": 0})
        jobs.running("driven")
        taint = {"key": "maintenance", "value": "now", "effect": "NoExecute"}
        cluster = Objects(backend)
        cluster.patch("v1", "nodes", "three", {"spec": {"taints": [taint]}})
        status = jobs.wait("driven", lambda s: s["replicas"]["disruptions"] == 1)
        assert status["replicas"]["restarts"] == 0
        jobs.wait("driven", lambda s: condition(s, "Running").get("reason") == "Unschedulable")
        cluster.patch("v1", "nodes", "three", {"spec": {"taints": []}})
        assert jobs.running("driven", attempt=2)["phase"] == "Running"
    finally:
        node.stop()
        backend.request("DELETE", "/api/v1/nodes/three")
