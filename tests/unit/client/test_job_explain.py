"""Every explanation: what was seen, and what is said about it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest
from jobs_fake_api import condition, mpijob, pod

from corral.client.explain.evidence import Evidence, OperatorState
from corral.client.explain.explanation import Explanation, explained
from corral.client.explain.podstates import pod_summary
from corral.client.kinds import kind_of

Obj = dict[str, Any]
MPI, TRAINING = kind_of("mpijobs"), kind_of("trainingjobs")
NOW = datetime(2026, 1, 1, 0, 1, tzinfo=UTC)


@dataclass
class Case:
    """What is seen of one job."""

    job: Obj
    pods: list[Obj] = field(default_factory=list)
    events: list[Obj] = field(default_factory=list)
    lost: dict[str, str] = field(default_factory=dict)
    operator: OperatorState = "running"
    plural: str = "mpijobs"

    def explained(self) -> Explanation:
        kind = kind_of(self.plural)
        states = tuple(pod_summary(kind, pod) for pod in self.pods)
        events = tuple(self.events)
        seen = Evidence(kind, self.job, states, events, self.lost, self.operator, (), NOW)
        return explained(seen)


def training(**status: Any) -> Obj:
    return {
        "metadata": {"name": "t", "namespace": "ns", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"replicas": 2},
        "status": status,
    }


def waiting(reason: str, message: str = "") -> Obj:
    return {"state": {"waiting": {"reason": reason, "message": message}}}


def ended(code: int, reason: str = "Error") -> Obj:
    return {"state": {"terminated": {"exitCode": code, "reason": reason}}}


def homeless(name: str, message: str) -> Obj:
    found = pod(name, "Pending", conditions=[
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    ])  # fmt: skip
    del found["spec"]["nodeName"]
    return found


def warning(reason: str, message: str, kind: str = "Job", name: str = "pi-launcher") -> Obj:
    return {
        "type": "Warning", "reason": reason, "message": message,
        "involvedObject": {"kind": kind, "name": name},
        "lastTimestamp": "2026-01-01T00:00:30Z",
    }  # fmt: skip


CREATED = condition("Created")
NO_GPU = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu. preemption: none"
NEW = mpijob("pi", "1", CREATED)


def with_failure(phase: str = "Failed", **failure: Any) -> Obj:
    job = mpijob("pi", "1", CREATED, condition(phase, message="gave up"))
    job["status"]["failure"] = failure
    return job


CASES: dict[str, tuple[Case, str, str, str]] = {
    # name: what is seen, the headline, a part of a reason, a part of a hint
    "just created": (
        Case(mpijob("pi", creationTimestamp="2026-01-01T00:00:55Z")),
        "MPIJob pi was just created.", "has yet to look at it", ""),
    "nobody looks after it": (
        Case(mpijob("pi"), operator="unknown"),
        "MPIJob pi waits for its controller.", "no controller has looked at it in 60 s",
        "corral operator"),
    "operator not running": (
        Case(mpijob("pi"), operator="away"),
        "MPIJob pi waits for the operator, which is not running.", "lease", "corral operator"),
    "operator went away later": (
        Case(mpijob("pi", "1", condition("Running")), [pod("pi-worker-0")], operator="away"),
        "MPIJob pi is running.", "nothing changes until it is back", "corral operator"),
    "no GPU": (
        Case(NEW, [homeless("pi-worker-0", NO_GPU), homeless("pi-worker-1", NO_GPU)]),
        "MPIJob pi waits for a node with enough free nvidia.com/gpu.",
        "pi-worker-0, pi-worker-1 have no node: 0/3 nodes are available",
        "kubectl describe nodes | grep nvidia.com/gpu"),
    "one of two has no node": (
        Case(NEW, [pod("pi-launcher-x"), homeless("pi-worker-1", "0/1: 1 Insufficient cpu.")]),
        "MPIJob pi waits: worker 1 waits for a node with enough free cpu.", "1 Insufficient cpu",
        "ask for less cpu"),
    "taint": (
        Case(NEW, [homeless("pi-worker-0", "1 node(s) had untolerated taint {gpu: true}")]),
        "MPIJob pi waits for a node.", "untolerated", "toleration for the taint gpu: true"),
    "selector": (
        Case(NEW, [homeless("pi-worker-0", "1 node(s) didn't match Pod's node affinity/selector")]),
        "MPIJob pi waits for a node.", "affinity", "--show-labels"),
    "no nodes": (
        Case(NEW, [homeless("pi-worker-0", "no nodes available to schedule pods")]),
        "MPIJob pi waits for a node: the cluster has none.", "no nodes", "corral node"),
    "image": (
        Case(NEW, [pod("pi-worker-0", "Pending", container=waiting("ImagePullBackOff", "gone"))]),
        "MPIJob pi cannot get its image.", "(ImagePullBackOff): gone", "imagePullSecrets"),
    "image on a node of processes": (
        Case(NEW, [pod(f"pi-worker-{i}", "Pending", container=waiting("ErrImageNeverPull", "no"))
                   for i in (0, 1)]),
        "MPIJob pi cannot get its image.",
        "pi-worker-0, pi-worker-1 cannot get their image (ErrImageNeverPull): no", "docs/node.md"),
    "missing config": (
        Case(NEW, [pod("pi-worker-0", "Pending", container=waiting(
            "CreateContainerConfigError", 'configmap "x" not found'))]),
        "MPIJob pi cannot be set up.", 'configmap "x" not found', "ConfigMap"),
    "crash loop": (
        Case(NEW, [pod("pi-worker-0", container={
            **waiting("CrashLoopBackOff"), "restartCount": 5,
            "lastState": {"terminated": {"exitCode": 127}}})]),
        "MPIJob pi fails again and again after it was started.",
        "was restarted 5 times; it has a command that was not found",
        "corral logs mpijob/pi --previous"),
    "quota by event": (
        Case(NEW, events=[warning("FailedCreate", 'pods "x" is forbidden: exceeded quota: q')]),
        "MPIJob pi waits for room in the quota of its namespace.", "exceeded quota: q",
        "kubectl describe quota -n ns"),
    "quota by condition": (
        Case(training(phase="Pending", conditions=[condition(
            "Running", "False", reason="QuotaExceeded", message="exceeded quota: q")]),
            plural="trainingjobs"),
        "TrainingJob t waits for room in the quota of its namespace.", "quota: q", "quota"),
    "foreign object": (
        Case(NEW, events=[warning("ErrResourceExists", 'Resource "pi" exists', "MPIJob", "pi")]),
        "MPIJob pi waits: its objects cannot be made.", 'Resource "pi" exists', ""),
    "node gone": (
        Case(mpijob("pi", "1", condition("Running")), [pod("pi-worker-0")], lost={"n1": "is gone"}),
        "MPIJob pi waits: node n1 is gone.", "pods on it: pi-worker-0", "made anew elsewhere"),
    "node silent": (
        Case(mpijob("pi", "1", condition("Running")), [pod("pi-worker-0")],
             lost={"n1": "does not answer"}),
        "MPIJob pi waits: node n1 does not answer.", "n1", "out-of-service"),
    "invalid": (
        Case(training(phase="Pending", conditions=[condition(
            "Valid", "False", message="spec.replicas: too many")]), plural="trainingjobs"),
        "TrainingJob t cannot begin: its spec is wrong.", "spec.replicas: too many", "correct"),
    "invalid and failed": (
        Case(mpijob("pi", "1", condition(
            "Failed", reason="ValidationError", message="spec.x: no"))),
        "MPIJob pi was refused: its spec is wrong.", "spec.x: no", "correct the spec"),
    "out of memory": (
        Case(with_failure(replica="Worker", index=1, pod="pi-worker-1", node="n2",
                          reason="OOMKilled", exitCode=137, signal=9, logTail="a\nb\nc\nd")),
        "MPIJob pi failed: worker 1 used more memory than its limit and was killed.",
        "worker 1 (pod pi-worker-1) on node n2 used more memory", "resources.limits.memory"),
    "log tail": (
        Case(with_failure(replica="Launcher", pod="p", reason="Error", exitCode=2,
                          logTail="a\nb\nc\nd")),
        "MPIJob pi failed: its launcher failed with exit code 2.", "it wrote last: b | c | d",
        "corral logs mpijob/pi"),
    "not found": (
        Case(with_failure(replica="Launcher", pod="p", exitCode=127)),
        "MPIJob pi failed: its launcher has a command that was not found.", "exit code 127",
        "check the command"),
    "segfault": (
        Case(with_failure(replica="Worker", index=0, pod="p", exitCode=139, signal=11)),
        "MPIJob pi failed: worker 0 crashed (SIGSEGV).", "exit code 139", "libraries"),
    "deadline": (
        Case(mpijob("pi", "1", condition("Failed", reason="DeadlineExceeded", message="too long"))),
        "MPIJob pi failed: too long.", "too long", "activeDeadlineSeconds"),
    "pods tell where the job does not": (
        Case(mpijob("pi", "1", condition("Failed", message="failed")),
             [pod("pi-worker-0", "Failed", container=ended(9))]),
        "MPIJob pi failed: worker 0 failed with exit code 9.", "pi-worker-0 on node n1", "logs"),
    "restart delay": (
        Case(training(phase="Running", conditions=[condition("Restarting")],
                      nextAttemptTime="2026-01-01T00:01:08Z",
                      failure={"replica": 1, "pod": "t-1", "reason": "Error", "exitCode": 1}),
             plural="trainingjobs"),
        "TrainingJob t waits before it is restarted.", "the next attempt is in 8 s", "logs"),
    "restarting": (
        Case(training(phase="Running", conditions=[condition("Restarting")]),
             plural="trainingjobs"),
        "TrainingJob t is being restarted after a failure.", "", ""),
    "running": (
        Case(training(phase="Running", progress={"step": 3, "totalSteps": 6, "percent": 50}),
             plural="trainingjobs"),
        "TrainingJob t is running.", "step 3 of 6 (50 %)", ""),
    "succeeded": (
        Case(mpijob("pi", "1", condition("Succeeded"))),
        "MPIJob pi has succeeded: it did what it should.", "", ""),
    "deleting": (
        Case(mpijob("pi", "1", condition("Running"), deletionTimestamp="x", finalizers=["f/x"]),
             operator="away"),
        "MPIJob pi is being deleted.", "waits for f/x", "corral operator"),
    "rounds": (
        Case({"metadata": {"name": "f"}, "spec": {"rounds": {"total": 2}},
              "status": {"phase": "Running", "completedRounds": 1}}, plural="federatedjobs"),
        "FederatedJob f is running.", "step 1 of 2 (50 %)", ""),
    "pods on their way": (
        Case(NEW, [pod("pi-worker-0", "Pending")]),
        "MPIJob pi is starting.", "is being started on node n1", ""),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_explanations(name: str) -> None:
    case, headline, reason, hint = CASES[name]
    found = case.explained()
    assert found.headline == headline, found
    assert not reason or any(reason in said for said in found.reasons), found
    assert not hint or any(hint in said for said in found.hints), found
    assert "JOB" not in str(found)
    assert found.as_object()["headline"] == headline


def test_suspension_and_queues() -> None:
    job = mpijob("pi", "1", condition("Suspended"))
    job["spec"]["runPolicy"] = {"suspend": True}
    assert Case(job).explained().headline == "MPIJob pi is suspended."
    job["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "team-a"}
    found = Case(job).explained()
    assert found.headline == "MPIJob pi waits for its turn in queue team-a."
    assert "`corral resume mpijob/pi`" in str(found)


def test_another_controller_is_named() -> None:
    job = mpijob("pi")
    job["spec"]["runPolicy"] = {"managedBy": "kueue.x-k8s.io/multikueue"}
    assert Case(job).explained().headline == "MPIJob pi is left to kueue.x-k8s.io/multikueue."


def test_a_thousand_pods_are_one_line() -> None:
    pods = [homeless(f"pi-worker-{index}", NO_GPU) for index in range(1000)]
    found = Case(NEW, pods).explained()
    assert len(found.reasons) < 10
    assert any("and 996 more" in reason for reason in found.reasons)


def test_what_could_not_be_seen_is_said() -> None:
    seen = Evidence(MPI, NEW, unread=("ann may not list pods in namespace 'ns'",), now=NOW)
    assert "not everything could be seen: ann may not list pods in namespace 'ns'" in (
        explained(seen).reasons
    )
