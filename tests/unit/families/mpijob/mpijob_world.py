"""Launchers, workers and observations for the decisions about MPIJobs."""

from __future__ import annotations

from typing import Any

from corral.families.mpijob.lifecycle.decision import Decision, Observation
from corral.families.mpijob.lifecycle.limits import MPISettings
from corral.families.mpijob.lifecycle.state import decide
from corral.families.mpijob.view import JobView
from corral.runtime.keys import format_time
from tests.unit.families.mpijob.mpijob_cases import edited, job

Obj = dict[str, Any]
START = 1_800_000_000.0
SETTINGS = MPISettings()


def make_job(edits: dict[str, Any] | None = None, status: Obj | None = None) -> Obj:
    made = edited(job(), edits or {})
    made["metadata"] |= {"generation": 1, "resourceVersion": "1"}
    return {**made, "status": status} if status is not None else made


def stamp(after: float = 0.0) -> str:
    return format_time(START + after)


def pod(
    name: str, phase: str = "Running", *, ready: bool = True, made: float = 0.0, **status: Any
) -> Obj:
    known = {"type": "Ready", "status": "True" if ready and phase == "Running" else "False"}
    return {
        "metadata": {
            "name": name,
            "namespace": "bar",
            "uid": f"uid-{name}-{made}",
            "creationTimestamp": stamp(made),
        },
        "spec": {"nodeName": "n1", "containers": [{"name": "main"}]},
        "status": {"phase": phase, "conditions": [known], "startTime": stamp(made), **status},
    }


def worker(index: int, phase: str = "Running", **more: Any) -> Obj:
    return pod(f"foo-worker-{index}", phase, **more)


def ended(code: int, *, at: float = 0.0, reason: str = "Error", message: str = "") -> Obj:
    how = {"exitCode": code, "reason": reason, "finishedAt": stamp(at), "message": message}
    return {"name": "main", "state": {"terminated": how}}


def again(code: int, *, at: float = 0.0, count: int = 1, reason: str = "Error") -> Obj:
    """A container that has ended, and runs again."""
    how = {"exitCode": code, "reason": reason, "finishedAt": stamp(at)}
    return {
        "name": "main",
        "restartCount": count,
        "state": {"running": {"startedAt": stamp(at + 1)}},
        "lastState": {"terminated": how},
    }


def launcher(*conditions: Obj, suspend: bool = False, limit: int = 6, **status: Any) -> Obj:
    return {
        "metadata": {"name": "foo-launcher", "namespace": "bar", "uid": "l-1"},
        "spec": {"suspend": suspend, "backoffLimit": limit, "template": {"spec": {}}},
        "status": {"conditions": list(conditions), **status},
    }


def over(type: str, reason: str = "", message: str = "") -> Obj:
    return {"type": type, "status": "True", "reason": reason, "message": message}


def look(
    seen: Obj | None = None,
    *,
    job_launcher: Obj | None = None,
    pods: tuple[Obj, ...] = (),
    workers: tuple[Obj, ...] = (),
    after: float = 0.0,
    **more: Any,
) -> Decision:
    """What is decided about a job."""
    found = seen or make_job()
    observation = Observation(
        JobView.of(found), found, job_launcher, pods, workers, START + after, **more
    )
    return decide(observation, SETTINGS)


def conditions(status: Obj) -> list[tuple[str, str, str]]:
    return [(c["type"], c["status"], c["reason"]) for c in status["conditions"]]
