"""Data that is announced on the data control topic: clients appear, each once, none of old."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import pytest

from corral.families.kafkaml.announcements import ANNOUNCED_LABEL
from corral.families.kafkaml.listening import POSITIONS
from corral.podtools.kafka.client import Sender, Topic, ensure
from corral.podtools.kafka.messages import DataControl
from corral.podtools.kafka.ranges import Range
from tests.cluster.kafkaml.deployments import digits
from tests.cluster.kafkaml_jobs.workflow import API, RAW, Workflow
from tests.cluster.objects import eventually

pytestmark = pytest.mark.timeout(300)


class Announcing:
    """Who has data, as Kafka-ML's sinks tell of it."""

    def __init__(self, workflow: Workflow, topic: str) -> None:
        self._workflow, self.topic = workflow, topic
        ensure(workflow.access, [Topic(topic, 1_000_000)])

    def say(self, message: bytes) -> None:
        with Sender(self._workflow.access) as sender:
            sender.send(self.topic, message, key=b"\0")

    def data(self, where: Range | str, count: int, **more: Any) -> None:
        self.say(DataControl(str(where), "RAW", RAW, count, **more).encode())


def announced(workflow: Workflow) -> dict[str, str]:
    """The datasources that were made of announcements, and their topics."""
    label = f"?labelSelector={quote(ANNOUNCED_LABEL)}"
    names = workflow.objects.names(API, "datasources", label)
    return {n: workflow.objects.get(API, "datasources", n)["spec"]["topic"] for n in names}


def test_announced_data_becomes_clients_once(workflow: Workflow, unique: str) -> None:
    x, y = digits()
    sink = Announcing(workflow, f"data-control-{unique}")
    topics = {"dataControl": sink.topic}
    one = workflow.inject(f"data-{unique}-1", x[:300], y[:300])
    two = workflow.inject(f"data-{unique}-2", x[300:500], y[300:500])
    sink.say(b"{")
    sink.data(one, 300)
    sink.data(one, 300)
    sink.data(Range(one.topic, 0, 0, 99_999), 99_999)
    workflow.model("digits")
    workflow.deployment("learn", model="digits", rounds=2, clients={"min": 2}, topics=topics)
    eventually(lambda: list(announced(workflow).values()) == [str(one)], seconds=60)
    eventually(
        lambda: workflow.status("federateddeployments", "learn").get("federatedStringId"),
        seconds=60,
    )
    found = workflow.status("federateddeployments", "learn")["federatedStringId"]
    sink.data(two, 200, federated_string_id="another0")
    sink.data(two, 200, federated_string_id=found, client_id="second")
    status = workflow.until("federateddeployments", "learn", "Completed", timeout=120)
    assert [c["samples"] for c in status["clients"]] == [300, 200]
    assert status["clients"][1]["clientId"] == "second"
    assert all(entry["updates"] == 2 for entry in status["results"][0]["rounds"])
    made = announced(workflow)
    assert sorted(made.values()) == [str(one), str(two), str(two)]
    kept = workflow.objects.get("v1", "configmaps", POSITIONS)["data"]
    (place,) = [json.loads(text) for text in kept.values()]
    assert (place["topic"], place["next"]) == (sink.topic, {"0": 6})

    # what was deleted does not come back by itself, and what is announced again does
    (gone,) = [name for name, topic in made.items() if topic == str(one)]
    workflow.objects.delete(API, "datasources", gone)
    workflow.deployment("again", model="digits", rounds=1, topics=topics)

    def waits() -> bool:
        conditions = workflow.status("federateddeployments", "again").get("conditions") or [{}]
        return bool(conditions[0].get("reason") == "WaitingForData")

    eventually(waits, seconds=60)
    sink.data(one, 300)
    status = workflow.until("federateddeployments", "again", "Completed", timeout=120)
    assert [c["datasource"] for c in status["clients"]] == [gone]
