"""What pods and Jobs of the family have come to. No I/O."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Literal

import orjson

from corral.kube.types import Obj
from corral.runtime.conditions import find_condition
from corral.runtime.pods.couriers import COURIER

__all__ = ["Outcome", "delivered", "job_of", "job_words", "last_words", "outcome_of"]

Outcome = Literal["running", "complete", "failed"]
_LONGEST: Final = 1000


def outcome_of(job: Obj) -> Outcome:
    """How a Job stands."""
    conditions = (job.get("status") or {}).get("conditions")
    if (find_condition(conditions, "Complete") or {}).get("status") == "True":
        return "complete"
    if (find_condition(conditions, "Failed") or {}).get("status") == "True":
        return "failed"
    return "running"


def job_of(pod: Obj) -> str:
    """The name of the Job that a pod is of; empty for others."""
    return str((pod["metadata"].get("labels") or {}).get("batch.kubernetes.io/job-name") or "")


def job_words(job: Obj) -> str:
    """Why a Job has failed."""
    failed = find_condition((job.get("status") or {}).get("conditions"), "Failed") or {}
    return str(failed.get("message") or "its Job has failed")


def last_words(pods: Iterable[Obj], container: str) -> str:
    """What a container of the newest pod said when it ended badly; empty where none did."""
    for pod in sorted(pods, key=_age, reverse=True):
        for state in _states(pod, "containerStatuses", container):
            ended = state.get("terminated") or {}
            if ended and ended.get("exitCode"):
                words = " ".join(str(ended.get("message") or "").split())
                return (words or f"it ended with {ended['exitCode']}")[:_LONGEST]
    return ""


def delivered(pods: Iterable[Obj]) -> dict[str, Any] | None:
    """What the courier of the newest pod that has one to show said."""
    for pod in sorted(pods, key=_age, reverse=True):
        for state in _states(pod, "initContainerStatuses", COURIER):
            text = (state.get("terminated") or {}).get("message") or ""
            try:
                said = orjson.loads(text)
            except orjson.JSONDecodeError:
                continue
            if isinstance(said, dict):
                return said
    return None


def _states(pod: Obj, kind: str, name: str) -> list[Obj]:
    """A container's states, the last one first."""
    found: Obj = next(
        (s for s in (pod.get("status") or {}).get(kind) or () if s.get("name") == name), {}
    )
    return [state for state in (found.get("state"), found.get("lastState")) if state]


def _age(pod: Obj) -> str:
    return str(pod["metadata"].get("creationTimestamp") or "")
