"""The seed's debug_training_job.yaml, applied as it is."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import yaml

from tests.cluster.broker.broker_servers import Server
from tests.cluster.kafkaml_jobs.workflow import Workflow
from tests.cluster.objects import Objects, eventually

pytestmark = pytest.mark.timeout(300)

CODE = """
model = Sequential([Dense(16, "relu", input_shape=784), Dense(10, "softmax")], seed=3)
model.compile("adam", "categorical_crossentropy", learning_rate=0.005)
"""


def mnist_shaped(count: int) -> tuple[np.ndarray, np.ndarray]:
    """28 x 28 pictures of ten kinds, one-hot labels, float32: 3,136 and 40 bytes."""
    rng = np.random.default_rng(4)
    kinds = rng.random((10, 784))
    labels = rng.integers(0, 10, count)
    x = np.clip(kinds[labels] + rng.normal(0, 0.3, (count, 784)), 0, 1).astype(np.float32)
    return x, np.eye(10, dtype=np.float32)[labels]


def test_the_seeds_job_does_its_part(
    workflow: Workflow, cluster: Objects, broker: Server, repository: Path
) -> None:
    job = yaml.safe_load((repository / "examples/kafkaml/debug_training_job.yaml").read_text())
    space = job["metadata"]["namespace"]
    cluster.create(
        "namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space}}
    )
    inside = Objects(cluster.backend, space)
    eventually(lambda: inside.find("v1", "serviceaccounts", "default"))
    seed = Workflow(inside, workflow.access, workflow.registry)
    for made in kafka_service(broker.port):
        plural = "services" if made["kind"] == "Service" else "pods"
        inside.create(plural, made)
    x, y = mnist_shaped(550)
    seed.inject("FED-DEBUG-data_topic", x, y)
    seed.model("mnist", CODE)
    seed.deployment(
        "debug", model="mnist", rounds=3, federatedStringId="ddy6heod", clients={"external": True}
    )
    seed.until("mlmodels", "mnist", "Ready")
    inside.create("jobs", job)
    status = seed.until("federateddeployments", "debug", "Completed", timeout=200)
    (result,) = status["results"]
    assert [entry["clients"] for entry in result["rounds"]] == [["test123"]] * 3
    assert [entry["samples"] for entry in result["rounds"]] == [550] * 3
    assert result["trainMetrics"]["accuracy"] > 0.9
    cluster.delete("v1", "namespaces", space)


RELAY = """
import os, socket, threading
def copy(a, b):
    while data := a.recv(65536):
        b.sendall(data)
    b.shutdown(socket.SHUT_WR)
server = socket.create_server((os.environ["CORRAL_POD_IP"], 9092))
while True:
    one, _ = server.accept()
    other = socket.create_connection(("127.0.0.1", %d))
    for pair in ((one, other), (other, one)):
        threading.Thread(target=copy, args=pair, daemon=True).start()
"""


def kafka_service(port: int) -> list[dict[str, object]]:
    """``kafka:9092`` as the seed's pods call it, leading to the broker of the case."""
    container = {"name": "relay", "image": "python", "command": ["python", "-c", RELAY % port]}
    return [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "kafka"},
            "spec": {"selector": {"app": "kafka"}, "ports": [{"name": "kafka", "port": 9092}]},
        },
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "kafka-0", "labels": {"app": "kafka"}},
            "spec": {"containers": [container], "terminationGracePeriodSeconds": 1},
        },
    ]
