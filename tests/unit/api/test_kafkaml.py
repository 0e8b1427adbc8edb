from __future__ import annotations

from typing import Any

import pytest

from corral.api.kafkaml import kinds
from corral.api.kind import Kind
from corral.podtools.kafkaml.strategies import strategy_name

RAW = {
    "data_type": "float32", "data_reshape": "784", "label_type": "float32", "label_reshape": "10",
}  # fmt: skip
GOOD: dict[str, dict[str, Any]] = {
    "MLModel": {"code": "model = 1"},
    "MLConfiguration": {"models": ["a", "b"]},
    "Datasource": {"topic": "t:0:0:500,t:1:3:9", "totalMsg": 506, "inputConfig": RAW},
    "FederatedDeployment": {"model": "mnist"},
    "Inference": {
        "deployment": "mnist", "inputTopic": "in", "outputTopic": "out", "inputConfig": RAW,
    },
}  # fmt: skip
KINDS = {kind.resource().kind: kind for kind in kinds.KINDS}


def made(kind: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "kafkaml.corral.dev/v1alpha1",
        "kind": kind,
        "metadata": {"name": "x", "namespace": "n"},
        "spec": {**GOOD[kind], **spec},
    }


def said(kind: str, **spec: Any) -> list[str]:
    return [str(problem) for problem in KINDS[kind].validate(made(kind, **spec))]


@pytest.mark.parametrize("kind", GOOD)
def test_the_least_that_is_needed_is_enough(kind: str) -> None:
    assert said(kind) == []


@pytest.mark.parametrize("kind", kinds.KINDS)
def test_there_are_definitions(kind: type[Kind]) -> None:
    crd = kind.crd()
    assert crd["spec"]["group"] == "kafkaml.corral.dev"
    assert crd["spec"]["versions"][0]["subresources"]["status"] == {}


def test_the_names_of_topics_are_the_real_ones() -> None:
    obj = made("FederatedDeployment")
    kinds.FederatedDeployment.default(obj)
    topics = obj["spec"]["topics"]
    assert topics["modelControl"] == "FED-{id}-model_control_topic"
    assert topics["clientData"] == "FED-{id}-agg_data_topic-{client}"
    assert obj["spec"]["aggregation"]["rounds"] == 15
    assert obj["spec"]["minData"] == 1000


@pytest.mark.parametrize(
    ("kind", "spec", "words"),
    [
        ("FederatedDeployment", {"configuration": "c"}, "and not both"),
        ("FederatedDeployment", {"model": ""}, "name a configuration or a model"),
        ("FederatedDeployment", {"aggregation": {"strategy": "best"}}, "strategy: Unsupported"),
        ("FederatedDeployment", {"aggregation": {"config": {"mu": 1}}}, "config.mu"),
        (
            "FederatedDeployment",
            {"aggregation": {"kOfN": 2, "minUpdates": 3}},
            "must be at most kOfN",
        ),
        ("FederatedDeployment", {"topics": {"clientData": "all"}}, "needs {client}"),
        ("FederatedDeployment", {"topics": {"modelData": "{ID}"}}, "may have {id} and {client}"),
        (
            "FederatedDeployment",
            {"incremental": True, "unsupervised": True},
            "leave incremental or this away",
        ),
        ("FederatedDeployment", {"streamTimeout": -2}, "-1 for no limit"),
        ("Datasource", {"topic": "t:0:5:2"}, "ends before it starts"),
        ("Datasource", {"topic": "t"}, "is not topic:partition:start:end"),
        ("Datasource", {"topic": "t:0:0:2", "incremental": True}, "by its topic alone"),
        ("Datasource", {"totalMsg": None}, "totalMsg"),
        ("Datasource", {"inputConfig": {**RAW, "data_type": "pickle"}}, "must be one of"),
        ("Datasource", {"inputConfig": {**RAW, "data_reshape": "a b"}}, "must be a shape"),
        ("Datasource", {"inputFormat": "AVRO", "inputConfig": {}}, "AVRO records cannot be read"),
        ("Inference", {"deployment": ""}, "a deployment or a model's artifact"),
        ("Inference", {"limit": 0.5}, "outputUpper"),
        ("MLConfiguration", {"models": ["a", "a"]}, "Duplicate value"),
        ("MLConfiguration", {"models": []}, "models"),
        ("MLModel", {"code": ""}, "code"),
        ("MLModel", {"framework": "caffe"}, "framework"),
    ],
)
def test_mistakes_are_named(kind: str, spec: dict[str, Any], words: str) -> None:
    found = said(kind, **spec)
    assert any(words in line for line in found), found


def test_what_clients_have_read_cannot_change() -> None:
    old, new = made("Datasource"), made("Datasource", totalMsg=1)
    assert [str(p) for p in kinds.Datasource.validate(new, old)] != []


def test_a_deployment_can_be_suspended_and_nothing_else() -> None:
    old = made("FederatedDeployment")
    assert kinds.FederatedDeployment.validate(made("FederatedDeployment", suspend=True), old) == []
    changed = made("FederatedDeployment", batch=1)
    assert "make another deployment" in str(kinds.FederatedDeployment.validate(changed, old)[0])


@pytest.mark.parametrize(
    ("said", "name"),
    [("FedAvg", "fedavg"), ("", "fedavg"), ("FedOpt", "fedavgm"), ("FedYogi", "fedyogi")],
)
def test_strategies_by_the_names_people_know(said: str, name: str) -> None:
    assert strategy_name(said) == name
