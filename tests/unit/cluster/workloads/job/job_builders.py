"""Jobs and pods for the tables, and a driver that answers the steps of a pass."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from corral.cluster.workloads.job import (
    DONE,
    CreatePods,
    DeletePods,
    Emit,
    Event,
    RemoveFinalizers,
    Report,
    Verdict,
    WriteStatus,
    slow_start,
    sync_job,
)
from corral.kube.types import Obj

NOW = datetime(2026, 3, 4, 12, 0, 0, tzinfo=UTC)
STAMP = "2026-03-04T12:00:00Z"
FINALIZER = "batch.kubernetes.io/job-tracking"
INDEX = "batch.kubernetes.io/job-completion-index"
FAILURES = "batch.kubernetes.io/job-index-failure-count"
IGNORED = "batch.kubernetes.io/job-index-ignored-failure-count"


def ago(seconds: float) -> str:
    return (NOW - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def job(status: Obj | None = None, *, deleting: bool = False, **spec: Any) -> Obj:
    """``completions=None`` is a work queue."""
    meta: Obj = {"name": "train", "namespace": "ns", "uid": "job-uid"}
    if deleting:
        meta["deletionTimestamp"] = ago(1)
    restart = spec.pop("restartPolicy", "Never")
    full: Obj = {
        "parallelism": 1,
        "completions": 1,
        "backoffLimit": 6,
        "completionMode": "NonIndexed",
        "selector": {"matchLabels": {"job": "train"}},
        "template": {
            "metadata": {"labels": {"job": "train"}},
            "spec": {"restartPolicy": restart, "containers": [{"name": "main", "image": "x"}]},
        },
    }
    full.update(spec)
    full = {k: v for k, v in full.items() if v is not None}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": meta,
        "spec": full,
        "status": status or {},
    }


def pod(
    uid: str,
    phase: str = "Running",
    *,
    index: Any = None,
    failures: Any = None,
    tracked: bool = True,
    deleted: bool = False,
    ready: bool = False,
    exit_code: int | None = None,
    finished: float | None = None,
    **extra: Any,
) -> Obj:
    meta: Obj = {
        "name": f"pod-{uid}",
        "namespace": "ns",
        "uid": uid,
        "labels": {"job": "train"},
        "annotations": {},
        "ownerReferences": [
            {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "name": "train",
                "uid": "job-uid",
                "controller": True,
            }
        ],
    }
    if tracked:
        meta["finalizers"] = [FINALIZER]
    if index is not None:
        meta["annotations"][INDEX] = str(index)
    if failures is not None:
        meta["annotations"][FAILURES] = str(failures)
    if deleted:
        meta["deletionTimestamp"] = ago(3600)
    meta.update(extra.pop("meta", {}))
    status: Obj = {"phase": phase, **extra.pop("status", {})}
    if ready:
        status["conditions"] = [{"type": "Ready", "status": "True", "lastTransitionTime": ago(60)}]
    if exit_code is not None or finished is not None:
        ended: Obj = {"exitCode": exit_code or 0}
        if finished is not None:
            ended["finishedAt"] = ago(finished)
        status["containerStatuses"] = [{"name": "main", "state": {"terminated": ended}}]
    return {"metadata": meta, "spec": extra.pop("spec", {}), "status": status}


def many(prefix: str, count: int, phase: str = "Running", **options: Any) -> list[Obj]:
    return [pod(f"{prefix}{i}", phase, **options) for i in range(count)]


@dataclass
class Ran:
    """All that a pass asked for."""

    verdict: Verdict = field(default_factory=Verdict)
    steps: list[Any] = field(default_factory=list)
    created: list[Obj] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    freed: list[str] = field(default_factory=list)
    statuses: list[Obj] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    backoff: Any = None

    @property
    def status(self) -> Obj:
        return self.statuses[-1] if self.statuses else {}

    @property
    def conditions(self) -> list[tuple[str, str, str, str]]:
        return [
            (c["type"], c["status"], c["reason"], c["message"])
            for c in self.status.get("conditions", ())
        ]

    @property
    def indexes(self) -> list[int]:
        return [int(p["metadata"]["annotations"][INDEX]) for p in self.created]


def run(
    the_job: Obj,
    pods: list[Obj],
    *,
    create_limit: int | None = None,
    refuse: bool = False,
    refuse_freeing: frozenset[str] = frozenset(),
    **options: Any,
) -> Ran:
    """Runs one pass; ``refuse`` makes every write to a pod fail."""
    ran = Ran()
    passing = sync_job(the_job, pods, **{"now": NOW, **options})
    report: Report | None = None
    while True:
        try:
            step = passing.send(report) if report is not None else next(passing)
        except StopIteration as stop:
            ran.verdict = stop.value
            return ran
        ran.steps.append(step)
        report = _answer(ran, step, create_limit, refuse, refuse_freeing)


def _answer(
    ran: Ran, step: Any, create_limit: int | None, refuse: bool, refuse_freeing: frozenset[str]
) -> Report:
    match step:
        case CreatePods(bodies):
            return _create(ran, bodies, 0 if refuse else create_limit)
        case DeletePods(pods, free_first):
            names = [p["metadata"]["uid"] for p in pods]
            ran.freed += names if free_first else []
            if refuse:
                return Report(frozenset(range(len(pods))))
            ran.deleted += names
        case RemoveFinalizers(pods):
            names = [p["metadata"]["uid"] for p in pods]
            ran.freed += names
            return Report(
                frozenset(i for i, name in enumerate(names) if refuse or name in refuse_freeing)
            )
        case WriteStatus(status, events, backoff):
            ran.statuses.append(status)
            ran.events += events
            ran.backoff = backoff or ran.backoff
        case Emit(events):
            ran.events += events
    return DONE


def _create(ran: Ran, bodies: tuple[Obj, ...], limit: int | None) -> Report:
    room = len(bodies) if limit is None else limit
    at = 0
    for size in slow_start(len(bodies)):
        accepted = max(0, min(size, room - at))
        ran.created += bodies[at : at + accepted]
        at += accepted
        if accepted < size:
            break
    return Report(frozenset(range(at, len(bodies))))
