"""Federated jobs over REST, gRPC, the SDK and the command line: the same figures everywhere."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from corral.gateway.grpc.messages import read_message
from corral.sdk import AsyncTrainingClient
from corral.v1 import federated_job_pb2 as federated
from corral.v1 import jobs_pb2 as pb
from corral.v1.federated_job_pb2_grpc import FederatedJobServiceStub
from tests.backends import Backend
from tests.cluster.gateway_grpc.both_views import Views
from tests.cluster.objects import Objects
from tests.unit.client.learning_objects import (
    API,
    federated_job,
    job_status,
    round_status,
    training_round,
)

PATH = "/apis/propeller.absmach.io/v1alpha1"


def model(namespace: str, number: int) -> dict[str, Any]:
    return {
        "apiVersion": API,
        "kind": "ModelCheckpoint",
        "metadata": {
            "name": f"model-digits-round-{number}",
            "namespace": namespace,
            "labels": {"federated-job": "digits"},
        },
        "spec": {
            "federatedJobRef": {"name": "digits"},
            "modelRef": f"oci://registry/digits/models:round-{number}@sha256:{'0' * 64}",
            "algorithm": "fedadam",
            "round": number,
            "metadata": {"totalSamples": 30, "numParticipants": 2, "metrics": {"loss": 0.5}},
        },
    }


@pytest.fixture
def namespace(backend: Backend, objects: Objects) -> Iterator[str]:
    """With a job, two of its rounds and their models, as the controllers leave them."""
    where = objects.namespace

    def put(plural: str, obj: dict[str, Any], status: dict[str, Any] | None = None) -> None:
        obj["metadata"]["namespace"] = where
        path = f"{PATH}/namespaces/{where}/{plural}"
        reply = backend.request("POST", path, obj)
        assert reply.code == 201, reply.body
        if status is not None:
            made = {**reply.json(), "status": status}
            written = backend.request("PUT", f"{path}/{obj['metadata']['name']}/status", made)
            assert written.code == 200, written.body

    put("federatedjobs", federated_job(), job_status())
    put("trainingrounds", training_round(2), round_status())
    put("trainingrounds", training_round(3))
    put("trainingrounds", training_round(1, "another"), round_status())
    for number in (10, 2):
        put("modelcheckpoints", model(where, number))
    yield where


def corral(kubeconfig: str, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "corral.cli.main", *words, "--kubeconfig", kubeconfig],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "CORRAL_GATEWAY": ""},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_all_views_give_the_same(namespace: str, admin: Views, kubeconfig: str) -> None:
    rest = admin.rest("GET", f"/namespaces/{namespace}/federatedjobs/digits/metrics")
    assert rest.status == 200
    assert [entry["round"] for entry in rest.body["rounds"]] == [1, 2, 3]
    assert rest.body["rounds"][1]["participants"][0]["metrics"]["accuracy"] == 0.875
    assert rest.body["proplets"][0]["samples"] == 10
    where = {"namespace": namespace, "name": "digits"}
    typed = FederatedJobServiceStub(admin.channel).GetFederatedJobMetrics(
        federated.GetFederatedJobMetricsRequest(**where), metadata=admin.metadata, timeout=30
    )
    plain = admin.any.GetMetrics(
        pb.GetMetricsRequest(kind="fj", **where), metadata=admin.metadata, timeout=30
    )
    assert read_message(typed.metrics) == read_message(plain.metrics) == rest.body
    told = corral(kubeconfig, "fl", "metrics", "digits", "-n", namespace, "-o", "json")
    assert json.loads(told) == rest.body


async def test_the_sdk(namespace: str, kubeconfig: str) -> None:
    async with AsyncTrainingClient(kubeconfig=kubeconfig, namespace=namespace) as client:
        found = await client.get_job_metrics("digits")
    assert [entry["round"] for entry in found.rounds] == [1, 2, 3]
    assert found.proplets[1]["updates"] == 2
    assert "0.5" in found._repr_html_()


def test_tables_for_people(namespace: str, kubeconfig: str) -> None:
    def table(*words: str) -> list[list[str]]:
        text = corral(kubeconfig, "fl", *words, "-n", namespace)
        return [line.split() for line in text.splitlines()]

    rounds = table("metrics", "digits")
    assert [line[0] for line in rounds] == ["ROUND", "1", "2", "3"]
    assert rounds[2][:7] == ["2", "Completed", "2", "2", "1", "30", "0.5"]
    proplets = table("metrics", "digits", "--proplets")
    assert [line[0] for line in proplets] == ["PROPLET", "p-1", "p-2", "p-3"]
    parts = table("metrics", "digits", "--round", "2")
    assert parts[1][:6] == ["p-1", "Completed", "True", "10", "0.25", "0.875"]
    models = table("models", "digits")
    assert [line[0] for line in models[1:]] == ["2", "10"]
    assert models[1][-1].startswith("oci://registry/digits/models:round-2@sha256:")
    (name, *_), *_ = table("models", "digits", "-o", "name")
    assert name.startswith("oci://")


def test_what_is_not_there(namespace: str, admin: Views, kubeconfig: str) -> None:
    missing = admin.rest("GET", f"/namespaces/{namespace}/federatedjobs/nothing/metrics")
    assert missing.status == 404
    words = ["fl", "metrics", "digits", "--round", "9", "-n", namespace, "--kubeconfig", kubeconfig]
    done = subprocess.run(
        [sys.executable, "-m", "corral.cli.main", *words],
        capture_output=True, text=True, timeout=60, env={**os.environ, "CORRAL_GATEWAY": ""},
    )  # fmt: skip
    assert done.returncode == 3
    assert "there is no round 9" in done.stderr


def test_a_job_is_suspended_by_any_view(namespace: str, admin: Views) -> None:
    path = f"/namespaces/{namespace}/federatedjobs/digits"
    assert admin.rest("POST", f"{path}/suspend").body["spec"]["suspend"] is True
    answer = FederatedJobServiceStub(admin.channel).ResumeFederatedJob(
        federated.ResumeFederatedJobRequest(namespace=namespace, name="digits"),
        metadata=admin.metadata,
        timeout=30,
    )
    assert answer.object.spec.suspend is False
