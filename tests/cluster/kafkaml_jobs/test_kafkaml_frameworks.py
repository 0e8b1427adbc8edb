"""Models of the frameworks that people bring: Keras travels as JSON, PyTorch as its code."""

from __future__ import annotations

import json
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

from corral.podtools.kafka.client import Sender
from tests.cluster.kafkaml.deployments import digits
from tests.cluster.kafkaml_jobs.workflow import RAW, Workflow

pytestmark = pytest.mark.timeout(300)

KERAS = """
model = keras.Sequential([
    keras.layers.Input((64,)),
    keras.layers.Dense(32, activation="relu"),
    keras.layers.Dense(10, activation="softmax"),
])
model.compile(
    optimizer=keras.optimizers.Adam(0.01), loss="categorical_crossentropy", metrics=["accuracy"],
)
"""
TORCH = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.body = nn.Sequential(
            nn.Linear(64, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 10)
        )
    def forward(self, x):
        return self.body(x)
    def loss_fn(self):
        return nn.CrossEntropyLoss()
    def optimizer(self):
        return torch.optim.Adam(self.parameters(), lr=0.01)
    def metrics(self):
        return {}
model = Net()
"""
CODE = {"tf": KERAS, "pth": TORCH}
NEEDS = {"tf": "keras", "pth": "torch"}


def framework(name: str) -> Any:
    missing = find_spec(NEEDS[name]) is None
    marks = [pytest.mark.skipif(missing, reason=f"{NEEDS[name]} is not installed")]
    if name == "tf":
        marks.append(pytest.mark.soak)  # Keras takes seconds to load, in every round
    return pytest.param(name, marks=marks)


@pytest.mark.parametrize("name", [framework(name) for name in CODE])
def test_a_model_of_a_framework_is_trained_tested_and_asked(
    workflow: Workflow, unique: str, name: str
) -> None:
    x, y = digits()
    workflow.model("net", CODE[name], framework=name)
    workflow.deployment("learn", model="net", rounds=2, clients={"min": 2}, kwargsFit={"epochs": 4})
    for n, (low, high) in enumerate(((0, 800), (800, 1200))):
        where = workflow.inject(f"data-{unique}-{n}", x[low:high], y[low:high])
        workflow.datasource(f"shard-{n}", where, testRate=0.1)
    status = workflow.until("federateddeployments", "learn", "Completed", timeout=250)
    (result,) = status["results"]
    assert [entry["updates"] for entry in result["rounds"]] == [2, 2]
    assert result["testMetrics"]["accuracy"] > 0.8
    assert result["testMetrics"]["samples"] == 120

    source, target = f"in-{unique}", f"out-{unique}"
    workflow.create(
        "inferences", "Inference", "ask",
        {"deployment": "learn", "inputTopic": source, "outputTopic": target, "inputConfig": RAW},
    )  # fmt: skip
    workflow.until("inferences", "ask", "Running")
    with Sender(workflow.access) as sender:
        for sample in x[1200:1300]:
            sender.send(source, sample.tobytes())
    answers = [json.loads(value)["values"] for _, value in workflow.messages(target, 100)]
    found = np.array(answers).argmax(axis=1) == y[1200:1300].argmax(axis=1)
    assert found.mean() > 0.8
