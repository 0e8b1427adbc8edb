"""The seed's workflow, without any of its steps by hand."""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np
import pytest
from confluent_kafka import Consumer

from corral.inpod.kafkaml.inside import read_weights
from corral.inpod.kafkaml.kafka import Sender
from tests.cluster.kafkaml.deployments import digits, model
from tests.cluster.kafkaml_jobs.workflow import RAW, Workflow
from tests.cluster.objects import eventually

pytestmark = pytest.mark.timeout(300)


def test_a_model_is_trained_where_its_data_is_and_answers(
    workflow: Workflow, tmp_path: Path, unique: str
) -> None:
    x, y = digits()
    workflow.model("digits")
    workflow.create("mlconfigurations", "MLConfiguration", "all", {"models": ["digits"]})
    workflow.deployment("learn", configuration="all", rounds=8, clients={"min": 3})
    bounds = np.cumsum([0, 840, 420, 140])
    for n in range(3):
        low, high = bounds[n], bounds[n + 1]
        where = workflow.inject(f"data-{unique}-{n}", x[low:high], y[low:high])
        workflow.datasource(f"shard-{n}", where)
    status = workflow.until("federateddeployments", "learn", "Completed", timeout=200)
    (result,) = status["results"]
    assert [entry["version"] for entry in result["rounds"]] == list(range(8))
    assert all(entry["updates"] == 3 and entry["samples"] == 1400 for entry in result["rounds"])
    assert len(status["clients"]) == 3
    shard = workflow.status("datasources", "shard-0")
    assert shard["matches"][0]["deployment"] == "learn"

    together, alone = model(), model()
    together.set_weights(read_weights(workflow.pull(result["modelRef"], tmp_path / "model")))
    alone.fit(x[:1400], y[:1400], batch_size=16, epochs=16)
    found = together.evaluate(x[1400:], y[1400:])["accuracy"]
    assert found > alone.evaluate(x[1400:], y[1400:])["accuracy"] - 0.01

    source, target = f"in-{unique}", f"out-{unique}"
    workflow.create(
        "inferences", "Inference", "ask",
        {"deployment": "learn", "inputTopic": source, "outputTopic": target, "inputConfig": RAW},
    )  # fmt: skip
    workflow.until("inferences", "ask", "Running")
    asked = x[1400:1420]
    with Sender(workflow.access) as sender:
        for sample in asked:
            sender.send(source, sample.tobytes())
    answers = [json.loads(text)["values"] for text in read_all(workflow, target, len(asked))]
    assert np.allclose(answers, together.predict(asked), atol=1e-5)


def read_all(workflow: Workflow, topic: str, count: int) -> list[bytes]:
    consumer = Consumer(
        {
            **workflow.access.settings(), "group.id": topic, "auto.offset.reset": "earliest",
        }
    )  # fmt: skip
    consumer.subscribe([topic])
    found: list[bytes] = []
    until = time.monotonic() + 60
    try:
        while len(found) < count and time.monotonic() < until:
            found += [m.value() for m in consumer.consume(count, timeout=1) if not m.error()]
    finally:
        consumer.close()
    assert len(found) == count
    return found


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("open('/etc/passwd').read()", "PermissionError"),
        ("import socket; socket.create_connection(('127.0.0.1', 80))", "PermissionError"),
        ("while True: pass", "its time was over"),
        ("model = 3", "not a Sequential"),
    ],
)
def test_code_that_is_no_model_is_stopped_in_its_sandbox(
    workflow: Workflow, code: str, words: str
) -> None:
    workflow.model("bad", code, checkSeconds=5)
    status = workflow.until("mlmodels", "bad", "Failed")
    assert words in status["error"]
    workflow.deployment("never", model="bad")
    found = workflow.until("federateddeployments", "never", "Failed")
    assert "cannot be trained" in found["conditions"][0]["message"]


def test_data_that_does_not_fit_is_left_alone(workflow: Workflow, unique: str) -> None:
    x, y = digits()
    workflow.model("digits")
    workflow.deployment("picky", model="digits", minData=100, dataRestriction={"site": "a"})
    where = workflow.inject(f"data-{unique}", x[:50], y[:50])
    workflow.datasource("few", where, datasetRestrictions={"site": "a"})
    where = workflow.inject(f"data-{unique}", x[:150], y[:150])
    workflow.datasource("other", where)
    workflow.until("mlmodels", "digits", "Ready")

    def waits() -> bool:
        conditions = workflow.status("federateddeployments", "picky").get("conditions") or [{}]
        return bool(conditions[0].get("reason") == "WaitingForData")

    eventually(waits, seconds=60)
    assert not workflow.status("federateddeployments", "picky").get("clients")
