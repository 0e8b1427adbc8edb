"""Jobs and pods at a glance."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from jobs_fake_api import condition, mpijob, pod

from corral.client.explain.podstates import pod_summary
from corral.client.kinds import kind_of
from corral.client.summary import summarize, summarized_progress

MPI = kind_of("mpijobs")
NOW = datetime(2026, 1, 1, 0, 10, tzinfo=UTC)
Obj = dict[str, Any]


def test_a_failed_mpijob() -> None:
    job = mpijob("pi", "7", condition("Created"), condition("Failed", message="gave up"))
    job["status"] |= {
        "startTime": "2026-01-01T00:01:00Z",
        "completionTime": "2026-01-01T00:02:30Z",
        "failure": {
            "replica": "Worker", "index": 1, "pod": "pi-worker-1", "node": "n2",
            "reason": "OOMKilled", "exitCode": 137, "signal": 9, "logTail": "last words",
        },
    }  # fmt: skip
    pods = [pod("pi-worker-1", "Failed"), pod("pi-worker-0"), pod("pi-launcher-x", "Pending")]
    found = summarize(MPI, job, pods, now=NOW)
    assert found.phase == "Failed"
    assert found.message == "pi-worker-1 on node n2: OOMKilled (exit code 137)"
    assert found.duration_seconds == 90
    assert [state.name for state in found.pods] == ["pi-launcher-x", "pi-worker-0", "pi-worker-1"]
    launcher, workers = found.replicas
    assert (launcher.role, launcher.desired, launcher.pending) == ("launcher", 1, 1)
    assert (workers.role, workers.desired, workers.running, workers.failed) == ("worker", 2, 1, 1)
    assert found.diagnosis is not None
    assert (found.diagnosis.role, found.diagnosis.index) == ("worker", 1)
    shown = found.as_object()
    assert shown["diagnosis"]["exitCode"] == 137
    assert shown["replicas"][1] == {
        "role": "worker", "desired": 2, "pending": 0, "running": 1, "ready": 0, "succeeded": 0,
        "failed": 1, "restarts": 0,
    }  # fmt: skip
    assert "progress" not in shown


def test_time_runs_until_the_end_the_suspension_or_now() -> None:
    job = mpijob("pi", "1", condition("Running"))
    assert summarize(MPI, job, [], now=NOW).duration_seconds is None
    job["status"]["startTime"] = "2026-01-01T00:00:00Z"
    assert summarize(MPI, job, [], now=NOW).duration_seconds == 600
    held = condition("Suspended", lastTransitionTime="2026-01-01T00:03:00Z")
    job["status"]["conditions"] = [held]
    assert summarize(MPI, job, [], now=NOW).duration_seconds == 180


def test_progress_of_rounds_and_steps() -> None:
    rounds = {"spec": {"rounds": {"total": 4}}, "status": {"completedRounds": 1}}
    assert summarized_progress(rounds) == "step 1 of 4 (25 %)"
    updates = {"status": {"updatesReceived": 2, "updatesRequired": 3}}
    assert summarized_progress(updates) == "step 2 of 3 (66 %)"
    steps = {"status": {"progress": {"step": 5, "metrics": {"loss": 0.123456}}}}
    assert summarized_progress(steps) == "step 5, loss 0.1235"
    assert summarized_progress({}) == ""


@pytest.mark.parametrize(
    ("name", "given", "reason", "exit_code", "signal"),
    [
        ("good", pod("a"), "", None, None),
        ("dead", pod("a", "Failed", container={
            "state": {"terminated": {"exitCode": 3, "reason": "Error"}}}), "Error", 3, None),
        ("killed", pod("a", "Failed", container={
            "state": {"terminated": {"exitCode": 137}}}), "Error", 137, 9),
        ("oom", pod("a", "Failed", container={
            "state": {"terminated": {"exitCode": 137, "reason": "OOMKilled", "signal": 9}}}),
         "OOMKilled", 137, 9),
        ("image", pod("a", "Pending", container={
            "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no"}}}),
         "ImagePullBackOff", None, None),
        ("starting", pod("a", "Pending", container={
            "state": {"waiting": {"reason": "ContainerCreating"}}}), "", None, None),
        ("loop", pod("a", "Running", container={
            "restartCount": 4, "state": {"waiting": {"reason": "CrashLoopBackOff"}},
            "lastState": {"terminated": {"exitCode": 1}}}), "CrashLoopBackOff", 1, None),
        ("evicted", pod("a", "Failed", reason="Evicted", message="disk"), "Evicted", None, None),
        ("homeless", pod("a", "Pending", conditions=[
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
             "message": "0/1"}]), "Unschedulable", None, None),
        ("over", pod("a", "Succeeded", container={
            "state": {"terminated": {"exitCode": 0}}}), "", None, None),
    ],
)  # fmt: skip
def test_pods(
    name: str, given: Obj, reason: str, exit_code: int | None, signal: int | None
) -> None:
    state = pod_summary(MPI, given)
    assert (state.reason, state.exit_code, state.signal) == (reason, exit_code, signal)
    assert state.as_object()["phase"] == given["status"]["phase"]
