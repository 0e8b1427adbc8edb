"""``corral up`` serves the Kafka protocol to programs on the machine, and to pods in any mode."""

from __future__ import annotations

import base64
import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.cluster.objects import Objects, eventually
from tests.e2e.clusters import Up, corral, job

POD = """
import os
from confluent_kafka import Consumer, Producer, TopicPartition
told = {
    "bootstrap.servers": os.environ["bootstrapServers"], "group.id": "pod", "log_level": 0,
    "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": os.environ["mechanism"],
    "sasl.username": os.environ["username"], "sasl.password": os.environ["password"],
}
reader = Consumer(told)
reader.assign([TopicPartition("letters", 0, 0)])
while (message := reader.poll(30)).error():
    print(message.error())
writer = Producer(told)
writer.produce("answers", b"pod read " + message.value())
assert writer.flush(30) == 0
"""
CODE = """
model = Sequential([Dense(16, "relu", input_shape=784), Dense(10, "softmax")], seed=1)
model.compile("adam", "categorical_crossentropy", learning_rate=0.005)
"""


@pytest.fixture(
    params=[
        pytest.param("root", marks=pytest.mark.skipif(os.geteuid() != 0, reason="needs root")),
        "plain",
    ]
)
def up(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Up]:
    cluster = Up(tmp_path / "c", "--isolation", request.param, "--no-gateway")
    cluster.start()
    yield cluster
    cluster.stop()


def facts(up: Up) -> dict[str, Any]:
    return dict(json.loads((up.data / "broker.json").read_text()))


def login(up: Up, namespace: str = "default") -> dict[str, Any]:
    """What the namespace's Secret says, as a client of librdkafka is told it."""
    found = eventually(lambda: Objects(up, namespace).find("v1", "secrets", "corral-kafka"))
    data = {key: base64.b64decode(value).decode() for key, value in found["data"].items()}
    return {
        "bootstrap.servers": facts(up)["bootstrap"],
        "log_level": 0,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": data["mechanism"],
        "sasl.username": data["username"],
        "sasl.password": data["password"],
    }


def send(told: dict[str, Any], topic: str, value: bytes) -> None:
    producer = Producer(told)
    producer.produce(topic, value)
    assert producer.flush(30) == 0


def read(told: dict[str, Any], topic: str) -> bytes:
    reader = Consumer({**told, "group.id": "case"})
    try:
        reader.assign([TopicPartition(topic, 0, 0)])
        found = eventually(lambda: reader.poll(1.0), seconds=60)
        assert found.error() is None, found.error()
        return bytes(found.value())
    finally:
        reader.close()


def test_a_pod_and_the_machine_write_to_each_other(up: Up) -> None:
    told = login(up)
    send(told, "letters", b"hello")
    objects = Objects(up, "default")
    wanted = job("reader", [sys.executable, "-c", POD])
    container = wanted["spec"]["template"]["spec"]["containers"][0]
    container |= {"image": "python:3", "envFrom": [{"secretRef": {"name": "corral-kafka"}}]}
    objects.create("jobs", wanted)
    assert read(told, "answers") == b"pod read hello"

    # the part is killed: it comes back at the same address, with everything
    os.kill(up.parts()["broker"], signal.SIGKILL)
    eventually(lambda: "broker" in up.parts())
    assert read(told, "letters") == b"hello"


def refused(told: dict[str, Any]) -> bool:
    try:
        AdminClient(told).list_topics(timeout=2)
    except KafkaException:
        return True
    return False


def test_nobody_comes_in_without_a_login(tmp_path: Path) -> None:
    """Nor to what is another namespace's; who changes a Secret has the right one again."""
    up = Up(tmp_path / "c", "--isolation", "plain", "--no-gateway", "--no-operator")
    up.start()
    try:
        one = login(up)
        send(one, "letters", b"hello")
        nobody = {key: one[key] for key in ("bootstrap.servers", "log_level")}
        assert refused(nobody)
        assert refused({**one, "sasl.password": "guess"})
        space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}}
        Objects(up).create("namespaces", space)
        two = login(up, "other")
        assert two["sasl.username"] != one["sasl.username"]
        assert list(AdminClient(two).list_topics(timeout=30).topics) == []
        send(two, "letters", b"mine")
        assert (read(one, "letters"), read(two, "letters")) == (b"hello", b"mine")

        # a copy of the other's name does not help: the Secret is put right
        secret = {"stringData": {"username": one["sasl.username"]}}
        Objects(up, "other").patch("v1", "secrets", "corral-kafka", secret)
        eventually(lambda: login(up, "other") == two)
        for path in (up.data / "credentials" / "broker.key", up.data / "broker"):
            assert path.stat().st_mode & 0o077 == 0

        # its topics go with a namespace, and its login is worth nothing then
        Objects(up).delete("v1", "namespaces", "other")
        eventually(lambda: refused(two), seconds=60)
        assert read(one, "letters") == b"hello"
        stored = json.loads((up.data / "broker" / "topics.json").read_text())["topics"]
        assert [name.partition(".")[0] for name in stored] == ["default"]
    finally:
        up.stop()


def test_an_open_broker_is_told(tmp_path: Path) -> None:
    up = Up(tmp_path / "c", "--broker-open", "--no-gateway", "--no-operator")
    up.start()
    try:
        assert "everybody on this machine reads and writes all topics" in up.log.read_text()
        told = {"bootstrap.servers": facts(up)["bootstrap"], "log_level": 0}
        send(told, "letters", b"hello")
        assert read(told, "letters") == b"hello"
        assert Objects(up, "default").find("v1", "secrets", "corral-kafka") is None
    finally:
        up.stop()


def test_a_model_is_trained_and_nobody_is_told_a_password(tmp_path: Path) -> None:
    """By `corral fl inject`, the operator and pods: all have the login by themselves."""
    up = Up(tmp_path / "c", "--isolation", "plain", "--no-gateway")
    up.start()
    try:
        objects = Objects(up, "default")
        api = "kafkaml.corral.dev/v1alpha1"
        model = {"framework": "numpy", "code": CODE}
        deployment = {
            "model": "mnist", "minData": 10, "batch": 16, "kwargsFit": {"epochs": 1},
            "aggregation": {"rounds": 1}, "clients": {"min": 2},
            "topics": {"retain": False},
        }  # fmt: skip
        for plural, kind, name, spec in (
            ("mlmodels", "MLModel", "mnist", model),
            ("federateddeployments", "FederatedDeployment", "learn", deployment),
        ):
            said = {"apiVersion": api, "kind": kind, "metadata": {"name": name}, "spec": spec}
            objects.create(plural, said)
        where = ("--kubeconfig", str(up.data / "kubeconfig"))
        corral("fl", "inject", "mnist", "--split", "2", "--train", "100", "--test", "0", *where)

        def phase() -> str:
            found = objects.find(api, "federateddeployments", "learn") or {}
            return str((found.get("status") or {}).get("phase"))

        assert eventually(lambda: phase() in ("Completed", "Failed") and phase(), seconds=120) == (
            "Completed"
        )
        listed = corral("fl", "topics", *where).stdout
        assert "FED-DEBUG-data_topic" in listed
        assert "agg_control_topic" in listed
        objects.delete(api, "federateddeployments", "learn")
        eventually(lambda: "agg_control_topic" not in corral("fl", "topics", *where).stdout)
        assert "FED-DEBUG" not in corral("fl", "topics", "-n", "corral-system", *where).stdout
    finally:
        up.stop()


def test_without_a_broker(tmp_path: Path) -> None:
    up = Up(tmp_path / "c", "--no-broker", "--no-gateway", "--no-operator")
    up.start()
    try:
        assert "broker" not in up.parts()
        assert not (up.data / "broker.json").exists()
    finally:
        up.stop()
