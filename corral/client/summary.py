"""`Summary`: what is known about one job right now, with its pods, in one value.

It is put together from the object and its pods alone (`summarize` is pure); times are as the API
writes them. One model: Python, the JSON of the gateway and of ``--output json``, its schema.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from pydantic import Field

from corral.client.answers import Answer, named
from corral.client.explain.podstates import PodSummary, pod_summary
from corral.client.kinds import JobKind
from corral.client.phases import conditions, failure_message, section, status_of, text
from corral.client.times import duration, finish_time, start_time
from corral.kube.types import Obj

__all__ = [
    "Diagnosis",
    "PodSummary",
    "RoleCounts",
    "Summary",
    "desired_pods",
    "diagnosis_of",
    "summarize",
    "summarized_progress",
    "wants_suspension",
]


class RoleCounts(Answer):
    """How many pods of a role are in which state."""

    role: str
    desired: int | None = None
    """How many there should be; none where the object does not say."""
    pending: int = 0
    running: int = 0
    ready: int = 0
    succeeded: int = 0
    failed: int = 0
    restarts: int = 0


class Diagnosis(Answer):
    """The pod that a failure is due to, and what became of it."""

    pod: str = ""
    role: str = ""
    index: int | None = None
    node: str = ""
    reason: str = ""
    exit_code: int | None = None
    signal: int | None = None
    message: str = ""
    log_tail: str = ""
    text: str = ""
    """All of it in one line."""


class Summary(Answer):
    """One job at a glance."""

    required = ("kind", "namespace", "name", "phase", "message", "replicas", "pods")

    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""
    phase: str = ""
    message: str = ""
    created: str = named("creationTime", "")
    started: str = named("startTime", "")
    finished: str = named("completionTime", "")
    duration_seconds: float | None = Field(None, ge=0)
    suspended: bool = False
    """Whether it is asked to be; the phase says whether it is."""
    deleting: bool = False
    replicas: tuple[RoleCounts, ...] = ()
    pods: tuple[PodSummary, ...] = ()
    conditions: tuple[Obj, ...] = ()
    progress: Obj | None = None
    checkpoint: Obj | None = None
    diagnosis: Diagnosis | None = None
    cost: Obj | None = None


def summarize(kind: JobKind, obj: Obj, pods: Iterable[Obj], *, now: datetime) -> Summary:
    """Everything at a glance; ``pods`` are those of the job."""
    metadata, status = section(obj, "metadata"), status_of(obj)
    states = sorted((pod_summary(kind, pod) for pod in pods), key=lambda state: state.order)
    ran = duration(obj, now)
    return Summary(
        kind=kind.kind,
        namespace=text(metadata.get("namespace")),
        name=text(metadata.get("name")),
        uid=text(metadata.get("uid")),
        resource_version=text(metadata.get("resourceVersion")),
        phase=kind.phase(obj),
        message=kind.message(obj),
        created=text(metadata.get("creationTimestamp")),
        started=start_time(obj),
        finished=finish_time(obj),
        duration_seconds=round(ran.total_seconds(), 3) if ran is not None else None,
        suspended=wants_suspension(kind, obj),
        deleting="deletionTimestamp" in metadata,
        replicas=_counts(kind, obj, states),
        pods=tuple(states),
        conditions=tuple(conditions(obj)),
        progress=_progress(obj),
        checkpoint=section(status, "checkpoint") or None,
        diagnosis=diagnosis_of(obj),
        cost=section(status, "cost") or None,
    )


def wants_suspension(kind: JobKind, obj: Obj) -> bool:
    """Whether the spec asks for it."""
    value: object = obj
    for name in kind.suspend_path:
        value = value.get(name) if isinstance(value, dict) else None
    return bool(kind.suspend_path) and value is True


def diagnosis_of(obj: Obj) -> Diagnosis | None:
    """What the controller found out about the failure."""
    failure = section(status_of(obj), "failure")
    if not failure:
        return None
    replica = failure.get("replica")
    index = failure.get("index", replica if isinstance(replica, int) else None)
    exit_code, signal = failure.get("exitCode"), failure.get("signal")
    return Diagnosis(
        pod=text(failure.get("pod")),
        role=replica.lower() if isinstance(replica, str) else "replica",
        index=index if isinstance(index, int) else None,
        node=text(failure.get("node")),
        reason=text(failure.get("reason")),
        exit_code=exit_code if isinstance(exit_code, int) else None,
        signal=signal if isinstance(signal, int) else None,
        message=text(failure.get("message")),
        log_tail=text(failure.get("logTail")),
        text=failure_message(obj),
    )


def _progress(obj: Obj) -> Obj | None:
    """What was reported, or the rounds of federated learning as steps."""
    status = status_of(obj)
    if section(status, "progress"):
        return section(status, "progress")
    done, total = status.get("completedRounds"), section(section(obj, "spec"), "rounds")
    if isinstance(done, int) and isinstance(total.get("total"), int) and total["total"] > 0:
        percent = min(100, done * 100 // total["total"])
        return {"step": done, "totalSteps": total["total"], "percent": percent}
    got, needed = status.get("updatesReceived"), status.get("updatesRequired")
    if isinstance(got, int) and isinstance(needed, int) and needed > 0:
        return {"step": got, "totalSteps": needed, "percent": min(100, got * 100 // needed)}
    return None


def summarized_progress(obj: Obj) -> str:
    """``step 120 of 500 (24 %), loss 0.21``; empty where nothing was reported."""
    found = _progress(obj)
    if found is None:
        return ""
    out = f"step {found.get('step', 0)}"
    if isinstance(found.get("totalSteps"), int):
        out += f" of {found['totalSteps']}"
    if isinstance(found.get("percent"), int):
        out += f" ({found['percent']} %)"
    metrics = section(found, "metrics").items()
    shown = [f"{name} {value:.4g}" for name, value in metrics if isinstance(value, int | float)]
    return ", ".join([out, *shown[:4]])


def desired_pods(kind: JobKind, obj: Obj) -> dict[str, int]:
    """How many pods there should be, by role, as far as the spec says."""
    spec = section(obj, "spec")
    if kind.family == "mpijob":
        specs = section(spec, "mpiReplicaSpecs")
        workers = section(specs, "Worker").get("replicas")
        out = {"launcher": 1}
        return {**out, "worker": workers} if isinstance(workers, int) else out
    if kind.pod_selector is None:
        return {}
    if kind.family == "federated":
        participants = spec.get("participants")
        return {"participant": len(participants)} if isinstance(participants, list) else {"task": 1}
    if isinstance(spec.get("replicas"), int):
        return {"replica": spec["replicas"]}
    return {"replica": 1} if kind.kind == "TrainingJob" else {}


def _counts(kind: JobKind, obj: Obj, states: Sequence[PodSummary]) -> tuple[RoleCounts, ...]:
    desired = desired_pods(kind, obj)
    names = dict.fromkeys([*desired, *(state.role.name for state in states)])
    return tuple(
        _role_counts(name, desired.get(name), [s for s in states if s.role.name == name])
        for name in names
    )


def _role_counts(role: str, desired: int | None, states: Sequence[PodSummary]) -> RoleCounts:
    def count(phase: str) -> int:
        return sum(state.phase == phase for state in states)

    return RoleCounts(
        role=role,
        desired=desired,
        pending=count("Pending") + count("Unknown"),
        running=count("Running"),
        ready=sum(state.ready for state in states),
        succeeded=count("Succeeded"),
        failed=count("Failed"),
        restarts=sum(state.restarts for state in states),
    )
