"""Servers take our definitions, and judge objects by them as the models do."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from typing import Any, ClassVar

import pytest

from corral.api import all_kinds
from corral.api.kind import Kind, Names
from corral.api.training.kinds import TrainingJob
from tests.backends import Backend
from tests.cluster.objects import Objects, eventually
from tests.cluster.webhooks_runtime.training_cases import BAD, CHANGES, FULL, GOOD

Obj = dict[str, Any]


@pytest.fixture(scope="module")
def served(backend: Backend) -> Iterator[str]:
    """TrainingJobs in a group of their own; the apiVersion."""
    group = f"d{uuid.uuid4().hex[:8]}.test.dev"
    cluster = Objects(backend)
    cluster.create("customresourcedefinitions", definition(TrainingJob, group))
    path = f"/apis/{group}/v1alpha1/trainingjobs"
    eventually(lambda: backend.request("GET", path).code == 200)
    yield f"{group}/v1alpha1"
    name = f"trainingjobs.{group}"
    cluster.delete("apiextensions.k8s.io/v1", "customresourcedefinitions", name)


def definition(kind: type[Kind], group: str) -> Obj:
    class Here(kind):  # type: ignore[misc,valid-type]
        names: ClassVar[Names] = replace(kind.names, group=group, short=())

    crd: Obj = Here.crd()
    return crd


def send(objects: Objects, served: str, obj: Obj, method: str = "POST", query: str = "") -> Any:
    obj = {
        **obj,
        "apiVersion": served,
        "metadata": {**obj["metadata"], "namespace": objects.namespace},
    }
    name = obj["metadata"]["name"] if method == "PUT" else ""
    path = objects.path(served, "trainingjobs", name)
    return objects.backend.request(method, path + query, obj)


DRY = "?dryRun=All"


def test_good_objects_get_the_same_defaults(objects: Objects, served: str) -> None:
    for name, obj in GOOD.items():
        reply = send(objects, served, obj, query=DRY)
        assert reply.code == 201, (name, reply.body)
        ours = deepcopy(obj)
        TrainingJob.default(ours)
        expected = {k: v for k, v in ours["spec"].items() if k != "mistyped"}
        expected["runPolicy"].pop("mistyped", None)
        assert reply.json()["spec"] == expected, name


def test_mistakes_are_those_that_the_models_see(objects: Objects, served: str) -> None:
    for name, (obj, _) in BAD.items():
        reply = send(objects, served, obj, query=DRY)
        assert reply.code == 422, (name, reply.body)
        causes = reply.json()["details"]["causes"]
        # The scale subresource and number formats repeat a mistake under no field's own path.
        theirs = {(c["field"], c["reason"]) for c in causes if c["field"].startswith("spec")}
        ours = {(p.field, p.type) for p in TrainingJob.validate(obj)}
        assert theirs == ours, (name, causes)


def test_what_never_changes(objects: Objects, served: str) -> None:
    for name, (old, new, fields) in CHANGES.items():
        path = objects.path(served, "trainingjobs", "mnist")
        assert send(objects, served, old).code == 201
        version = objects.backend.request("GET", path).json()["metadata"]["resourceVersion"]
        changed = {**new, "metadata": {**new["metadata"], "resourceVersion": version}}
        reply = send(objects, served, changed, "PUT")
        assert reply.code == 422, (name, reply.body)
        assert [cause["field"] for cause in reply.json()["details"]["causes"]] == fields
        objects.delete(served, "trainingjobs", "mnist")


def test_status_scale_and_columns(objects: Objects, served: str) -> None:
    assert send(objects, served, FULL).code == 201
    status = {
        "phase": "Running",
        "selector": "trainingjob=mnist",
        "replicas": {"desired": 4, "active": 4, "ready": 3},
        "progress": {"step": 1200, "percent": 24, "metrics": {"loss": 0.21}},
        "conditions": [
            {
                "type": "Running",
                "status": "True",
                "reason": "PodsReady",
                "message": "",
                "lastTransitionTime": "2030-01-01T00:00:00Z",
            }
        ],
    }
    written = objects.patch(
        served, "trainingjobs", "mnist", {"status": status}, subresource="status"
    )
    assert written["status"]["progress"]["metrics"] == {"loss": 0.21}
    path = objects.path(served, "trainingjobs", "mnist")
    scale = objects.backend.request("GET", f"{path}/scale").json()
    assert scale["spec"] == {"replicas": 4}
    assert scale["status"] == {"replicas": 4, "selector": "trainingjob=mnist"}
    accept = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
    table = objects.backend.request("GET", path, headers=accept).json()
    shown = dict(
        zip(
            [column["name"] for column in table["columnDefinitions"]],
            table["rows"][0]["cells"],
            strict=True,
        )
    )
    assert shown["Phase"] == "Running"
    assert (shown["Desired"], shown["Ready"], shown["Step"]) == (4, 3, 1200)
    wrong = {"status": {"phase": "Lost"}}
    reply = objects.backend.request(
        "PATCH", f"{path}/status", wrong, content_type="application/merge-patch+json"
    )
    assert reply.code == 422


def test_every_definition_is_taken(cluster: Objects, unique: str) -> None:
    group = f"e{unique}.test.dev"
    for kind in all_kinds():
        crd = definition(kind, group)
        cluster.create("customresourcedefinitions", crd)
        name = crd["metadata"]["name"]

        def established(name: str = name) -> bool:
            found = cluster.get("apiextensions.k8s.io/v1", "customresourcedefinitions", name)
            conditions = {c["type"]: c["status"] for c in found["status"].get("conditions") or []}
            assert "NonStructuralSchema" not in conditions
            return conditions.get("Established") == "True"

        eventually(established)
        cluster.delete("apiextensions.k8s.io/v1", "customresourcedefinitions", name)
