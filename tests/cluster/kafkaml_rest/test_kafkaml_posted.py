"""Metrics and models that were made elsewhere, posted as Kafka-ML's trainers do."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np
import pytest

from corral.oci import Artifacts, Layer, Reference
from corral.podtools.models.inside import read_weights, write_weights
from tests.backends import Backend
from tests.cluster.gateway.gateways import GatewayProcess, Reply, Somebody, token_of
from tests.cluster.kafkaml_rest.test_kafkaml_rest import API, Rest, report
from tests.cluster.objects import Objects
from tests.registries import RunningRegistry

TOLD = {"framework": "numpy", "architecture": "{}", "input_shape": "64"}
FIRST = [np.zeros((1200, 1000), np.float32), np.zeros(1000, np.float32)]
"""More than an ordinary body may have."""


def form(parts: dict[str, bytes]) -> tuple[bytes, dict[str, str]]:
    """As `requests` and browsers make it."""
    out = b""
    for name, content in parts.items():
        head = f'Content-Disposition: form-data; name="{name}"; filename="{name}"'
        out += b"--edge\r\n" + head.encode() + b"\r\n\r\n" + content + b"\r\n"
    return out + b"--edge--\r\n", {"Content-Type": "multipart/form-data; boundary=edge"}


class Trainer:
    """Somebody who trains elsewhere, and tells of one result."""

    def __init__(self, somebody: Somebody, namespace: str, result: str) -> None:
        self._somebody, self._root = somebody, f"/kafkaml/{namespace}"
        self._result = result

    def metrics(self, body: Any, **headers: str) -> Reply:
        path = f"{self._root}/results_metrics/{self._result}"
        sent = {key.replace("_", "-"): value for key, value in headers.items()}
        return self._somebody.ask("POST", path, body, headers=sent)

    def model(self, **parts: bytes) -> Reply:
        body, headers = form(parts)
        path = f"{self._root}/results/{self._result}"
        return self._somebody.ask("POST", path, body, headers=headers)


@pytest.fixture
def untrained(models_registry: RunningRegistry, namespace: str, tmp_path: Path) -> str:
    """The reference of a model before its training."""
    write_weights(tmp_path / "first", FIRST, TOLD)

    async def push() -> str:
        reference = Reference.parse(f"registry.corral.local/{namespace}/digits/mlmodel:1")
        async with Artifacts(models_registry.registries()) as artifacts:
            layer = Layer("application/vnd.corral.model", tmp_path / "first")
            pushed = await artifacts.push(reference, [layer], artifact_type="application/x.model")
        return str(pushed.reference)

    return asyncio.run(push())


def test_metrics_of_a_result_that_rests(admin: Somebody, objects: Objects, namespace: str) -> None:
    rest = Rest(admin, namespace)
    name = rest.learning()
    report(objects, name)
    trainer = Trainer(admin, namespace, f"{name}.1")
    reply = trainer.metrics({"train_metrics": {"loss": 0.1}})
    assert reply.status == 400
    assert b"is being trained" in reply.body

    rest.done("POST", f"/results/stop/{name}.1")
    assert trainer.metrics({"train_metrics": {"loss": [0.2, 0.1]}}).status == 200
    said = {"val_metrics": {"loss": 0.3}, "confusion_matrix": [[2, 0], [1, 3]]}
    fields = urlencode({"data": json.dumps(said)}).encode()
    kind = "application/x-www-form-urlencoded"
    assert trainer.metrics(fields, Content_Type=kind).status == 200
    body, headers = form({"data": json.dumps({"training_time": 7}).encode()})
    assert trainer.metrics(body, Content_Type=headers["Content-Type"]).status == 200
    found = rest.get(f"/results_metrics/{name}.1")
    assert found["train_metrics"] == {"loss": [0.2, 0.1]}
    assert found["val_metrics"] == {"loss": 0.3}
    assert found["training_time"] == 7
    assert rest.get(f"/results/confusion_matrix/{name}.1")["confusion_matrix"] == [[2, 0], [1, 3]]
    # what servers have told stays
    assert len(rest.get(f"/results/chart/{name}.1")["metrics"][0]["series"]) == 3

    for odd in ({}, {"train_metrics": {"loss": "low"}}, {"confusion_matrix": [[1, 2]]}):
        assert trainer.metrics(odd).status == 400
    assert trainer.metrics(b"x", Content_Type="text/plain").status == 415
    assert trainer.metrics(b"x=1", Content_Type=kind).status == 400
    assert Trainer(admin, namespace, "nobody.1").metrics({"val_metrics": {"a": 1}}).status == 404


def test_a_model_that_was_trained_elsewhere(
    admin: Somebody, objects: Objects, namespace: str, untrained: str, tmp_path: Path
) -> None:
    rest = Rest(admin, namespace)
    name = rest.learning()
    layers = [{"shape": list(a.shape), "dtype": "float32"} for a in FIRST]
    status = {"status": {"phase": "Ready", "weightsRef": untrained, "layers": layers}}
    objects.patch(API, "mlmodels", "digits", status, subresource="status")
    report(objects, name, status="stopped", message="a client has ended")
    trainer = Trainer(admin, namespace, f"{name}.1")

    (tmp_path / "given").write_bytes(rest.ask("GET", f"/results/{name}.1").body)
    learnt = [array + 1 for array in read_weights(tmp_path / "given")]
    write_weights(tmp_path / "learnt", learnt, TOLD)
    data = json.dumps({"train_metrics": {"loss": 0.05}, "test_metrics": {"accuracy": 0.99}})
    content = (tmp_path / "learnt").read_bytes()
    reply = trainer.model(trained_model=content, data=data.encode())
    assert (reply.status, reply.body) == (200, b"")
    (row,) = rest.get(f"/deployments/results/{name}")
    assert (row["status"], row["message"]) == ("finished", "")
    assert row["test_metrics"] == {"accuracy": 0.99}
    assert rest.ask("GET", f"/results/model/{name}.1").body == content
    asked = {"input_topic": "in", "output_topic": "out", "input_config": {
        "data_type": "float32", "data_reshape": "64"}}  # fmt: skip
    rest.done("POST", f"/results/inference/{name}.1", asked)

    write_weights(tmp_path / "other", [np.zeros(3, np.float32)], TOLD)
    write_weights(tmp_path / "bare", learnt)
    for odd, words in (
        (b"\x80\x04\x95pickle", b"must be safetensors"),
        (content[:-1], b"is not whole"),
        ((tmp_path / "other").read_bytes(), b"has arrays"),
        ((tmp_path / "bare").read_bytes(), b"says nothing of its model"),
    ):
        reply = trainer.model(trained_model=odd, data=b"{}")
        assert reply.status == 400
        assert words in reply.body, reply.body
    assert b"trained_model" in trainer.model(data=b"{}").body
    assert trainer.model(trained_model=content, data=b"[]").status == 400
    assert rest.ask("GET", f"/results/model/{name}.1").body == content


def test_who_may_only_read_posts_nothing(
    gateway: GatewayProcess, backend: Backend, admin: Somebody, objects: Objects, namespace: str
) -> None:
    name = Rest(admin, namespace).learning()
    report(objects, name, status="finished")
    rule = {
        "apiGroups": ["kafkaml.corral.dev"], "resources": ["federateddeployments"],
        "verbs": ["get", "list", "update", "patch"],
    }  # fmt: skip
    reader = Somebody(gateway, token_of(backend, namespace, "reader", rules=[rule]))
    reply = Trainer(reader, namespace, f"{name}.1").metrics({"train_metrics": {"loss": 1}})
    assert reply.status == 403


def test_loggers_of_the_reference_may_tell_of_data(
    admin: Somebody, objects: Objects, namespace: str
) -> None:
    rest = Rest(admin, namespace)
    said = {
        "topic": "mnist_fed:0:0:500", "unsupervised_topic": None, "input_format": "RAW",
        "input_config": json.dumps({"data_type": "float32", "data_reshape": "28 28",
                                    "label_type": "uint8", "label_reshape": "1"}),
        "dataset_restrictions": "{}", "validation_rate": 0.1, "test_rate": 0.1, "total_msg": 500,
        "incremental": False, "federated_string_id": "abcd1234",
    }  # fmt: skip
    rest.done("POST", "/federated-datasources/", said)
    (row,) = rest.get("/federated-datasources/")
    assert (row["total_msg"], row["federated_string_id"]) == (500, "abcd1234")
    spec = objects.get(API, "datasources", row["id"])["spec"]
    assert spec["inputConfig"]["data_reshape"] == "28 28"
    stream = {**said, "topic": "online", "incremental": True, "total_msg": None}
    rest.done("POST", "/federated-datasources/", stream)
    assert "is not topic:partition:start:end" in rest.refused(
        "POST", "/federated-datasources/", {**said, "topic": "online"}
    )
