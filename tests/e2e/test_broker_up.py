"""``corral up`` serves the Kafka protocol to programs on the machine, and to pods in any mode."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from corral.cli.broker import addresses
from corral.cluster.broker.process import LocalBroker
from tests.cluster.objects import Objects, eventually
from tests.e2e.clusters import Up, job

POD = """
import sys
from confluent_kafka import Consumer, Producer, TopicPartition
told = {"bootstrap.servers": sys.argv[1], "group.id": "pod", "log_level": 0}
reader = Consumer(told)
reader.assign([TopicPartition("letters", 0, 0)])
while (message := reader.poll(30)).error():
    print(message.error())
writer = Producer(told)
writer.produce("answers", b"pod read " + message.value())
assert writer.flush(30) == 0
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


def send(up: Up, topic: str, value: bytes) -> None:
    producer = Producer({"bootstrap.servers": facts(up)["bootstrap"], "log_level": 0})
    producer.produce(topic, value)
    assert producer.flush(30) == 0


def read(up: Up, topic: str) -> bytes:
    told = {"bootstrap.servers": facts(up)["bootstrap"], "group.id": "case", "log_level": 0}
    reader = Consumer(told)
    try:
        reader.assign([TopicPartition(topic, 0, 0)])
        found = eventually(lambda: reader.poll(1.0), seconds=60)
        assert found.error() is None, found.error()
        return bytes(found.value())
    finally:
        reader.close()


def test_a_pod_and_the_machine_write_to_each_other(up: Up) -> None:
    send(up, "letters", b"hello")
    send_ports = facts(up)["ports"]
    local = LocalBroker(folder=up.data, port=send_ports[0], pod_port=send_ports[1])
    objects = Objects(up, "default")
    wanted = job("reader", [sys.executable, "-c", POD, addresses(local, "")[1]])
    wanted["spec"]["template"]["spec"]["containers"][0]["image"] = "python:3"
    objects.create("jobs", wanted)
    assert read(up, "answers") == b"pod read hello"

    # the part is killed: it comes back at the same address, with everything
    os.kill(up.parts()["broker"], signal.SIGKILL)
    eventually(lambda: "broker" in up.parts())
    assert read(up, "letters") == b"hello"


def test_without_a_broker(tmp_path: Path) -> None:
    up = Up(tmp_path / "c", "--no-broker", "--no-gateway", "--no-operator")
    up.start()
    try:
        assert "broker" not in up.parts()
        assert not (up.data / "broker.json").exists()
    finally:
        up.stop()
