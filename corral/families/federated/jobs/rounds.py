"""The rounds of a FederatedJob. No I/O.

A round gets all that it needs from its job when it is made, and the model of the round before it
with its envelope.
"""

from __future__ import annotations

from typing import Final

import orjson

from corral.api.propeller.kinds import AGGREGATED_ANNOTATION, TRAININGROUNDS
from corral.api.propeller.rules import round_name
from corral.families.federated.view import JOB_LABEL, status_of
from corral.kube.types import Obj

__all__ = ["round_of", "total_of"]

_COPIED: Final = ("hyperparams", "aggregator", "template", "registry")
_POLICY: Final = ("onTimeout", "minUpdates", "maxExtensions", "strategy")


def total_of(job: Obj) -> int:
    """How many rounds a job has."""
    return max(int((job["spec"].get("rounds") or {}).get("total") or 0), 1)


def round_of(job: Obj, number: int, *, before: Obj | None) -> Obj:
    """The round of this number; ``before`` is the one before it, where it is still there."""
    spec, metadata = job["spec"], job["metadata"]
    model = status_of(before or {}).get("aggregatedModelRef")
    if number > 1 and not model:
        model = status_of(job).get("aggregatedModelRef")
    wanted: Obj = {
        "roundId": f"round-{number}",
        "federatedJobRef": {"name": metadata["name"]},
        "modelRef": model or spec["modelRef"],
        "taskWasmImage": spec["taskWasmImage"],
        "participants": [each["propletId"] for each in spec["participants"]],
        "kOfN": spec["kOfN"],
        "timeoutSeconds": spec["timeoutSeconds"],
    }
    wanted |= {key: spec[key] for key in _COPIED if spec.get(key) is not None}
    rounds = spec.get("rounds") or {}
    wanted |= {key: rounds[key] for key in _POLICY if rounds.get(key)}
    templates = {
        each["propletId"]: each["template"] for each in spec["participants"] if each.get("template")
    }
    if templates:
        wanted["participantTemplates"] = templates
    made: Obj = {
        "apiVersion": TRAININGROUNDS.api_version,
        "kind": TRAININGROUNDS.kind,
        "metadata": {
            "name": round_name(metadata["name"], number),
            "namespace": metadata["namespace"],
            "labels": {JOB_LABEL: metadata["name"]},
        },
        "spec": wanted,
    }
    envelope = _envelope(number, before, model)
    if envelope:
        made["metadata"]["annotations"] = {AGGREGATED_ANNOTATION: envelope}
    return made


def _envelope(number: int, before: Obj | None, model: str | None) -> str:
    """The global model for the participants: as the round before left it, or just its name."""
    if number < 2:
        return ""
    notes = (before or {}).get("metadata", {}).get("annotations") or {}
    text = str(notes.get(AGGREGATED_ANNOTATION) or "")
    if text or not model:
        return text
    found = {"global_version": f"round-{number - 1}", "update_ref": model}
    return orjson.dumps(found).decode()
