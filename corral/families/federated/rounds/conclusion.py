"""What a round leaves behind: its status, its envelope, its ModelCheckpoint. No I/O."""

from __future__ import annotations

from corral.api.propeller.kinds import MODELCHECKPOINTS
from corral.families.federated.aggregation import Made
from corral.families.federated.envelopes import Aggregated
from corral.families.federated.rounds.state import is_open
from corral.families.federated.view import JOB_LABEL, RoundView
from corral.kube.types import Obj
from corral.runtime.conditions import set_condition
from corral.runtime.keys import format_time
from corral.runtime.pods.states import moment

__all__ = [
    "CLEANED",
    "READY",
    "REGISTRY",
    "aggregated",
    "checkpoint",
    "checkpoint_name",
    "complete",
    "condition",
    "fail",
]

READY = "Ready"
REGISTRY = "RegistryReachable"
CLEANED = "CleanedUp"
"""The tasks that were left over are gone, and so are the updates in the registry."""
NOT_NEEDED = "cancelled: the round was over without it"


def condition(
    status: Obj, type: str, *, holds: bool, reason: str, message: str, now: float
) -> None:
    """Set a condition of a status that may be changed."""
    set_condition(
        status.setdefault("conditions", []),
        type,
        status="True" if holds else "False",
        reason=reason,
        message=message[:1024],
        now=format_time(now),
    )


def complete(view: RoundView, status: Obj, made: Made, now: float) -> None:
    """The round has a model."""
    for entry in status["participants"]:
        size = made.sizes.get(entry["propletId"])
        if entry.get("selected") and size:
            entry["bytes"] = size
    count = len(made.clients)
    status |= {
        "phase": "Completed",
        "endTime": format_time(now),
        "aggregatedModelRef": made.reference,
        "modelDigest": made.digest,
        "globalVersion": view.round_id,
        "format": made.format,
        "samples": made.samples,
        "bytes": sum(made.sizes.values()),
        "aggregationSeconds": round(made.seconds, 6),
    }
    if made.metrics:
        status["metrics"] = dict(made.metrics)
    if made.state_digest:
        status["stateDigest"] = made.state_digest
    status.pop("message", None)
    _close(view, status)
    said = f"Round completed and aggregated {count} updates"
    condition(status, READY, holds=True, reason="Completed", message=said, now=now)


def fail(view: RoundView, status: Obj, reason: str, message: str, *, now: float) -> None:
    """The round has none."""
    status |= {"phase": "Failed", "endTime": format_time(now), "message": message[:1024]}
    _close(view, status)
    condition(status, READY, holds=False, reason=reason, message=message, now=now)


def _close(view: RoundView, status: Obj) -> None:
    if view.parallel and status["phase"] == "Completed":
        return  # what is late counts in a later round
    for entry in status.get("participants") or ():
        if is_open(entry):
            entry |= {"status": "Failed", "message": NOT_NEEDED}


def duration(status: Obj) -> float:
    """Seconds from the start of a round to its end."""
    start, end = moment(status.get("startTime")), moment(status.get("endTime"))
    return max(end - start, 0.0) if start is not None and end is not None else 0.0


def aggregated(view: RoundView, made: Made) -> Aggregated:
    """The envelope for the participants of the next round."""
    facts = {
        "num_clients": len(made.clients),
        "total_samples": made.samples,
        "algorithm": made.algorithm,
        **made.metrics,
    }
    return Aggregated(
        job_id=view.experiment or view.job,
        round_number=view.number,
        global_version=view.round_id,
        samples=made.samples,
        format=made.format,
        metrics=facts,
        reference=made.reference,
        payload=made.payload,
    )


def checkpoint_name(job: str, number: int) -> str:
    return f"model-{job}-round-{number}"


def checkpoint(view: RoundView, made: Made) -> Obj:
    """The ModelCheckpoint of a round."""
    spec: Obj = {
        "federatedJobRef": {"name": view.job},
        "roundRef": {"name": view.name},
        "modelRef": made.reference,
        "algorithm": made.algorithm,
        "round": view.number,
        "digest": made.digest,
        "metadata": {
            "totalSamples": made.samples,
            "numParticipants": len(made.clients),
            "metrics": dict(made.metrics),
        },
    }
    if view.repository or view.secret:
        spec["registry"] = {"repository": view.repository}
        if view.secret:
            spec["registry"]["secretRef"] = {"name": view.secret}
    return {
        "apiVersion": MODELCHECKPOINTS.api_version,
        "kind": MODELCHECKPOINTS.kind,
        "metadata": {
            "name": checkpoint_name(view.job, view.number),
            "namespace": view.namespace,
            "labels": {JOB_LABEL: view.job},
        },
        "spec": spec,
    }
