"""What a deployment has come to, by everything that is known of it. No I/O."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Final

from corral.api.kafkaml.kinds import FederatedDeployment
from corral.families.kafkaml.pods import Outcome
from corral.kube.types import Obj

__all__ = [
    "Known",
    "Verdict",
    "derived_id",
    "federated_id",
    "judge",
    "results_of",
    "updated_clients",
]

_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"
_PHASES: Final[Mapping[Outcome, str]] = {
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


def results_of(deployment: FederatedDeployment, status: Obj, models: Sequence[str]) -> list[Obj]:
    """One result for every model, with what has been written to it."""
    known = {result["model"]: result for result in status.get("results") or ()}
    out = []
    for number, model in enumerate(models, start=1):
        result = deepcopy(known.get(model)) or {
            "id": number,
            "model": model,
            "federatedStringId": federated_id(deployment, model, number),
            "status": "created",
        }
        out.append(result)
    return out


@dataclass(frozen=True, slots=True)
class Known:
    """One Job, as far as it is known."""

    outcome: Outcome
    words: str = ""
    """Why it failed."""


def updated_clients(clients: Sequence[Obj], jobs: Mapping[str, Known]) -> list[Obj]:
    """Clients with the phases of their Jobs; a Job that is gone changes nothing."""
    out = []
    for client in clients:
        client = dict(client)
        known = jobs.get(client.get("job") or "")
        if known is not None:
            client["phase"] = _PHASES[known.outcome]
            if known.outcome == "failed" and known.words:
                client["message"] = known.words
        out.append(client)
    return out


@dataclass(frozen=True, slots=True)
class Verdict:
    """The phase of a deployment, and why."""

    phase: str
    reason: str
    message: str
    ready: str = "Unknown"


def judge(results: Sequence[Mapping[str, Any]], clients: Sequence[Obj], wanted: int) -> Verdict:
    """The phase; ``wanted`` are the clients that must be there to begin."""
    stopped = [result for result in results if result.get("status") == "stopped"]
    if stopped:
        said = stopped[0].get("message") or "its server has ended"
        why = f"model {stopped[0]['model']}: {said}"
        return Verdict("Failed", "RoundFailed", why, "False")
    if results and all(r.get("status") == "finished" and r.get("modelRef") for r in results):
        return Verdict("Completed", "Completed", "All rounds completed", "True")
    for result in results:
        mine = [c for c in clients if c.get("result", result["id"]) == result["id"]]
        if len(mine) < wanted:
            why = f"{len(mine)} of {wanted} datasources that fit model {result['model']} are there"
            return Verdict("Pending", "WaitingForData", why)
    return Verdict("Running", "Running", "clients are training", "True")
