"""What the seed's users do by hand, as a few calls."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np

from corral.inpod.kafkaml.kafka import Access, Sender, Topic, ensure
from corral.inpod.kafkaml.ranges import Range
from corral.inpod.kafkaml.records import raw_bytes
from corral.inpod.kafkaml.weights import Part
from corral.oci import Artifacts, Reference
from tests.cluster.objects import Objects, eventually
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

    def datasource(self, name: str, where: Range, **spec: Any) -> None:
        said = {"topic": str(where), "totalMsg": len(where), "inputConfig": RAW, **spec}
        self.create("datasources", "Datasource", name, said)

    def status(self, plural: str, name: str) -> dict[str, Any]:
        found = self.objects.find(API, plural, name) or {}
        return dict(found.get("status") or {})

    def until(self, plural: str, name: str, *phases: str, timeout: float = 100) -> dict[str, Any]:
        """Wait for a phase; where it is another that is final, the status is shown."""

        def there() -> bool:
            phase = self.status(plural, name).get("phase")
            assert phase in (*phases, None, "Pending", "Running"), self.status(plural, name)
            return phase in phases

        eventually(there, seconds=timeout)
        return self.status(plural, name)

    def pull(self, reference: str, target: Path) -> Path:
        async def work() -> None:
            async with Artifacts(self.registry.registries()) as artifacts:
                where = Reference.parse(reference)
                manifest = await artifacts.manifest(where)
                await artifacts.fetch(where, manifest.layers[0], target)

        asyncio.run(work())
        return target
