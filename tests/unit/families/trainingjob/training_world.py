"""Builders of jobs and pods, and a small cluster in which operators may die at any moment."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Generator
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from corral.families.trainingjob.lifecycle.decision import Decision, Observation
from corral.families.trainingjob.lifecycle.limits import RunLimits
from corral.families.trainingjob.lifecycle.replicas import PLACEHOLDER_LABEL, is_placeholder
from corral.families.trainingjob.lifecycle.state import decide
from corral.families.trainingjob.names import attempt_of, pod_labels, replica_of
from corral.families.trainingjob.objects.placeholders import placeholder_name
from corral.runtime.keys import format_time

Obj = dict[str, Any]
START = 1_800_000_000.0
LIMITS = RunLimits()


def make_job(**spec: Any) -> Obj:
    policy = spec.pop("policy", {})
    body = {"image": "trainer", "replicas": 2, **spec, "runPolicy": policy}
    metadata = {"name": "job", "namespace": "ns", "uid": "uid", "generation": 1}
    return {
        "apiVersion": "training.corral.dev/v1alpha1",
        "kind": "TrainingJob",
        "metadata": metadata,
        "spec": body,
    }


def make_pod(index: int, attempt: int = 1, *, world: int = 2, phase: str = "Pending") -> Obj:
    return {
        "metadata": {
            "name": f"job-{index}",
            "namespace": "ns",
            "labels": pod_labels("job", index, attempt=attempt, world=world),
        },
        "spec": {"restartPolicy": "Never", "containers": [{"name": "trainer"}]},
        "status": {"phase": phase},
    }


def ended(pod: Obj, code: int, *, at: float = START, reason: str = "Error", **more: Any) -> Obj:
    """The pod, whose container has ended."""
    end = {"exitCode": code, "reason": reason, "finishedAt": format_time(at), **more}
    pod["status"]["containerStatuses"] = [{"name": "trainer", "state": {"terminated": end}}]
    pod["status"]["phase"] = "Failed" if code else "Succeeded"
    return pod


def waiting(pod: Obj, reason: str, message: str = "") -> Obj:
    """The pod, whose container cannot start."""
    state = {"waiting": {"reason": reason, "message": message}}
    pod["status"]["containerStatuses"] = [{"name": "trainer", "state": state}]
    return pod


def unschedulable(pod: Obj, *, since: float = START) -> Obj:
    pod["status"]["conditions"] = [
        {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": "0/1 nodes are available",
            "lastTransitionTime": format_time(since),
        }
    ]
    return pod


def scheduled(pod: Obj, *, since: float = START) -> Obj:
    pod["spec"]["nodeName"] = "n1"
    pod["status"]["conditions"] = [
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": format_time(since)}
    ]
    return pod


def deleting(pod: Obj, *, at: float = START, grace: int = 30) -> Obj:
    """The pod, whose deletion was asked for at this time."""
    pod["metadata"]["deletionTimestamp"] = format_time(at + grace)
    pod["metadata"]["deletionGracePeriodSeconds"] = grace
    return pod


def condition(status: Obj, type: str) -> Obj:
    found = [c for c in status.get("conditions") or () if c["type"] == type]
    return dict(found[0]) if found else {}


class Refused(Exception):
    """The write was bound to an older version."""


@dataclass
class Process:
    """One operator: what it remembers, and the pass it is in."""

    claimed: set[int] = field(default_factory=set)
    known: set[tuple[int, int]] = field(default_factory=set)
    placed_at: float = 0.0
    work: Generator[None, None, Decision] | None = None


class World:
    """A job and its pods; every action of an operator is a step of its own."""

    def __init__(self, rng: random.Random, job: Obj, *, limits: RunLimits = LIMITS) -> None:
        self.rng = rng
        self.job = job
        self.limits = limits
        self.pods: dict[str, Obj] = {}
        self.now = START
        self.version = 0
        self.creates: Counter[tuple[int, int]] = Counter()
        self.capacity = 1000

    @property
    def status(self) -> Obj:
        return dict(self.job.get("status") or {})

    # --- operators -----------------------------------------------------------------------------

    def run(self, process: Process) -> Generator[None, None, Decision]:
        """One pass; it pauses before every action."""
        seen, version = deepcopy(self.job), self.version
        decision = decide(
            Observation(
                seen,
                deepcopy(list(self.pods.values())),
                {"count": 0, "bytes": 0},
                self.now,
                claimed=frozenset(process.claimed),
                known=frozenset(process.known),
                placed_at=process.placed_at,
            ),
            self.limits,
        )
        yield
        if decision.status != seen.get("status"):
            if version != self.version:
                raise Refused
            self.job["status"] = deepcopy(decision.status)
            self.version += 1
        process.claimed |= decision.claimed
        process.known |= decision.known
        for pod in decision.kill:
            yield
            self.pods.pop(pod["metadata"]["name"], None)
        doomed = list(decision.delete)
        if decision.clean_pods == "All":
            doomed += list(self.pods.values())
        elif decision.clean_pods == "Running":
            live = ("Succeeded", "Failed")
            doomed += [p for p in self.pods.values() if p["status"]["phase"] not in live]
        for pod in doomed:
            yield
            self.delete(pod)
        for launch in decision.launches:
            for index in launch.indexes:
                yield
                self.create(index, launch.attempt, launch.world)
                process.known.add((index, launch.attempt))
        if decision.placeholders:
            process.placed_at = self.now
        for number in decision.placeholders:
            yield
            self.place(number, decision.status["attempt"])
        return decision

    def step(self, process: Process) -> Decision | None:
        """Let an operator do one action; its decision at the end of a pass."""
        if process.work is None:
            process.work = self.run(process)
        try:
            next(process.work)
        except StopIteration as end:
            process.work = None
            decision: Decision = end.value
            return decision
        except Refused:
            process.work = None
        return None

    def settle(self, process: Process) -> Decision:
        """A whole pass without disturbance."""
        process.work = None
        while (decision := self.step(process)) is None:
            pass
        return decision

    # --- the server ----------------------------------------------------------------------------

    def create(self, index: int, attempt: int, world: int) -> None:
        name = f"job-{index}"
        if name in self.pods:
            if attempt_of(self.pods[name]) != attempt:
                raise Refused
            return
        self.creates[index, attempt] += 1
        self.pods[name] = make_pod(index, attempt, world=world)

    def place(self, number: int, attempt: int) -> None:
        name = placeholder_name("job", number)
        if name not in self.pods:
            pod = make_pod(number, attempt)
            pod["metadata"]["name"] = name
            pod["metadata"]["labels"][PLACEHOLDER_LABEL] = "true"
            self.pods[name] = pod

    def delete(self, pod: Obj) -> None:
        found = self.pods.get(pod["metadata"]["name"])
        if found is None or attempt_of(found) != attempt_of(pod):
            return
        if found["status"]["phase"] in ("Succeeded", "Failed"):
            del self.pods[pod["metadata"]["name"]]
        elif "deletionTimestamp" not in found["metadata"]:
            deleting(found, at=self.now)

    # --- what happens by itself ------------------------------------------------------------------

    def advance(self, *, failures: bool) -> None:
        """Something happens to a pod, or time goes by."""
        self.now += self.rng.choice((0, 0, 1, 1, 5))
        if not self.pods:
            return
        name = self.rng.choice(sorted(self.pods))
        pod = self.pods[name]
        if "deletionTimestamp" in pod["metadata"]:
            del self.pods[name]
        elif pod["status"]["phase"] == "Pending":
            self._schedule(pod)
        elif pod["status"]["phase"] == "Running":
            self._go_on(name, pod, failures=failures)

    def _schedule(self, pod: Obj) -> None:
        placed = sum("nodeName" in other["spec"] for other in self.pods.values())
        if "nodeName" not in pod["spec"] and placed >= self.capacity:
            since = condition(pod["status"], "PodScheduled").get("lastTransitionTime")
            if since is None:
                unschedulable(pod, since=self.now)
            return
        scheduled(pod, since=self.now)
        if not is_placeholder(pod):
            pod["status"]["phase"] = "Running"

    def _go_on(self, name: str, pod: Obj, *, failures: bool) -> None:
        fate = self.rng.random()
        if not failures or fate < 0.5:
            ended(pod, 0, at=self.now)
        elif fate < 0.7:
            ended(pod, 1, at=self.now)
        elif fate < 0.85:
            deleting(pod, at=self.now)
        else:
            del self.pods[name]

    def live_attempts(self) -> set[int]:
        return {
            attempt_of(pod) or 0
            for pod in self.pods.values()
            if replica_of(pod) is not None and not is_placeholder(pod)
        }
