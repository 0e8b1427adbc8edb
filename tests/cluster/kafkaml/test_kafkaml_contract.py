"""What anybody can do who knows the contract and plain Kafka, and nothing of ours."""

from __future__ import annotations

import io
import json
import time
from typing import Any

import numpy as np
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.cluster.kafkaml.deployments import Audience, Deployments, digits, model


class Outsider:
    """A client of the contract, written with librdkafka and NumPy alone."""

    def __init__(self, servers: str, federated_id: str, name: str) -> None:
        self.servers, self.id, self.name = servers, federated_id, name
        self.producer = Producer({"bootstrap.servers": servers, "acks": "all"})
        self.control = Consumer(
            {"bootstrap.servers": servers, "group.id": name, "enable.auto.commit": False}
        )
        self.control.assign([TopicPartition(f"FED-{federated_id}-model_control_topic", 0, 0)])

    def message(self, seconds: float = 60) -> dict[str, Any]:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            found = self.control.poll(1)
            if found is not None and found.error() is None:
                said: dict[str, Any] = json.loads(found.value())
                return said
        raise AssertionError("nothing was said")

    def weights(self, where: str) -> list[np.ndarray]:
        topic, part, start, end = where.split(":")
        consumer = Consumer({"bootstrap.servers": self.servers, "group.id": "x"})
        consumer.assign([TopicPartition(topic, int(part), int(start))])
        found: dict[int, np.ndarray] = {}
        until = time.monotonic() + 60
        try:
            while len(found) < int(end) - int(start) and time.monotonic() < until:
                message = consumer.poll(1)
                if message is not None and message.error() is None:
                    value = np.load(io.BytesIO(message.value()), allow_pickle=False)
                    found[message.key()[0]] = value
        finally:
            consumer.close()
        return [found[place] for place in range(len(found))]

    def send(self, arrays: list[np.ndarray], version: int, samples: int) -> None:
        topic = f"FED-{self.id}-agg_data_topic-{self.name}"
        offsets: list[int] = []
        for place, array in enumerate(arrays):
            out = io.BytesIO()
            np.save(out, array, allow_pickle=False)
            self.producer.produce(
                topic, out.getvalue(), key=bytes([place]), partition=0,
                on_delivery=lambda error, message: offsets.append(message.offset()),
            )  # fmt: skip
        assert self.producer.flush(60) == 0
        said = {
            "topic": f"{topic}:0:{min(offsets)}:{max(offsets) + 1}",
            "version": version,
            "metrics": {"training": {"loss": [1.0]}, "validation": {}},
            "num_data": samples,
        }
        key = f"FED-MODEL-{self.id}-CLIENT-{self.name}"
        self.producer.produce(
            f"FED-{self.id}-agg_control_topic", json.dumps(said), key=key, partition=0
        )
        assert self.producer.flush(60) == 0


def test_a_client_of_the_contract_takes_part_and_rebuilds_every_round(
    deployments: Deployments,
) -> None:
    x, y = digits()
    where = deployments.inject(f"d-{deployments.names.federated_id}", x[:300], y[:300])
    deployments.client("ours", where)
    told = Audience(["ours", "theirs"])
    made = deployments.deployment(model(), rounds=3, at_least=2)
    serving = deployments.serve(made, model(), told)
    outsider = Outsider(deployments.access.servers, deployments.names.federated_id, "theirs")
    versions, seen = [], []
    local = model()
    while -1 not in versions:
        said = outsider.message()
        arrays = outsider.weights(said["topic"])
        versions.append(said["version"])
        seen.append(arrays)
        assert json.loads(said["model_architecture"])["class_name"] == "corral.Sequential"
        assert said["training_settings"]["batch"] == 16
        local.set_weights(arrays)
        local.fit(x[300:400], y[300:400], epochs=1)
        answer = -1 if said["version"] == -1 else said["version"] + 1
        outsider.send(local.get_weights(), answer, 100)
    outsider.control.close()
    rounds = serving.result()
    assert rounds.ended == "finished", rounds.why
    assert versions == [0, 1, -1]
    assert all(sorted(entry["clients"]) == ["ours", "theirs"] for entry in rounds.history)
    assert all(entry["samples"] == 400 for entry in rounds.history)
    # the mean of both, weighted by their samples, is what the next version was
    log = outsider.weights(str(rounds.history[0]["range"]))
    assert [a.tobytes() for a in log] == [a.tobytes() for a in seen[1]]
