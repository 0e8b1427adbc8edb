"""Lives of jobs over many passes, with a small server that keeps pods and statuses.

The first one is what kube-controller-manager 1.37.1 was seen to do, step by step.
"""

from __future__ import annotations

import copy
from datetime import timedelta
from typing import Any

from job_builders import FAILURES, FINALIZER, INDEX, NOW, Ran, job, run

from corral.cluster.workloads.job import NO_FAILURES, DeletePods
from corral.kube.types import Obj


class Life:
    """One job; pods keep running until told otherwise, deleted pods go at once."""

    def __init__(self, subject: Obj) -> None:
        self.job = subject
        self.pods: dict[str, Obj] = {}
        self.now = NOW
        self.backoff: Any = NO_FAILURES
        self.events: list[str] = []
        self.made = 0

    def step(self, seconds: float = 1) -> Ran:
        self.now += timedelta(seconds=seconds)
        ran = run(copy.deepcopy(self.job), copy.deepcopy(list(self.pods.values())),
                  now=self.now, backoff=self.backoff)  # fmt: skip
        for uid in ran.freed:
            self.pods[uid]["metadata"].pop("finalizers", None)
        for step in ran.steps:
            for gone in step.pods if isinstance(step, DeletePods) else ():
                self.pods.pop(gone["metadata"]["uid"])
        for body in ran.created:
            self.made += 1
            uid = f"{body['metadata']['generateName']}{self.made}"
            meta = {**copy.deepcopy(body["metadata"]), "name": uid, "uid": uid}
            self.pods[uid] = {
                "metadata": meta,
                "spec": body["spec"],
                "status": {"phase": "Pending"},
            }
        self.job["status"] = ran.status or self.job["status"]
        self.backoff = ran.backoff or self.backoff
        self.events += [e.reason for e in ran.events]
        return ran

    def end(self, uid: str, phase: str, code: int = 0) -> None:
        ended = {"exitCode": code, "finishedAt": self.now.strftime("%Y-%m-%dT%H:%M:%SZ")}
        self.pods[uid]["status"] = {
            "phase": phase, "containerStatuses": [{"name": "main", "state": {"terminated": ended}}]
        }  # fmt: skip

    def short(self) -> dict[str, Any]:
        kept = ("active", "succeeded", "failed", "completedIndexes", "failedIndexes")
        return {k: v for k, v in self.job["status"].items() if k in kept}


def test_per_index_back_off_as_observed() -> None:
    life = Life(job(completions=3, parallelism=2, completionMode="Indexed", backoffLimitPerIndex=1))
    life.step()
    assert life.short() == {"active": 2, "failedIndexes": ""}
    first, second = life.pods
    life.end(first, "Failed", 3)
    life.end(second, "Succeeded")
    life.step()
    assert life.short() == {
        "active": 1, "succeeded": 1, "completedIndexes": "1", "failedIndexes": ""}  # fmt: skip
    assert life.pods[first]["metadata"]["finalizers"] == [FINALIZER]
    assert "finalizers" not in life.pods[second]["metadata"]
    waiting = life.step()
    assert waiting.verdict.requeue_after == 8
    life.step(8)
    assert life.short()["active"] == 2
    replacement = list(life.pods.values())[-1]["metadata"]
    assert (replacement["annotations"][INDEX], replacement["annotations"][FAILURES]) == ("0", "1")
    life.step()
    assert life.short() == {"active": 2, "succeeded": 1, "failed": 1, "completedIndexes": "1",
                            "failedIndexes": ""}  # fmt: skip
    assert "finalizers" not in life.pods[first]["metadata"]


def test_a_job_that_fails_again_and_again() -> None:
    life = Life(job(backoffLimit=2))
    waits: list[float] = []
    for _ in range(3):
        while not [p for p in life.pods.values() if p["status"]["phase"] == "Pending"]:
            ran = life.step()
            waits += [ran.verdict.requeue_after] if ran.verdict.requeue_after else []
        (running,) = [u for u, p in life.pods.items() if p["status"]["phase"] == "Pending"]
        life.end(running, "Failed", 1)
    life.step()
    assert max(waits) == 19
    assert life.made == 3 and life.short() == {"failed": 3}
    assert [c["type"] for c in life.job["status"]["conditions"]] == ["FailureTarget", "Failed"]
    assert life.events == ["BackoffLimitExceeded"]
    assert life.step().steps == []


def test_every_pod_is_counted_once() -> None:
    life = Life(job(parallelism=7, completions=20))
    for _ in range(40):
        for uid, one in list(life.pods.items()):
            if one["status"]["phase"] == "Pending":
                life.end(uid, "Succeeded")
        life.step()
    assert life.made == 20 and life.short() == {"succeeded": 20}
    assert life.events == ["Completed"]
