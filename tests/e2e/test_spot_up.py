"""``corral up`` has machines for spot jobs out of the box, and leaves none behind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from corral.api.spot.kinds import INSTANCE_LABEL
from corral.clouds.local.records import Folder
from tests.cluster.objects import Objects, eventually
from tests.e2e.clusters import Up, corral, processes_of

API = "training.training.dcnlab.com/v1alpha1"
Obj = dict[str, Any]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Up]:
    options = ("--no-gateway", "--no-registry", "--no-broker", "--isolation", "plain")
    up = Up(tmp_path, *options)
    up.start()
    yield up
    up.stop()


def spot_job(script: str) -> Obj:
    container = {"name": "main", "image": "busybox", "command": ["sh", "-c", script]}
    pod = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 1,
        "containers": [container],
    }
    config = {"checkpointImageRepo": "registry.example.com/c", "checkpointInterval": "30m"}
    spec = {
        "replicas": 1,
        "jobTemplate": {"spec": {"template": {"spec": pod}}},
        "checkpointConfig": config,
        "spotInstanceVMRef": {"name": "here"},
    }
    return {
        "apiVersion": API,
        "kind": "SpotInstanceJob",
        "metadata": {"name": "train"},
        "spec": spec,
    }


def machines(cluster: Up) -> list[Path]:
    return list((cluster.data / "machines/vms").glob("[!.]*"))


@pytest.mark.parametrize("end", ["stop", "crash"])
def test_a_spot_job_has_its_machine_and_down_ends_it(cluster: Up, end: str) -> None:
    objects = Objects(cluster, "default")
    objects.create(
        "spotinstancevms",
        {
            "apiVersion": API,
            "kind": "SpotInstanceVM",
            "metadata": {"name": "here"},
            "spec": {"local": {}},
        },
    )
    objects.create("spotinstancejobs", spot_job("sleep 1000"))

    def running() -> str:
        reply = cluster.request("GET", "/api/v1/namespaces/default/pods").json()
        found = [pod for pod in reply["items"] if pod["status"].get("phase") == "Running"]
        return found[0]["spec"]["nodeName"] if found else ""

    node = eventually(running, seconds=60)
    labels = Objects(cluster).get("v1", "nodes", node)["metadata"]["labels"]
    assert labels[INSTANCE_LABEL] == node
    (machine,) = machines(cluster)
    process = Folder(machine).running()
    assert process is not None and process.process.alive
    if end == "crash":
        cluster.crash()
        assert process.process.alive, "machines survive whoever made them"
        corral("down", "--data-dir", str(cluster.data))
    else:
        cluster.stop()
    assert machines(cluster) == []
    assert not process.process.alive
    assert not process.agent.alive
    assert processes_of(cluster.data / "machines") == []
