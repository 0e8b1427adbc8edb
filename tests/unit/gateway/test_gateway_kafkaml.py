"""Bodies as specs, objects as rows, and which operation a path of ``/kafkaml`` means."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from corral.api.kafkaml.kinds import (
    Datasource,
    FederatedDeployment,
    Inference,
    MLConfiguration,
    MLModel,
)
from corral.gateway.auth import Caller
from corral.gateway.models import Models
from corral.gateway.problems import Refused
from corral.gateway.rest.kafkaml import bodies, posted, rows
from corral.gateway.rest.kafkaml.table import KAFKAML
from corral.gateway.rest.openapi import document
from corral.gateway.rest.paths import MethodNotAllowed, locate
from tests.unit.gateway.gateway_stage import Stage

KWARGS = dict.fromkeys(("tf_kwargs_val", "pth_kwargs_fit", "pth_kwargs_val"), "")


def read(kind: Any, obj: dict[str, Any]) -> Any:
    """As the API server would take it."""
    names = kind.names
    whole = {"apiVersion": f"{names.group}/{names.version}", "kind": names.kind, **obj}
    found = kind.read(whole)
    problems = [problem for check in found.checks(None) for problem in check.problems]
    assert problems == []
    return found.spec


def deployment(**more: Any) -> dict[str, Any]:
    body = {"configuration": "all", "tf_kwargs_fit": "epochs=5, steps_per_epoch=10", **KWARGS}
    return bodies.deployment_object({**body, **more})


def test_a_model() -> None:
    made = bodies.model_object(
        {"name": "My Model 1", "code": "model = 1", "framework": "pth", "father": None}
    )
    assert made["metadata"] == {
        "name": "my-model-1", "annotations": {"kafkaml.corral.dev/name": "My Model 1"},
    }  # fmt: skip
    assert read(MLModel, made).framework == "pth"
    row = rows.model_row({**made, "status": {"phase": "Ready", "inputShape": "28 28"}})
    assert (row["id"], row["name"], row["status"]) == ("my-model-1", "My Model 1", "Ready")
    assert row["input_shape"] == "28 28"


def test_a_configuration() -> None:
    made = bodies.configuration_object({"name": "all", "ml_models": ["a", 7]})
    assert made["metadata"] == {"name": "all"}
    assert read(MLConfiguration, made).models == ["a", "7"]


def test_a_deployment_has_the_defaults_of_the_interface() -> None:
    spec = read(FederatedDeployment, deployment())
    assert spec.kwargs_fit == {"epochs": 5, "steps_per_epoch": 10}
    assert (spec.aggregation.rounds, spec.min_data, spec.batch) == (15, 1000, 32)
    assert (spec.stream_timeout, spec.confidence, spec.unsupervised_rounds) == (60_000, 0.9, 5)


def test_a_deployment_as_forms_send_it() -> None:
    spec = read(
        FederatedDeployment,
        deployment(
            tf_kwargs_fit="", pth_kwargs_fit="max_epochs=3", agg_rounds="4", min_data="0",
            agg_strategy="FedAdam", data_restriction='{"site": "a"}', federated=True, batch="8",
            indefinite="true", incremental=True, learning_rate="0.01", metrics="accuracy, mae",
            conf_mat_settings="", gpumem=0, optimizer="sgd",
        ),
    )  # fmt: skip
    assert spec.kwargs_fit == {"max_epochs": 3}
    assert (spec.aggregation.rounds, spec.aggregation.strategy) == (4, "FedAdam")
    assert (spec.min_data, spec.batch, spec.stream_timeout) == (0, 8, -1)
    assert spec.data_restriction == {"site": "a"}
    assert (spec.learning_rate, spec.metrics, spec.optimizer) == (0.01, ["accuracy", "mae"], "sgd")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"tf_kwargs_fit": "epochs=0"}, "epochs of 1 or more"),
        ({"tf_kwargs_fit": "epochs=open('x')"}, "must be arguments"),
        ({"tf_kwargs_fit": "epochs=1); f("}, "must be arguments"),
        ({"tf_kwargs_fit": "**{}"}, "must be arguments"),
        ({"tf_kwargs_fit": "5"}, "must be arguments"),
        ({"tf_kwargs_fit": "a=1e999"}, "must be arguments"),
        ({"tf_kwargs_fit": "a=" + "(" * 3000}, "must be arguments"),
        ({"tf_kwargs_fit": "a" * 5000}, "characters"),
        ({"federated": False}, "only federated"),
        ({"blockchain": True}, "not there"),
        ({"agg_rounds": 0}, "whole number from 1"),
        ({"agg_rounds": True}, "whole number"),
        ({"batch": "x"}, "whole number"),
        ({"confidence": "nan"}, "above 0"),
        ({"data_restriction": "[1]"}, "JSON object"),
        ({"configuration": ""}, "is needed"),
        ({"incremental": "maybe"}, "true or false"),
        ({"metrics": [1]}, "must be names"),
    ],
)
def test_deployments_that_cannot_be_meant(more: dict[str, Any], said: str) -> None:
    with pytest.raises(Refused, match=said):
        deployment(**more)


def test_all_four_arguments_must_be_there() -> None:
    with pytest.raises(Refused, match="pth_kwargs_val: is needed"):
        bodies.deployment_object({"configuration": "a", "tf_kwargs_fit": "", "tf_kwargs_val": "",
                                  "pth_kwargs_fit": ""})  # fmt: skip


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"name": "x" * 31, "code": "1"}, "30 characters"),
        ({"name": "ä!", "code": "1"}, "needs a letter"),
        ({"name": "x"}, "code: is needed"),
        ({"name": "x", "code": "1", "framework": "jax"}, "must be one of"),
        ({"name": "x", "code": "1", "description": "x" * 101}, "100 characters"),
        ({"name": ["x"], "code": "1"}, "must be text"),
    ],
)
def test_models_that_cannot_be_meant(body: dict[str, Any], said: str) -> None:
    with pytest.raises(Refused, match=said):
        bodies.model_object(body)


def test_an_inference() -> None:
    asked = {
        "input_config": '{"data_type": "float32", "data_reshape": "64"}', "input_topic": "in",
        "output_topic": "out", "limit": 0.8, "output_upper": "up", "input_kafka_broker": "k:1",
    }  # fmt: skip
    spec = read(Inference, bodies.inference_object(asked, deployment="learn", model="m"))
    assert (spec.deployment, spec.model, spec.limit) == ("learn", "m", 0.8)
    assert spec.input_kafka.bootstrap_servers == "k:1"
    with pytest.raises(Refused, match="runs in the namespace"):
        bodies.inference_object({**asked, "external_host": "h"}, deployment="a", model="m")


def test_a_datasource() -> None:
    said = {
        "topic": "mnist_fed:0:0:550", "input_format": "RAW", "total_msg": 550, "test_rate": 0.1,
        "input_config": {"data_type": "float32", "data_reshape": "784", "label_type": "float32",
                         "label_reshape": "10"},
        "dataset_restrictions": '{"site": "a"}', "deployment": "learn",
    }  # fmt: skip
    made = bodies.datasource_object(said)
    assert made["metadata"] == {"generateName": "mnist-fed-"}
    spec = read(Datasource, made)
    assert (spec.total_msg, spec.dataset_restrictions) == (550, {"site": "a"})
    row = rows.datasource_row(made)
    assert row["dataset_restrictions"] == '{"site": "a"}'
    assert row["topic"] == said["topic"]
    with pytest.raises(Refused, match="not topic:partition:start:end"):
        bodies.datasource_object({**said, "topic": "mnist"})


RESULT = {
    "id": 1, "model": "m", "federatedStringId": "abcd1234", "status": "finished", "version": 2,
    "trainMetrics": {"loss": 0.1}, "valMetrics": {"loss": 0.2}, "modelRef": "r/m@x",
    "rounds": [
        {"version": 0, "metrics": {"training": {"loss": 1.0}, "validation": {"loss": [3, 2]}}},
        {"version": 1, "metrics": {"training": {"loss": 0.5, "name": "x"}}},
    ],
}  # fmt: skip


def test_results() -> None:
    obj = {"metadata": {"name": "learn"}, "spec": {}, "status": {"results": [RESULT]}}
    (row,) = rows.results_of(obj)
    assert (row["id"], row["status"], row["agg_rounds"]) == ("learn.1", "finished", 2)
    assert rows.deployment_row(obj)["results"] == ["learn.1"]
    assert rows.chart(RESULT) == {
        "metrics": [
            {"name": "loss", "series": [{"name": "0", "value": 1.0}, {"name": "1", "value": 0.5}]},
            {"name": "val_loss", "series": [{"name": "0", "value": 2.0}]},
        ],
        "conf_mat": False,
    }
    assert rows.confusion_matrix(RESULT) is None
    assert rows.confusion_matrix({"testMetrics": {"confusion_matrix": [[1, 0], [0, 1]]}})


@pytest.mark.parametrize("odd", [{}, {"spec": 3, "status": []}, {"metadata": None}])
def test_odd_objects_raise_nothing(odd: dict[str, Any]) -> None:
    for row in (
        rows.model_row, rows.configuration_row, rows.deployment_row, rows.inference_row,
        rows.datasource_row,
    ):  # fmt: skip
        assert row(odd)["id"] == ""


def test_every_route_is_found_and_documented() -> None:
    paths = document()["paths"]
    for operation in KAFKAML:
        assert operation.method.lower() in paths[operation.path]
        filled = operation.path.replace("{namespace}", "a").replace("{name}", "x.1")
        found, where = locate(operation.method, filled.encode())
        assert found is operation
        assert (where.kind.plural, where.namespace) == (operation.plural, "a")
        assert where.name == ("x.1" if "{name}" in operation.path else "")
        slashed = filled[:-1] if filled.endswith("/") else f"{filled}/"
        assert locate(operation.method, slashed.encode())[0] is operation


@pytest.mark.parametrize(
    "path", ["/kafkaml/", "/kafkaml/a", "/kafkaml/a/", "/kafkaml/a/x", "/kafkaml/a/models/x/y"]
)
def test_other_paths_lead_nowhere(path: str) -> None:
    with pytest.raises(Refused, match="nothing at this path"):
        locate("GET", path.encode())


def test_other_methods_and_names_are_refused() -> None:
    with pytest.raises(MethodNotAllowed, match="GET, POST can"):
        locate("DELETE", b"/kafkaml/a/models/")
    with pytest.raises(Refused, match="nothing can have the name"):
        locate("GET", b"/kafkaml/a/models/..%2Fx")
    with pytest.raises(Refused, match="nothing can have the namespace"):
        locate("GET", b"/kafkaml/A/models/")


async def test_what_is_wrong_is_said_in_plain_words() -> None:
    stage = Stage()
    reply = await stage.ask("POST", "/kafkaml/a/models/", {"name": "x"})
    assert (reply.status, reply.body) == (400, b"code: is needed")
    assert reply.headers["content-type"].startswith("text/plain")
    made = await stage.ask("POST", "/kafkaml/a/models/", {"name": "x", "code": "1"})
    assert (made.status, made.body) == (201, b"")
    assert stage.gateway.asked[-1][0] == "create"
    too_large = await stage.ask("POST", "/kafkaml/a/models/", b"x" * (4 << 20))
    assert too_large.status == 413
    assert stage.audit[-1]["resource"] == "mlmodels"


async def test_a_model_of_an_unknown_registry_is_not_fetched() -> None:
    models = Models(["registry.corral.local=http://127.0.0.1:1"])
    with pytest.raises(Refused, match=r"was not told where evil\.example is"):
        await models.open(Caller("t"), "evil.example/a/b:1")
    with pytest.raises(Refused) as caught:
        await models.open(Caller("t"), "///")
    assert caught.value.problem.kind == "not-found"


def test_the_model_of_a_form_is_all_that_is_left_of_it(tmp_path: Path) -> None:
    content = bytes(range(256)) * 12_345  # more than is moved at a time
    body = tmp_path / "body"

    def form(**parts: bytes) -> str:
        out = b""
        for name, part in parts.items():
            head = f'Content-Disposition: form-data; name="{name}"'.encode()
            out += b"--edge\r\n" + head + b"\r\n\r\n" + part + b"\r\n"
        body.write_bytes(out + b"--edge--\r\n")
        return "multipart/form-data; boundary=edge"

    sent = form(data=b'{"a": 1}', trained_model=content)
    assert posted._taken(body, sent, most=8) == {"a": 1}
    assert body.read_bytes() == content
    sent = form(trained_model=b"", data=b"{}")
    assert posted._taken(body, sent, most=8) == {}
    assert body.read_bytes() == b""
    sent = form(data=b'{"a": 12}', trained_model=content)
    with pytest.raises(Refused, match="may have 8 bytes"):
        posted._taken(body, sent, most=8)
