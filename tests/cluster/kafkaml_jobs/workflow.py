"""What the seed's users do by hand, as a few calls."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from confluent_kafka import Consumer
from typer.testing import CliRunner

from corral.cli.main import app
from corral.oci import Artifacts, Reference
from corral.podtools.kafka.client import Access, Sender, Topic, ensure
from corral.podtools.kafka.ranges import Range
from corral.podtools.kafka.records import raw_bytes
from corral.podtools.kafka.weights import Part
from tests.cluster.objects import Objects
from tests.registries import RunningRegistry

API = "kafkaml.corral.dev/v1alpha1"
RAW = {
    "data_type": "float32", "data_reshape": "64", "label_type": "float32", "label_reshape": "10",
}  # fmt: skip
CODE = """
model = Sequential([Dense(32, "relu", input_shape=64), Dense(10, "softmax")], seed=11)
model.compile("adam", "categorical_crossentropy", learning_rate=0.005)
"""


class Workflow:
    """Objects of one namespace, and what is in their topics."""

    def __init__(self, objects: Objects, access: Access, registry: RunningRegistry) -> None:
        self.objects, self.access, self.registry = objects, access, registry

    def create(self, plural: str, kind: str, name: str, spec: dict[str, Any]) -> None:
        self.objects.create(
            plural, {"apiVersion": API, "kind": kind, "metadata": {"name": name}, "spec": spec}
        )

    def model(self, name: str, code: str = CODE, **spec: Any) -> None:
        self.create("mlmodels", "MLModel", name, {"framework": "numpy", "code": code, **spec})

    def deployment(self, name: str, **spec: Any) -> None:
        rounds = spec.pop("rounds", 5)
        said = {
            "aggregation": {"rounds": rounds, **spec.pop("aggregation", {})},
            "minData": 10,
            "batch": 16,
            "kwargsFit": {"epochs": 2},
            **spec,
        }
        self.create("federateddeployments", "FederatedDeployment", name, said)

    def inject(self, topic: str, x: np.ndarray, y: np.ndarray) -> Range:
        ensure(self.access, [Topic(topic, 1_000_000)])
        records = [Part(raw_bytes(b), raw_bytes(a), ()) for a, b in zip(x, y, strict=True)]
        with Sender(self.access) as sender:
            return sender.send_all(topic, records)

    def inject_seed(self, topic: str, split: str) -> list[dict[str, Any]]:
        """The seed's 500 and 50 images, by the command line; what it says of each shard."""
        where = (
            "--bootstrap", self.access.servers,
            "--kubeconfig", str(self.objects.backend.kubeconfig),
            "-n", str(self.objects.namespace),
        )  # fmt: skip
        words = ("fl", "inject", "mnist", "--topic", topic, "--split", split, "--name", "shard")
        result = CliRunner().invoke(app, [*words, *where, "-o", "json"])
        assert result.exit_code == 0, result.output
        found: list[dict[str, Any]] = json.loads(result.stdout)
        return found

    def datasource(self, name: str, where: Range, **spec: Any) -> None:
        said = {"topic": str(where), "totalMsg": len(where), "inputConfig": RAW, **spec}
        self.create("datasources", "Datasource", name, said)

    def status(self, plural: str, name: str) -> dict[str, Any]:
        found = self.objects.find(API, plural, name) or {}
        return dict(found.get("status") or {})

    def until(self, plural: str, name: str, *phases: str, timeout: float = 100) -> dict[str, Any]:
        """Wait for a phase; where it is another that is final, the status is shown."""

        until = time.monotonic() + timeout
        while True:
            status = self.status(plural, name)
            phase = status.get("phase")
            if phase in phases:
                return status
            assert phase in (None, "Pending", "Running"), status
            assert time.monotonic() < until, status
            time.sleep(0.1)  # pods need the processor more than we do

    def messages(self, topic: str, count: int) -> list[tuple[bytes | None, bytes]]:
        """So many messages of a topic, as a plain consumer has them: keys and values."""
        consumer = Consumer(
            {**self.access.settings(), "group.id": topic, "auto.offset.reset": "earliest"}
        )
        consumer.subscribe([topic])
        found: list[tuple[bytes | None, bytes]] = []
        until = time.monotonic() + 60
        try:
            while len(found) < count and time.monotonic() < until:
                said = consumer.consume(count, timeout=1)
                found += [(m.key(), m.value()) for m in said if not m.error()]
        finally:
            consumer.close()
        assert len(found) == count
        return found

    def pull(self, reference: str, target: Path) -> Path:
        async def work() -> None:
            async with Artifacts(self.registry.registries()) as artifacts:
                where = Reference.parse(reference)
                manifest = await artifacts.manifest(where)
                await artifacts.fetch(where, manifest.layers[0], target)

        asyncio.run(work())
        return target
