"""examples/federated on ``corral up``, as its README says."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.cluster.federated_clients.modules import EXAMPLES, client_module
from tests.cluster.objects import Objects, eventually
from tests.e2e.clusters import Up

API = "propeller.absmach.io/v1alpha1"


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Up]:
    cluster = Up(tmp_path / "c", "--nodes", "2")
    cluster.start()
    yield cluster
    cluster.stop()


def run(script: str, *words: str) -> str:
    command = [sys.executable, str(EXAMPLES / script), *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_example(up: Up, tmp_path: Path) -> None:
    """Two rounds instead of ten."""
    module = client_module()
    run("digits.py", str(tmp_path / "digits"), "proplet-1=0.7", "proplet-2=0.3")
    job = yaml.safe_load((EXAMPLES / "job.yaml").read_text())
    image = job["spec"]["taskWasmImage"]
    pushed = run("push.py", str(module), image, "--data-dir", str(up.data))
    assert pushed.startswith(f"{image}@sha256:")
    cluster, objects = Objects(up), Objects(up, "default")
    nodes = eventually(lambda: sorted(cluster.names("v1", "nodes")))
    assert len(nodes) == 2
    for number, node in enumerate(nodes, 1):
        labels = {"proplet-id": f"proplet-{number}"}
        cluster.patch("v1", "nodes", node, {"metadata": {"labels": labels}})
    job["spec"]["rounds"]["total"] = 2
    job["spec"]["template"]["volumes"][0]["hostPath"]["path"] = str(tmp_path / "digits")
    objects.create("federatedjobs", job)

    def over() -> bool:
        status = objects.get(API, "federatedjobs", "digits").get("status") or {}
        assert status.get("phase") != "Failed", json.dumps(status)
        return bool(status.get("phase") == "Completed")

    eventually(over, seconds=120)
    status = objects.get(API, "federatedjobs", "digits")["status"]
    assert [r["updates"] for r in status["rounds"]] == [2, 2]
    assert status["rounds"][-1]["metrics"]["accuracy"] > 0.95
    assert status["aggregatedModelRef"].startswith(
        "oci://registry.corral.local/default/digits/models:round-2@sha256:"
    )
