"""Jobs and events as rows, and a description for people."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from corral.cli.references import Found
from corral.cli.views.description import described, description_lines
from corral.cli.views.rows import event_row, job_row, short, worker_summary
from corral.client.kinds import kind_of
from corral.client.summary import summarize
from corral.kube.types import Obj

NOW = datetime(2026, 1, 1, 1, tzinfo=UTC)


def mpijob(**status: Any) -> Obj:
    pod = {"spec": {"containers": [{"name": "mpi", "image": "x"}]}}
    return {
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "metadata": {
            "name": "pi",
            "namespace": "a",
            "uid": "u",
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": {
            "mpiReplicaSpecs": {
                "Launcher": {"template": pod},
                "Worker": {"replicas": 4, "template": pod},
            }
        },
        "status": status,
    }


RUNNING = mpijob(
    startTime="2026-01-01T00:30:00Z",
    conditions=[{"type": "Running", "status": "True", "message": "runs"}],
    replicaStatuses={"Worker": {"active": 3, "failed": 1}},
)
EVENT: Obj = {
    "metadata": {"name": "pi.1"},
    "type": "Warning",
    "reason": "BackOff",
    "message": "again\nand again",
    "count": 3,
    "lastTimestamp": "2026-01-01T00:59:00Z",
    "involvedObject": {"kind": "Pod", "name": "pi-worker-0"},
}


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, ""), (0, "0s"), (59, "59s"), (200, "3m20s"), (3600, "1h"), (18_120, "5h2m"),
     (172_800, "2d"), (176_400, "2d1h"), (-5, "0s")],
)  # fmt: skip
def test_spans_of_time(seconds: float | None, text: str) -> None:
    assert short(seconds) == text


def test_a_job_as_a_row() -> None:
    row = job_row(kind_of("mpijob"), RUNNING, NOW)
    assert row == {
        "name": "pi",
        "namespace": "a",
        "kind": "mpijob",
        "phase": "Running",
        "replicas": "3/4",
        "progress": "",
        "duration": "30m",
        "age": "1h",
        "message": "",
    }
    assert worker_summary(kind_of("mpijob"), RUNNING) == "3/4 workers active, 1 failed"
    assert worker_summary(kind_of("tj"), RUNNING) == ""


def test_an_event_as_a_row() -> None:
    assert event_row(EVENT, NOW) == {
        "time": "2026-01-01T00:59:00Z",
        "age": "1m",
        "type": "Warning",
        "reason": "BackOff",
        "object": "pod/pi-worker-0",
        "count": 3,
        "message": "again and again",
    }


def test_a_description() -> None:
    kind = kind_of("mpijob")
    found = Found(kind, "pi", RUNNING)
    summary = summarize(kind, RUNNING, (), now=NOW)
    text = "\n".join(description_lines(found, summary, [EVENT], NOW))
    for line in (
        "Name:       mpijob/pi",
        "Phase:      Running",
        "Duration:   30m",
        "Workers:    3/4 workers active, 1 failed",
    ):
        assert line in text.splitlines()
    assert text.splitlines()[-1].split()[:3] == ["1m", "Warning", "BackOff"]
    known = described(found, summary, [EVENT], NOW)
    assert known["workers"] == "3/4 workers active, 1 failed"
    assert known["events"] == [event_row(EVENT, NOW)]


def test_a_job_that_is_not_even_valid_is_described_all_the_same() -> None:
    odd: Obj = {"metadata": {"name": "odd"}, "spec": {"mpiReplicaSpecs": 3}}
    kind = kind_of("mpijob")
    assert worker_summary(kind, odd) == ""
