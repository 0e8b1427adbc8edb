"""Our controllers killed again and again amid their work: nothing is lost, nothing made twice."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.backends import Backend, EmbeddedBackend
from tests.cluster.apps.builders import Apps, deployment, image, names, workload
from tests.cluster.apps.player import Player, node_body, node_status
from tests.cluster.objects import Objects, eventually

KILLS = 8


class Process:
    """The controllers in a process that is killed and started."""

    def __init__(self, backend: Backend) -> None:
        self._command = [
            sys.executable, "-m", "corral.cli.main", "workloads",
            "--kubeconfig", str(backend.kubeconfig),
            "--controllers", "deployment,replicaset,statefulset",
        ]  # fmt: skip
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        assert "is ready" in self._process.stdout.readline()

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


@pytest.fixture
def own(tmp_path: Path, backend: Backend) -> Iterator[Backend]:
    """A server of its own, whose controllers are those of the case alone."""
    if backend.name != "embedded":
        pytest.skip("about our controllers")
    server = EmbeddedBackend(tmp_path / "server", controllers=False)
    server.start()
    yield server
    server.stop()


@pytest.fixture
def alone(own: Backend) -> Iterator[Apps]:
    cluster = Objects(own)
    cluster.create(
        "namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "case"}}
    )
    cluster.create("nodes", node_body("n", {}))
    cluster.patch("v1", "nodes", "n", {"spec": {"taints": []}})
    cluster.patch(
        "v1", "nodes", "n", {"status": node_status("2026-01-01T00:00:00Z")}, subresource="status"
    )
    inside = Objects(own, "case")
    eventually(lambda: inside.find("v1", "serviceaccounts", "default"))
    player = Player(str(own.kubeconfig), "case", "n")
    player.start()
    yield Apps(inside, player)
    player.stop()


def test_killed_amid_rollouts(alone: Apps, own: Backend) -> None:
    rng = random.Random(7)
    process = Process(own)
    process.start()
    stateful = {"serviceName": "db", "podManagementPolicy": "Parallel"}
    alone.create(deployment(replicas=20))
    alone.create(workload("StatefulSet", "db", replicas=10, **stateful))
    for turn in range(KILLS):
        alone.patch("deployments", "web", image(str(turn + 2)))
        alone.patch("statefulsets", "db", image(str(turn + 2)))
        time.sleep(rng.uniform(0.0, 0.4))  # a random moment is the point of the case
        process.kill()
        process.start()
    alone.complete("web", 20, seconds=60)
    alone.until(
        "statefulsets",
        "db",
        lambda s: (
            s["status"].get("updatedReplicas") == s["status"].get("readyReplicas") == 10
            and s["status"]["observedGeneration"] == s["metadata"]["generation"]
        ),
        seconds=60,
    )
    eventually(lambda: len(alone.pods()) == 30)
    versions = {pod["spec"]["containers"][0]["image"] for pod in alone.pods()}
    assert versions == {f"example.test/app:{KILLS + 1}"}
    assert [one for one in alone.sizes() if one] == [20]
    assert names(alone.pods())[:10] == [f"db-{n}" for n in range(10)]
    process.kill()
