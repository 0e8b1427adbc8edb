"""The seed's workflow, without any of its steps by hand."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from corral.cli.samples import load, mnist_like
from corral.podtools.kafka.client import Sender
from corral.podtools.models.confusion import confusion
from corral.podtools.models.inside import read_weights
from corral.podtools.models.layers import Dense, Sequential
from tests.cluster.kafkaml.deployments import digits
from tests.cluster.kafkaml_jobs.workflow import Workflow
from tests.cluster.objects import eventually

pytestmark = pytest.mark.timeout(300)

CODE = """
model = Sequential([Dense(32, "relu", input_shape=784), Dense(10, "softmax")], seed=11)
model.compile("adam", "categorical_crossentropy", learning_rate=0.004)
"""
RAW = {
    "data_type": "float32", "data_reshape": "784", "label_type": "float32", "label_reshape": "10",
}  # fmt: skip
SPLITS = {1: "1", 3: "6,3,1", 8: "9,6,5,4,3,2,2,1"}
EPOCHS = 10


def model() -> Sequential:
    made = Sequential([Dense(32, "relu", input_shape=784), Dense(10, "softmax")], seed=11)
    made.compile("adam", "categorical_crossentropy", learning_rate=0.004)
    return made


@pytest.mark.parametrize(
    ("clients", "rounds"),
    [
        (3, 3),
        pytest.param(1, 2, marks=pytest.mark.full),
        pytest.param(8, 5, marks=pytest.mark.full),
    ],
)
def test_a_model_is_trained_where_its_data_is_and_answers(
    workflow: Workflow, tmp_path: Path, unique: str, clients: int, rounds: int
) -> None:
    """Model, configuration, deployment, the seed's data; and the rest comes by itself."""
    workflow.model("mnist", CODE)
    workflow.create("mlconfigurations", "MLConfiguration", "all", {"models": ["mnist"]})
    workflow.deployment(
        "learn", configuration="all", rounds=rounds, clients={"min": clients},
        kwargsFit={"epochs": EPOCHS},
    )  # fmt: skip
    shards = workflow.inject_seed(f"FED-DEBUG-data_topic-{unique}", SPLITS[clients])
    assert sum(shard["samples"] for shard in shards) == 550
    assert sum(shard["test"] for shard in shards) == 50
    for key, value in workflow.messages(f"FED-DEBUG-data_topic-{unique}", 550):
        assert (len(key or b""), len(value)) == (40, 3136)

    status = workflow.until("federateddeployments", "learn", "Completed", timeout=200)
    (result,) = status["results"]
    assert [entry["version"] for entry in result["rounds"]] == list(range(rounds))
    for entry in result["rounds"]:
        assert (entry["updates"], entry["samples"]) == (clients, 550)
    sizes = {client["datasource"]: client["samples"] for client in status["clients"]}
    assert sizes == {shard["datasource"]: shard["samples"] for shard in shards}
    assert len(set(sizes.values())) > clients // 2, "shards are uneven"
    for name in sizes:
        (match,) = workflow.status("datasources", name)["matches"]
        assert match["deployment"] == "learn"

    assert all(client["trainingSeconds"] > 0 for client in status["clients"])
    assert result["trainingSeconds"] > 0

    together = model()
    together.set_weights(read_weights(workflow.pull(result["modelRef"], tmp_path / "model")))
    assert accuracy(together) > accuracy(centralised(rounds)) - 0.01
    test = load("mnist", count=550)
    found = result["testMetrics"]
    assert found["samples"] == 50
    assert found["confusion_matrix"] == confusion(together.predict(test.x[500:]), test.y[500:])
    assert found["accuracy"] == pytest.approx(np.trace(found["confusion_matrix"]) / 50)

    source, target = f"in-{unique}", f"out-{unique}"
    workflow.create(
        "inferences", "Inference", "ask",
        {"deployment": "learn", "inputTopic": source, "outputTopic": target, "inputConfig": RAW},
    )  # fmt: skip
    workflow.until("inferences", "ask", "Running")
    asked, _ = mnist_like(20, seed=6)
    with Sender(workflow.access) as sender:
        for sample in asked:
            sender.send(source, sample.tobytes())
    told = workflow.messages(target, len(asked))
    answers = [json.loads(value)["values"] for _, value in told]
    assert np.allclose(answers, together.predict(asked), atol=1e-5)


def centralised(rounds: int) -> Sequential:
    """Trained on the same 500 samples, as often, in one place."""
    made, data = model(), load("mnist", count=550)
    made.fit(data.x[:500], data.y[:500], batch_size=16, epochs=rounds * EPOCHS)
    return made


def accuracy(made: Sequential) -> float:
    """On images that nobody was trained on."""
    x, y = mnist_like(2000, seed=5)
    return made.evaluate(x, np.eye(10, dtype=np.float32)[y])["accuracy"]


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
