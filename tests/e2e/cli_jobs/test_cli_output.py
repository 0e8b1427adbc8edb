"""What programs read: the same shape today and tomorrow, and no colours where nobody looks."""

from __future__ import annotations

import signal
import subprocess
from typing import Any

import pytest
import yaml

from tests.cluster.objects import Objects, eventually
from tests.e2e.cli_jobs.commands import Cli, training_job
from tests.e2e.clusters import CORRAL, Up

SUMMARY = {
    "kind", "namespace", "name", "uid", "resourceVersion", "phase", "message", "creationTime",
    "startTime", "completionTime", "durationSeconds", "suspended", "deleting", "replicas", "pods",
    "conditions", "progress", "events",
}  # fmt: skip
POD = {"name", "role", "index", "phase", "node", "ready", "restarts"}
EVENT = {"time", "age", "type", "reason", "object", "count", "message"}


def shape(value: Any) -> Any:
    """Names and types without values."""
    if isinstance(value, dict):
        return {key: shape(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    return type(value).__name__


@pytest.fixture
def done(cli: Cli) -> Cli:
    """With a job that is over."""
    cli.program()
    cli("run", "--name", "done", "--", "python", "train.py")
    # What was reported last may be written after the end.
    eventually(lambda: _percent(cli) == 100, seconds=60)
    return cli


def _percent(cli: Cli) -> int | None:
    status = cli("get", "tj/done", "-o", "json").json()["status"]
    percent: int | None = (status.get("progress") or {}).get("percent")
    return percent


def test_a_finished_job_as_json(done: Cli) -> None:
    one = done("get", "tj", "done", "-o", "json").json()
    assert (one["apiVersion"], one["kind"]) == ("training.corral.dev/v1alpha1", "TrainingJob")
    assert {"apiVersion", "kind", "metadata", "spec", "status"} == one.keys()
    several = done("get", "tj", "-o", "json").json()
    assert (several["apiVersion"], several["kind"]) == ("v1", "List")
    assert several["items"] == [one]
    assert done("get", "-o", "json").json()["items"] == [one]
    assert yaml.safe_load(done("get", "tj/done", "-o", "yaml").out) == one
    assert done("get", "-o", "name").out == "trainingjob/done\n"

    described = done("describe", "done", "-o", "json").json()
    assert described.keys() >= SUMMARY
    assert described["pods"][0].keys() >= POD
    assert described["events"][0].keys() == EVENT
    assert shape(described["progress"]) == {
        "step": "int",
        "totalSteps": "int",
        "percent": "int",
        "etaSeconds": "int",
        "metrics": {"loss": "float"},
        "updatedAt": "str",
    }
    assert described["replicas"] == [
        {
            "role": "replica",
            "desired": 1,
            "pending": 0,
            "running": 0,
            "ready": 0,
            "succeeded": 1,
            "failed": 0,
            "restarts": 0,
        }
    ]
    happened = done("events", "done", "-o", "json").json()
    assert {row["reason"] for row in happened} >= {"Scheduled", "Succeeded"}
    told = done("explain", "done", "-o", "json").json()
    assert shape(told) | {"reasons": [], "hints": []} == {
        "kind": "str",
        "namespace": "str",
        "name": "str",
        "headline": "str",
        "reasons": [],
        "hints": [],
    }
    line = done("logs", "done", "-o", "json").out.splitlines()[-1]
    assert line == (
        '{"pod": "done-0", "role": "replica", "index": 0, "container": "trainer", "line": "step 4"}'
    )
    waited = done("wait", "done", "-o", "json").json()
    assert waited["status"]["phase"] == "Succeeded"
    assert done("top", "-o", "json").json() == []


def test_plain_where_nobody_looks(done: Cli) -> None:
    for words in (("get",), ("describe", "done"), ("logs", "done"), ("explain", "done")):
        assert "\x1b" not in done(*words).out
    head, row = done("get").out.splitlines()
    assert head.split() == [
        "NAME", "KIND", "PHASE", "REPLICAS", "PROGRESS", "DURATION", "AGE",
    ]  # fmt: skip
    assert row.split()[:5] == ["done", "trainingjob", "Succeeded", "0/1", "100%"]
    said = done("get", "tj", "--phase", "failed")
    assert said.err == f"no trainingjobs in namespace {done.namespace}\n"


def test_changes_come_as_lines(up: Up, cli: Cli, objects: Objects) -> None:
    argv = [*CORRAL, "get", "tj", "-w", "-n", cli.namespace, "--kubeconfig", str(up.kubeconfig)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as seen:
        assert seen.stdout is not None
        assert seen.stderr is not None
        objects.create("trainingjobs", training_job("new", ["true"], runPolicy={"suspend": True}))
        assert seen.stdout.readline().startswith("trainingjob/new")
        objects.delete("training.corral.dev/v1alpha1", "trainingjobs", "new")
        assert any("Deleted" in line for line in iter(seen.stdout.readline, ""))
        seen.send_signal(signal.SIGINT)
        assert seen.wait(60) == 130
        assert seen.stderr.read() == ""


def test_nothing_there(cli: Cli) -> None:
    assert cli("get", "mpijobs", "-o", "json").json() == {
        "apiVersion": "v1",
        "kind": "List",
        "items": [],
    }
    said = cli("get")
    assert (said.out, said.err) == ("", f"no jobs in namespace {cli.namespace}\n")


def test_a_run_prints_the_object_for_programs(cli: Cli) -> None:
    cli.program()
    made = cli("run", "-o", "json", "-d", "--name", "made", "--", "python", "train.py").json()
    assert made["metadata"]["name"] == "made"
    dry = cli("run", "--dry-run", "--name", "dry", "--kind", "mpijob", "-r", "3", "--",
              "python", "train.py")  # fmt: skip
    planned = yaml.safe_load(dry.out)
    launcher = planned["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"][0]
    assert launcher["command"] == ["mpirun", "-n", "3", "python", "train.py"]
    assert cli("get", "mpijobs").out == ""
