"""What a deployment has come to, by everything that is known of it. No I/O."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from corral.api.kafkaml.kinds import FederatedDeployment
from corral.api.kafkaml.status import ClientStatus, FederatedDeploymentStatus, ResultStatus
from corral.families.kafkaml.family import Ready
from corral.families.kafkaml.pods import Outcome

__all__ = [
    "JobEnd",
    "Verdict",
    "derived_id",
    "federated_id",
    "has_ended",
    "judge",
    "results_of",
    "updated_clients",
]

Phase = Literal["Pending", "Running", "Suspended", "Completed", "Failed"]
_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"
_PHASES: Final[Mapping[Outcome, Literal["Running", "Completed", "Failed"]]] = {
    "running": "Running",
    "complete": "Completed",
    "failed": "Failed",
}


def federated_id(deployment: FederatedDeployment, model: str, number: int) -> str:
    """Eight characters that no other deployment has, or what the spec says."""
    said = deployment.spec.federated_string_id
    if said:
        return said if number == 1 else f"{said}-{number}"
    return derived_id(deployment, model)


def derived_id(deployment: FederatedDeployment, model: str) -> str:
    """Eight characters that follow from the object itself."""
    seed = f"{deployment.metadata.get('uid')} {model}".encode()
    value = int.from_bytes(hashlib.sha256(seed).digest()[:8], "big")
    out = ""
    for _ in range(8):
        value, digit = divmod(value, 36)
        out += _DIGITS[digit]
    return out


def results_of(
    deployment: FederatedDeployment, status: FederatedDeploymentStatus, models: Sequence[str]
) -> list[ResultStatus]:
    """One result for every model, with what has been written to it; copies."""
    known = {result.model: result for result in status.results or ()}
    out = []
    for number, model in enumerate(models, start=1):
        result = known.get(model)
        if result is None:
            result = ResultStatus(
                id=number,
                model=model,
                federated_string_id=federated_id(deployment, model, number),
                status="created",
            )
        out.append(result.model_copy())
    return out


def has_ended(result: ResultStatus) -> bool:
    """Whether its server makes no more rounds."""
    return result.status in ("finished", "stopped")


@dataclass(frozen=True, slots=True)
class JobEnd:
    """How a Job stands."""

    outcome: Outcome
    words: str = ""
    """Why it failed."""


def updated_clients(
    clients: Sequence[ClientStatus], jobs: Mapping[str, JobEnd]
) -> list[ClientStatus]:
    """Clients with the phases of their Jobs; a Job that is gone changes nothing."""
    out = []
    for client in clients:
        job = jobs.get(client.job or "")
        if job is not None:
            said: dict[str, str] = {"phase": _PHASES[job.outcome]}
            if job.outcome == "failed" and job.words:
                said["message"] = job.words
            client = client.model_copy(update=said)
        out.append(client)
    return out


@dataclass(frozen=True, slots=True)
class Verdict:
    """The phase of a deployment, and why."""

    phase: Phase
    reason: str
    message: str
    ready: Ready = "Unknown"


def judge(results: Sequence[ResultStatus], clients: Sequence[ClientStatus], wanted: int) -> Verdict:
    """The phase; ``wanted`` are the clients that must be there to begin."""
    stopped = next((result for result in results if result.status == "stopped"), None)
    if stopped is not None:
        why = f"model {stopped.model}: {stopped.message or 'its server has ended'}"
        return Verdict("Failed", "RoundFailed", why, "False")
    if results and all(r.status == "finished" and r.model_ref for r in results):
        return Verdict("Completed", "Completed", "All rounds completed", "True")
    for result in results:
        mine = [client for client in clients if client.result in (None, result.id)]
        if len(mine) < wanted:
            why = f"{len(mine)} of {wanted} datasources that fit model {result.model} are there"
            return Verdict("Pending", "WaitingForData", why)
    return Verdict("Running", "Running", "clients are training", "True")
