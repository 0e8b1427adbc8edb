"""A program that knows nothing of us: its directory is saved, and its machines are taken."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from corral.oci import OWN
from tests.backends import Backend
from tests.cluster.objects import Objects, eventually
from tests.cluster.spot_faults.spot_cloud import Cloud
from tests.cluster.spot_faults.spot_stage import API, Operator
from tests.registries import RunningRegistry

Obj = dict[str, Any]
MIGRATION = "migration.dcnlab.com/v1alpha1"
PROGRAM = """
import os, pathlib, time
state, journal = (pathlib.Path(os.environ[name]) for name in ("CORRAL_DIRECTORY", "JOURNAL"))
step = state / "step"
n = int(step.read_text()) if step.exists() else 0
with open(journal / "starts", "a") as out:
    print(n, file=out, flush=True)
while not (journal / "end").exists():
    n += 1
    (state / ".step").write_text(str(n))
    (state / ".step").rename(step)
    time.sleep(0.02)
"""


@pytest.fixture
def operator(backend: Backend, registry: RunningRegistry, tmp_path: Path) -> Iterator[Operator]:
    """The whole operator, with machines of this computer and a registry."""
    backend.allow()
    folder = tmp_path / "operator"
    folder.mkdir()
    made = Operator(backend, folder, options=("--registry-map", f"{OWN}={registry.url}"))
    try:
        made.start()
        yield made
    finally:
        made.stop()
        made.end_machines()


def job(objects: Objects, journal: Path) -> Obj:
    container = {
        "name": "trainer",
        "image": "python:3.12",
        "command": ["python", "-c", PROGRAM],
        "env": [{"name": "JOURNAL", "value": "/journal"}],
        "volumeMounts": [{"name": "journal", "mountPath": "/journal"}],
    }
    volume = {"name": "journal", "hostPath": {"path": str(journal)}}
    pod = {"containers": [container], "volumes": [volume], "terminationGracePeriodSeconds": 2}
    return {
        "apiVersion": API,
        "kind": "SpotInstanceJob",
        "metadata": {"name": "counts"},
        "spec": {
            "replicas": 1,
            "jobTemplate": {"spec": {"template": {"spec": pod}}},
            "checkpointConfig": {
                "checkpointImageRepo": f"{OWN}/{objects.namespace}/counts",
                "checkpointInterval": "1s",
                "engine": "Directory",
                "directory": "/state",
            },
            "spotInstanceVMRef": {"name": "here"},
        },
    }


def starts(journal: Path) -> list[int]:
    """The step that each start began with."""
    file = journal / "starts"
    return [int(line) for line in file.read_text().split()] if file.exists() else []


def images(objects: Objects) -> list[Obj]:
    """What the good backups hold, newest first."""
    found = []
    for name in objects.names(MIGRATION, "checkpointbackups"):
        backup = objects.find(MIGRATION, "checkpointbackups", name) or {}
        status = backup.get("status") or {}
        if status.get("phase") == "Completed":
            found.append(status)
    return sorted(found, key=lambda status: str(status["startTime"]), reverse=True)


def damage(registry: RunningRegistry, status: Obj) -> None:
    """Make the layer of an image something else than its digest says."""
    repository = status["checkpointImage"].partition("/")[2].partition(":")[0]
    digest = status["builtImages"][0]["digest"]
    with urlopen(f"{registry.url}/v2/{repository}/manifests/{digest}") as answer:
        (layer,) = json.loads(answer.read())["layers"]
    (file,) = registry.folder.rglob(f"{layer['digest'].removeprefix('sha256:')}*")
    file.chmod(0o644)
    file.write_bytes(file.read_bytes()[:-1] + b"!")


def test_it_goes_on_from_the_newest_image_that_is_intact(
    objects: Objects, operator: Operator, registry: RunningRegistry, tmp_path: Path
) -> None:
    journal, cloud = tmp_path / "journal", Cloud(operator.machines)
    journal.mkdir()
    journal.chmod(0o777)
    zones = {"zone": "local-a", "zones": ["local-b", "local-c"]}
    machines = {"apiVersion": API, "kind": "SpotInstanceVM", "metadata": {"name": "here"}}
    objects.create("spotinstancevms", {**machines, "spec": {"local": zones}})
    objects.create("spotinstancejobs", job(objects, journal))
    eventually(lambda: len(images(objects)) >= 2, seconds=60)
    lost = cloud.machine("counts", 0)
    assert lost is not None
    cloud.kill(lost)
    eventually(lambda: len(starts(journal)) == 2, seconds=60)
    assert starts(journal)[1] > 0
    seen = {status["checkpointImage"] for status in images(objects)}
    eventually(
        lambda: len([s for s in images(objects) if s["checkpointImage"] not in seen]) >= 2,
        seconds=60,
    )
    lost = cloud.machine("counts", 0)
    assert lost is not None
    cloud.kill(lost)
    newest = images(objects)[0]
    damage(registry, newest)
    eventually(lambda: len(starts(journal)) == 3, seconds=60)
    assert starts(journal)[2] > starts(journal)[1]
    (journal / "end").touch()

    def succeeded() -> bool:
        found = objects.get(API, "spotinstancejobs", "counts")
        return bool((found.get("status") or {}).get("phase") == "Succeeded")

    eventually(succeeded, seconds=60)
    objects.delete(API, "spotinstancejobs", "counts")
    objects.delete(API, "spotinstancevms", "here")
    eventually(lambda: not cloud.machines("counts", alive=False), seconds=60)
    eventually(lambda: not objects.names(MIGRATION, "checkpointbackups"), seconds=60)
