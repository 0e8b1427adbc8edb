"""The spot kinds on an API server: definitions, examples, defaults, refusals, ``corral spot``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from corral.api.spot.kinds import KINDS, CheckpointBackup, SpotInstanceJob, SpotInstanceVM
from corral.cli.main import app
from tests.backends import Backend
from tests.cluster.objects import Obj, Objects, eventually

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
EXAMPLES = Path(__file__).parents[2] / "examples" / "spot"
API = SpotInstanceJob.resource().api_version
PLURALS = {kind.names.kind: kind.names.plural for kind in KINDS}


@pytest.fixture
def kinds(backend: Backend) -> None:
    """The three definitions, served; they stay, as one that is on its way out serves nobody."""
    for kind in KINDS:
        reply = backend.request("POST", CRDS, kind.crd())
        assert reply.code in (201, 409), reply.body
    for kind in KINDS:
        path = f"/apis/{kind.resource().api_version}/{kind.names.plural}"
        eventually(lambda path=path: backend.request("GET", path).code == 200)


def examples() -> list[Obj]:
    found = [yaml.safe_load_all(path.read_text()) for path in sorted(EXAMPLES.glob("*.yaml"))]
    return [obj for part in found for obj in part]


def corral(backend: Backend, namespace: str, *argv: str) -> Any:
    where = ("--kubeconfig", str(backend.kubeconfig), "-n", namespace, "-o", "json")
    result = CliRunner().invoke(app, ["spot", *argv, *where])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.mark.usefixtures("kinds")
def test_examples_are_kept_as_they_are_with_their_defaults(objects: Objects) -> None:
    made = [objects.create(PLURALS[obj["kind"]], obj) for obj in examples()]
    for sent, kept in zip(examples(), made, strict=True):
        for key, value in sent["spec"].items():
            if not isinstance(value, dict):
                assert kept["spec"][key] == value
    job = next(obj for obj in made if obj["metadata"]["name"] == "digits")
    template = next(o for o in examples() if o["metadata"]["name"] == "digits")["spec"]
    assert job["spec"]["jobTemplate"] == template["jobTemplate"]
    assert job["spec"]["placement"]["onDemand"] == "Deadline"
    vm = next(obj for obj in made if obj["metadata"]["name"] == "here")
    assert vm["spec"]["local"]["machineType"] == "local"


@pytest.mark.usefixtures("kinds")
@pytest.mark.parametrize(
    ("kind", "spec", "said"),
    [
        (SpotInstanceJob, {"replicas": 0}, "spec.replicas"),
        (SpotInstanceJob, {}, "spec.jobTemplate"),
        (SpotInstanceVM, {"vmImage": "i", "gcp": {"zone": "a"}}, "spec.gcp.project"),
        (CheckpointBackup, {"podRef": {}}, "spec.podRef.name"),
    ],
    ids=["replicas", "template", "project", "pod"],
)
def test_what_the_definition_forbids_is_refused(
    backend: Backend, objects: Objects, kind: Any, spec: Obj, said: str
) -> None:
    api = kind.resource().api_version
    wrong = {"apiVersion": api, "kind": kind.names.kind, "metadata": {"name": "x"}, "spec": spec}
    reply = backend.request("POST", objects.path(api, kind.names.plural), wrong)
    assert reply.code == 422
    assert said in reply.json()["message"]


@pytest.mark.usefixtures("kinds")
def test_jobs_can_be_scaled_and_machines_are_listed(
    backend: Backend, objects: Objects, namespace: str
) -> None:
    sent = {obj["metadata"]["name"]: obj for obj in examples()}
    objects.create("spotinstancejobs", sent["digits"])
    objects.create("spotinstancevms", sent["here"])
    objects.patch(API, "spotinstancejobs", "digits", {"spec": {"replicas": 3}}, subresource="scale")
    assert objects.get(API, "spotinstancejobs", "digits")["spec"]["replicas"] == 3
    place = {"cloud": "local", "region": "local", "zone": "local-a", "machineType": "local"}
    objects.patch(
        API,
        "spotinstancevms",
        "here",
        {
            "status": {
                "provisionedInstances": [
                    {**place, "name": "m-0", "state": "RUNNING", "pricePerHour": 0.5}
                ]
            }
        },
        subresource="status",
    )
    times = {"startTime": "2026-01-01T00:00:00Z", "endTime": "2026-01-01T02:00:00Z"}
    used = {**place, **times, "instance": "m-0", "replica": 0, "endReason": "Lost", "cost": 1.0}
    objects.patch(
        API,
        "spotinstancejobs",
        "digits",
        {"status": {"placements": [used], "cost": {"total": 1.0}}},
        subresource="status",
    )
    (machine,) = corral(backend, namespace, "instances")
    assert (machine["name"], machine["place"]) == ("m-0", "local/local/local-a/local")
    (placed,) = corral(backend, namespace, "history", "digits")
    assert (placed["up"], placed["end"], placed["cost"]) == ("2h", "Lost", 1.0)
    (rate,) = corral(backend, namespace, "history", "--rates")
    assert (rate["hours"], rate["losses"], rate["rate"]) == (2.0, 1, 0.5)
