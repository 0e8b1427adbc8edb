"""Copies of spot jobs on machines that are given, taken and announced to be taken."""

from __future__ import annotations

import json
from typing import Any

from tests.cluster.objects import eventually
from tests.cluster.spot_jobs.jobs_stage import API, JOBS, Stage

Obj = dict[str, Any]


def start(stage: Stage, name: str, **spec: Any) -> Obj:
    """A job whose first copy runs on node one; its machine."""
    stage.vm()
    stage.job(name, **spec)
    (wish,) = stage.await_wishes(name, 1)
    entry = stage.give(wish, "one", name)
    stage.await_steps(name, 1)
    return entry


def test_a_job_runs_on_its_machine_and_gives_it_back(stage: Stage) -> None:
    start(stage, "plain")
    status = stage.await_phase("plain", "Running")
    assert status["activeReplicas"] == 1
    (placement,) = status["placements"]
    assert (placement["nodeName"], placement["provisioningModel"]) == ("one", "Spot")
    job = stage.objects.get("batch/v1", "jobs", "plain-replica-0-1")
    labels = job["spec"]["template"]["metadata"]["labels"]
    assert labels["training.dcnlab.com/spot-instance-job"] == "plain"
    assert labels["training.dcnlab.com/job-replica"] == "0"
    assert stage.pods("plain")[0]["spec"]["nodeName"] == "one"
    eventually(lambda: stage.status("plain")["cost"]["total"] > 0)
    status = stage.finish("plain")
    (placement,) = status["placements"]
    assert placement["endReason"] == "Finished"
    assert status["completionTime"] >= status["startTime"]
    assert status["cost"]["spot"] >= 1.0
    path = stage.objects.path("v1", "events") + "?fieldSelector=involvedObject.name=plain"

    def reasons() -> set[str]:
        events = stage.objects.backend.request("GET", path).json()["items"]
        return {event["reason"] for event in events}

    wanted = {"MachineRequested", "MachineReady", "CopyStarted", "CopyRunning", "Succeeded"}
    eventually(lambda: wanted <= reasons())
    learnt = stage.objects.get("v1", "configmaps", "corral-spot-memory")
    assert "local/local/local-a/local" in learnt["data"]["memory.json"]


def test_a_machine_that_is_taken_is_replaced_though_the_operator_dies(stage: Stage) -> None:
    first = start(stage, "taken")
    stage.operator.kill()
    stage.end(first)
    stage.operator.start()
    wish = stage.await_other("taken", first)
    eventually(lambda: not stage.pods("taken"))
    stage.operator.kill()
    stage.give(wish, "two", "taken")
    stage.operator.start()
    stage.await_steps("taken", 2)
    status = stage.await_phase("taken", "Running")
    assert [p.get("endReason") for p in status["placements"]] == ["Lost", None]
    assert status["cost"]["losses"] == 1
    assert stage.pods("taken")[0]["spec"]["nodeName"] == "two"
    stage.finish("taken")


def test_on_a_notice_a_copy_goes_on_elsewhere_and_loses_nothing(stage: Stage) -> None:
    first = start(stage, "noticed")
    stage.notice(first, 30)
    wishes = stage.await_wishes("noticed", 2)
    stage.give(wishes[1], "two", "noticed")
    stage.await_steps("noticed", 2)
    reached = int((stage.told("noticed") / "step-1").read_text())
    begun = json.loads((stage.told("noticed") / "2").read_text())
    assert begun["from"] >= reached - 1, "the last step may not have been told"
    status = stage.await_phase("noticed", "Running")
    assert [p.get("endReason") for p in status["placements"]] == ["Lost", None]
    assert status["cost"]["lostWorkSeconds"] == 0
    assert "failures" not in status
    stage.finish("noticed")


def test_suspended_and_resumed(stage: Stage) -> None:
    start(stage, "paused")
    stage.change("paused", suspend=True)
    status = stage.await_phase("paused", "Suspended")
    assert [p["endReason"] for p in status["placements"]] == ["Paused"]
    reached = int((stage.told("paused") / "step-1").read_text())
    stage.change("paused", suspend=False)
    (wish,) = stage.await_wishes("paused", 1)
    stage.give(wish, "two", "paused")
    stage.await_steps("paused", 2)
    assert json.loads((stage.told("paused") / "2").read_text())["from"] >= reached - 1
    stage.finish("paused")


def test_scaled_up_and_down(stage: Stage) -> None:
    start(stage, "scaled")
    scale = {"spec": {"replicas": 2}}
    stage.objects.patch(API, JOBS, "scaled", scale, subresource="scale")
    wishes = stage.await_wishes("scaled", 2)
    stage.give(wishes[1], "two", "scaled")
    stage.await_steps("scaled", 2)
    stage.eventually("scaled", lambda: stage.status("scaled")["activeReplicas"] == 2)
    stage.change("scaled", replicas=1)
    stage.await_wishes("scaled", 1)
    assert [e["replica"] for e in stage.status("scaled")["jobStatuses"]] == [0]
    stage.finish("scaled")


def test_a_deleted_job_waits_for_its_machines(stage: Stage) -> None:
    entry = start(stage, "deleted")
    stage.objects.delete(API, JOBS, "deleted")
    eventually(lambda: all(p.get("endTime") for p in stage.status("deleted")["placements"]))
    eventually(lambda: not stage.pods("deleted"))
    assert stage.objects.find(API, JOBS, "deleted") is not None
    stage.end(entry, "Deleted")
    eventually(lambda: stage.objects.find(API, JOBS, "deleted") is None)


def test_a_program_that_fails_too_often(stage: Stage) -> None:
    stage.vm()
    stage.job("fails", ["sh", "-c", "echo gone wrong >&2; exit 3"], template={"backoffLimit": 1})
    (wish,) = stage.await_wishes("fails", 1)
    stage.give(wish, "one", "fails")
    status = stage.await_phase("fails", "Failed")
    assert status["failures"] == 2
    assert "exit code 3" in status["message"]
    assert stage.wishes("fails") == []
    condition = next(c for c in status["conditions"] if c["type"] == "Failed")
    assert condition["status"] == "True"


def test_what_cannot_run_says_why(stage: Stage) -> None:
    stage.vm()
    storage = {"checkpointStorage": {"type": "tape"}}
    config = {"checkpointImageRepo": "registry.example.test/c", "checkpointInterval": "1h"}
    stage.job("tape", checkpointConfig={**config, **storage})
    stage.eventually("tape", lambda: "tape" in stage.status("tape").get("message", ""))
    stage.job("nowhere", spotInstanceVMRef={"name": "none"})
    said = "there is no SpotInstanceVM none"
    stage.eventually("nowhere", lambda: said in stage.status("nowhere").get("message", ""))
    assert stage.wishes("tape") == stage.wishes("nowhere") == []


def test_an_autoscaler_finds_the_nodes(stage: Stage) -> None:
    stage.vm()
    stage.job("scaling", placement={"provisioner": "External"})
    stage.await_steps("scaling", 1)
    status = stage.await_phase("scaling", "Running")
    assert status["placements"] == []
    node = status["jobStatuses"][0]["nodeName"]
    taint = {"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}
    try:
        stage.cluster.patch("v1", "nodes", node, {"spec": {"taints": [taint]}})
        stage.await_steps("scaling", 2)
    finally:
        stage.cluster.patch("v1", "nodes", node, {"spec": {"taints": None}})
    other = {"one": "two", "two": "one"}[node]
    stage.eventually("scaling", lambda: _node(stage, "scaling") == other)
    stage.finish("scaling")


def _node(stage: Stage, name: str) -> str | None:
    return stage.status(name)["jobStatuses"][0].get("nodeName")
