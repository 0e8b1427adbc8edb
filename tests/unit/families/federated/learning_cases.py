"""Rounds, tasks and envelopes for cases without a cluster."""

from __future__ import annotations

import base64
import json
from typing import Any

from corral.families.federated.view import RoundView, round_view

Obj = dict[str, Any]
NOW = 1_760_000_000.0


def round_object(
    *participants: str, needed: int | None = None, number: int = 1, **spec: Any
) -> Obj:
    names = list(participants or ("a", "b", "c"))
    return {
        "apiVersion": "propeller.absmach.io/v1alpha1",
        "kind": "TrainingRound",
        "metadata": {"name": f"round-{number}-job", "namespace": "ns", "uid": f"round-{number}"},
        "spec": {
            "roundId": f"round-{number}",
            "federatedJobRef": {"name": "job"},
            "modelRef": "oci://registry.example.com/models/initial:v1",
            "taskWasmImage": "oci://registry.example.com/client:v1",
            "participants": names,
            "kOfN": len(names) if needed is None else needed,
            "timeoutSeconds": 60,
            **spec,
        },
    }


def view_of(*participants: str, **spec: Any) -> RoundView:
    return round_view(round_object(*participants, **spec), None)


def envelope(
    proplet: str, values: Any = (1.0, 2.0), *, samples: Any = 10, round_id: Any = 1, **more: Any
) -> Obj:
    payload = values if isinstance(values, bytes) else json.dumps(list(values)).encode()
    return {
        "job_id": "exp-001",
        "round_id": round_id,
        "proplet_id": proplet,
        "num_samples": samples,
        "update_b64": base64.b64encode(payload).decode(),
        "format": "json-f64",
        **more,
    }


def task(
    participant: str, phase: str = "", results: Any = None, *, number: int = 1, **status: Any
) -> Obj:
    name = f"round-{number}-job-{participant}"
    told: Obj = {"phase": phase, **status} if phase else {}
    if results is not None:
        told["results"] = results
    return {
        "apiVersion": "propeller.absmach.io/v1alpha1",
        "kind": "WasmTask",
        "metadata": {"name": name, "namespace": "ns", "uid": f"uid-{name}"},
        "spec": {},
        "status": told,
    }
