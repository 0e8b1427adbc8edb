"""A FederatedJob of two rounds, as its controllers leave it."""

from __future__ import annotations

from typing import Any

from corral.kube.types import Obj

API = "propeller.absmach.io/v1alpha1"


def federated_job(name: str = "digits") -> Obj:
    return {
        "apiVersion": API,
        "kind": "FederatedJob",
        "metadata": {"name": name, "namespace": "a"},
        "spec": {
            "experimentId": "exp",
            "modelRef": "oci://registry/model:v1",
            "taskWasmImage": "oci://registry/client:v1",
            "participants": [{"propletId": "p-1"}, {"propletId": "p-2"}, {"propletId": "p-3"}],
            "kOfN": 2,
            "timeoutSeconds": 60,
            "rounds": {"total": 3},
            "aggregator": {"algorithm": "fedadam"},
            "template": {"env": {"LEVEL": "3"}, "cliArgs": ["--fast"]},
        },
    }


def job_status() -> Obj:
    return {
        "phase": "Running",
        "currentRound": 3,
        "completedRounds": 2,
        "aggregatedModelRef": "oci://registry/a/digits/models:round-2",
        "participants": [
            {"propletId": "p-1", "status": "Completed", "updates": 2,
             "lastUpdate": "2026-01-01T00:01:00Z"},
            {"propletId": "p-2", "status": "Completed", "updates": 2},
            {"propletId": "p-3", "status": "Failed", "rejected": 1},
        ],
        "rounds": [
            {"round": 1, "updates": 2, "samples": 30, "bytes": 80, "durationSeconds": 9,
             "metrics": {"loss": 1.5}, "epsilon": 0.5},
            {"round": 2, "updates": 2, "samples": 30, "bytes": 80, "durationSeconds": 9,
             "metrics": {"loss": 0.5}, "epsilon": 0.9},
        ],
    }  # fmt: skip


def part(name: str, **more: Any) -> Obj:
    return {"propletId": name, "status": "Completed", **more}


def training_round(number: int, job: str = "digits") -> Obj:
    return {
        "apiVersion": API,
        "kind": "TrainingRound",
        "metadata": {
            "name": f"round-{number}-{job}",
            "namespace": "a",
            "labels": {"federated-job": job},
        },
        "spec": {
            "roundId": f"round-{number}",
            "federatedJobRef": {"name": job},
            "modelRef": "oci://registry/model:v1",
            "taskWasmImage": "oci://registry/client:v1",
            "participants": ["p-1", "p-2", "p-3"],
            "kOfN": 2,
            "timeoutSeconds": 60,
        },
    }


def round_status() -> Obj:
    figures = {"loss": 0.25, "accuracy": 0.875}
    return {
        "phase": "Completed",
        "startTime": "2026-01-01T00:00:00Z",
        "endTime": "2026-01-01T00:00:12Z",
        "updatesReceived": 2,
        "updatesRequired": 2,
        "updatesRejected": 1,
        "samples": 30,
        "bytes": 80,
        "aggregationSeconds": 0.25,
        "metrics": {"loss": 0.5},
        "aggregatedModelRef": "oci://registry/a/digits/models:round-2",
        "participants": [
            part("p-1", updateReceived=True, samples=10, bytes=40, durationSeconds=1.5,
                 metrics=figures, receivedTime="2026-01-01T00:00:02Z"),
            part("p-2", updateReceived=True, samples=20, bytes=40, durationSeconds=2),
            part("p-3", status="Failed", rejected=True, message="it holds a NaN"),
        ],
    }  # fmt: skip
