from __future__ import annotations

from typing import Any

import pytest

from corral.api.kafkaml.kinds import Datasource, FederatedDeployment, MLModel
from corral.api.kafkaml.status import ResultStatus
from corral.api.kind import Kind
from corral.families.kafkaml.objects import client_job
from corral.families.kafkaml.settings import KafkaMLSettings
from corral.podtools.kafka.client import Access

RAW = {"data_type": "float32", "data_reshape": "64", "label_type": "float32", "label_reshape": "10"}


def read(kind: type[Kind], name: str, **spec: Any) -> Any:
    names = kind.names
    return kind.read(
        {
            "apiVersion": f"{names.group}/{names.version}",
            "kind": names.kind,
            "metadata": {"name": name, "namespace": "team"},
            "spec": spec,
        }
    )


def variables(deployment: FederatedDeployment, source: Datasource) -> dict[str, Any]:
    model = read(MLModel, "digits", code="model = 1", framework="numpy")
    settings = KafkaMLSettings(kafka="kafka:9092")
    result = ResultStatus(id=1, model="m", federated_string_id="abcd1234", status="created")
    job = client_job(deployment, result, model, source, 0, settings)
    assert job["spec"]["ttlSecondsAfterFinished"] == 100
    assert job["spec"]["backoffLimit"] == 1
    (container,) = job["spec"]["template"]["spec"]["containers"]
    return {entry["name"]: entry.get("value", entry.get("valueFrom")) for entry in container["env"]}


@pytest.mark.parametrize(
    ("spec", "case", "total"),
    [
        ({"topic": "t:0:0:9", "totalMsg": 9, "unsupervisedTopic": "u:0:0:5"}, "1", "9"),
        ({"topic": "t", "incremental": True}, "2", ""),
    ],
)
def test_clients_are_told_of_their_data(spec: dict[str, Any], case: str, total: str) -> None:
    found = variables(
        read(FederatedDeployment, "learn", model="digits"),
        read(Datasource, "some", inputConfig=RAW, **spec),
    )
    assert found["CASE"] == case
    assert found["DATA_TOPIC"] == spec["topic"]
    assert found["TOTAL_MSG"] == total
    assert found["UNSUPERVISED_TOPIC"] == spec.get("unsupervisedTopic", "")
    assert found["FEDERATED_MODEL_ID"] == "abcd1234"
    assert found["KML_CLOUD_BOOTSTRAP_SERVERS"] == "kafka:9092"


def test_each_broker_has_its_own_login() -> None:
    def login(source: dict[str, Any]) -> dict[str, Any]:
        kafka = {"bootstrapServers": "cloud:1", "secretRef": {"name": "cloud"}}
        found = variables(
            read(FederatedDeployment, "learn", model="digits", kafka=kafka),
            read(Datasource, "some", inputConfig=RAW, topic="t:0:0:9", totalMsg=9, **source),
        )
        assert found["KAFKA_USERNAME"]["secretKeyRef"]["name"] == "cloud"
        return found

    assert "DATA_KAFKA_USERNAME" not in login({})
    found = login({"kafka": {"bootstrapServers": "edge:1"}})
    assert found["DATA_BOOTSTRAP_SERVERS"] == "edge:1"
    assert found["DATA_KAFKA_USERNAME"] == ""
    edge = {"bootstrapServers": "edge:1", "secretRef": {"name": "edge"}}
    password = login({"kafka": edge})["DATA_KAFKA_PASSWORD"]
    assert password["secretKeyRef"] == {"name": "edge", "key": "password", "optional": False}


def test_a_login_is_taken_from_where_it_belongs() -> None:
    env = {"S": "edge:1", "KAFKA_USERNAME": "cloud", "KAFKA_PASSWORD": "a"}
    assert Access.from_environment(env, "S", login="DATA_KAFKA").username == "cloud"
    env |= {"DATA_KAFKA_USERNAME": ""}
    assert Access.from_environment(env, "S", login="DATA_KAFKA") == Access("edge:1")
    env |= {"DATA_KAFKA_USERNAME": "edge", "DATA_KAFKA_PASSWORD": "b"}
    assert Access.from_environment(env, "S", login="DATA_KAFKA") == Access("edge:1", "edge", "b")
