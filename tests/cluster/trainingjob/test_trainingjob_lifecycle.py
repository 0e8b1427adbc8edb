"""TrainingJobs begin, run and end as their specs say."""

from __future__ import annotations

from tests.cluster.objects import eventually
from tests.cluster.trainingjob.operating import Jobs, condition


def test_three_replicas_succeed(jobs: Jobs) -> None:
    jobs.create("good", "echo replica $CORRAL_REPLICA of $CORRAL_REPLICAS", replicas=3)
    status = jobs.phase("good", "Succeeded")
    assert status["replicas"] | {"ready": 0, "active": 0} == {
        "desired": 3, "active": 0, "ready": 0, "succeeded": 3, "failed": 0, "restarts": 0,
        "disruptions": 0,
    }  # fmt: skip
    assert status["attempt"] == 1
    assert status["worldSize"] == 3
    assert status["observedGeneration"] == 1
    assert status["startTime"] <= status["completionTime"]
    assert condition(status, "Valid")["status"] == "True"
    assert condition(status, "Succeeded")["status"] == "True"
    assert condition(status, "Running")["status"] == "False"
    pods = jobs.pods("good")
    assert [pod["metadata"]["name"] for pod in pods] == ["good-0", "good-1", "good-2"]
    assert {pod["status"]["phase"] for pod in pods} == {"Succeeded"}
    jobs.said("good", "Started", "Succeeded")
    assert jobs.events("good").count("Succeeded") == 1


def test_suspend_and_resume(jobs: Jobs) -> None:
    jobs.create("pause", "sleep 1000", replicas=2)
    jobs.running("pause", attempt=1)
    jobs.patch("pause", {"runPolicy": {"suspend": True}})
    status = jobs.wait("pause", lambda s: condition(s, "Suspended").get("status") == "True")
    assert status["phase"] == "Pending"
    assert condition(status, "Running")["reason"] == "Suspended"
    jobs.no_pods("pause")
    jobs.wait("pause", lambda s: s["replicas"]["active"] == 0)
    jobs.patch("pause", {"runPolicy": {"suspend": False}})
    status = jobs.running("pause", attempt=2)
    assert condition(status, "Suspended")["status"] == "False"
    assert status["replicas"]["restarts"] == 0
    jobs.said("pause", "Suspended", "Resumed")


def test_created_suspended(jobs: Jobs) -> None:
    jobs.create("later", "true", runPolicy={"suspend": True})
    status = jobs.wait("later", lambda s: condition(s, "Suspended").get("status") == "True")
    assert "attempt" not in status and "startTime" not in status
    assert not jobs.pods("later")
    jobs.patch("later", {"runPolicy": {"suspend": False}})
    assert jobs.phase("later", "Succeeded")["attempt"] == 1


def test_deadline(jobs: Jobs) -> None:
    jobs.create("slow", "sleep 1000", replicas=2, runPolicy={"activeDeadlineSeconds": 3})
    status = jobs.phase("slow", "Failed")
    assert condition(status, "Failed")["reason"] == "DeadlineExceeded"
    assert status["failure"]["reason"] == "DeadlineExceeded"
    jobs.no_pods("slow")
    jobs.said("slow", "DeadlineExceeded")


def test_deleted_when_its_time_is_over(jobs: Jobs) -> None:
    jobs.create("brief", "true", runPolicy={"ttlSecondsAfterFinished": 2})
    eventually(lambda: jobs.find("brief") is None, seconds=60)
    jobs.no_pods("brief")


def test_clean_pod_policies(jobs: Jobs) -> None:
    script = "if [ $CORRAL_REPLICA = 1 ]; then exit 1; fi; sleep 1000"
    for policy in ("Running", "All", "None"):
        how = {"backoffLimit": 0, "cleanPodPolicy": policy}
        jobs.create(policy.lower(), script, replicas=2, runPolicy=how)
    for policy in ("Running", "All", "None"):
        jobs.phase(policy.lower(), "Failed")
    jobs.no_pods("all")
    eventually(lambda: len(jobs.pods("running")) == 1, seconds=60)
    assert jobs.pods("running")[0]["metadata"]["name"] == "running-1"
    assert len(jobs.pods("none")) == 2
    assert "deletionTimestamp" not in jobs.pods("none")[0]["metadata"]


def test_invalid_spec_is_shown_and_may_be_corrected(jobs: Jobs) -> None:
    job = {
        "apiVersion": "training.corral.dev/v1alpha1",
        "kind": "TrainingJob",
        "metadata": {"name": "wrong"},
        "spec": {"command": ["true"], "network": {"policy": "None"}},
    }
    jobs.objects.create("trainingjobs", job)
    status = jobs.phase("wrong", "Failed")
    assert condition(status, "Valid")["status"] == "False"
    assert condition(status, "Failed")["reason"] == "InvalidSpec"
    assert "image" in condition(status, "Valid")["message"]
    assert "attempt" not in status
    jobs.said("wrong", "InvalidSpec")
    jobs.patch("wrong", {"image": "busybox"})
    status = jobs.phase("wrong", "Succeeded")
    assert condition(status, "Valid")["status"] == "True"
    assert condition(status, "Failed")["status"] == "False"


def test_objects_go_with_the_job(jobs: Jobs) -> None:
    jobs.create("short", "sleep 1000", replicas=2)
    jobs.running("short")
    assert {"short", "short-master"} <= jobs.objects.names("v1", "services")
    jobs.objects.delete("training.corral.dev/v1alpha1", "trainingjobs", "short")
    jobs.no_pods("short")
    eventually(lambda: "short" not in jobs.objects.names("v1", "services"), seconds=60)


def test_quota_is_shown_and_waited_for(jobs: Jobs) -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "few"},
        "spec": {"hard": {"pods": "1"}},
    }
    jobs.objects.create("resourcequotas", quota)
    eventually(
        lambda: jobs.objects.get("v1", "resourcequotas", "few").get("status", {}).get("hard")
    )
    jobs.create("big", "sleep 1000", replicas=2)
    status = jobs.wait("big", lambda s: condition(s, "Running").get("reason") == "QuotaExceeded")
    assert "exceeded quota" in condition(status, "Running")["message"]
    jobs.objects.patch("v1", "resourcequotas", "few", {"spec": {"hard": {"pods": "5"}}})
    assert jobs.running("big")["attempt"] == 1
