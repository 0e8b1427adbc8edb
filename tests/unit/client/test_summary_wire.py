"""A summary that came over the wire is the summary that was sent."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from corral.client.kinds import kind_of
from corral.client.summary import Summary, summarize
from corral.kube.types import Obj

NOW = datetime(2026, 1, 1, tzinfo=UTC)
JOB: Obj = {
    "apiVersion": "training.corral.dev/v1alpha1",
    "kind": "TrainingJob",
    "metadata": {"name": "digits", "namespace": "a", "uid": "u", "resourceVersion": "7",
                 "creationTimestamp": "2025-12-31T23:59:00Z"},
    "spec": {"replicas": 2},
    "status": {
        "phase": "Failed",
        "startTime": "2025-12-31T23:59:10Z",
        "completionTime": "2025-12-31T23:59:20Z",
        "conditions": [{"type": "Failed", "status": "True"}],
        "progress": {"step": 3, "metrics": {"loss": 0.5}},
        "failure": {"replica": 1, "pod": "digits-1", "exitCode": 3, "logTail": "oh\n"},
    },
}  # fmt: skip
POD: Obj = {
    "metadata": {"name": "digits-1", "labels": {"replica-id": "1", "trainingjob": "digits"}},
    "spec": {"nodeName": "one"},
    "status": {
        "phase": "Failed",
        "containerStatuses": [
            {"name": "main", "state": {"terminated": {"exitCode": 3, "reason": "Error"}}}
        ],
    },
}


def test_there_and_back() -> None:
    sent = summarize(kind_of("tj"), JOB, [POD], now=NOW)
    wire = json.loads(json.dumps(sent.as_object()))
    assert Summary.read(wire) == sent


def test_what_is_not_known_is_left_out() -> None:
    found = Summary.read({"name": "x", "later": 1, "pods": [{"name": "p", "later": 2}]})
    assert (found.name, found.pods[0].name, found.phase) == ("x", "p", "")
