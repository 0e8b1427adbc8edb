"""Large updates by the registry: 64 clients with 100 million float32 each.

What the operator may need is measured against the model, from its start to the pushed result.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.backends import Backend
from tests.cluster.federated_rounds.learning_operating import REGISTRY, Learning, job
from tests.cluster.federated_rounds.operator_process import OperatorProcess
from tests.cluster.federated_rounds.registry_box import RegistryBox
from tests.cluster.objects import Objects

DIFFERENT = 2
"""Payloads; the registry keeps each once, and every client has an artifact of its own."""


@pytest.mark.parametrize(
    ("clients", "size", "most"),
    [
        pytest.param(8, 2_000_000, None, id="short"),
        pytest.param(
            64, 100_000_000, 3.0, id="long", marks=[pytest.mark.soak, pytest.mark.timeout(1500)]
        ),
    ],
)
def test_large_updates(
    backend: Backend,
    objects: Objects,
    registry: RegistryBox,
    tmp_path: Path,
    *,
    clients: int,
    size: int,
    most: float | None,
) -> None:
    """The mean of -1 and 3, weighted by samples; the operator needs less than 3 models."""
    learning = Learning(objects, registry)
    names = [f"p{number:02}" for number in range(clients)]
    with OperatorProcess(backend.kubeconfig, registry.url, tmp_path / "operator.log") as operator:
        learning.create(job("big", *names, timeoutSeconds=3600))
        for number, name in enumerate(names):
            value = -1.0 if number % DIFFERENT else 3.0
            where = f"oci://{REGISTRY}/{objects.namespace}/big/updates:round-1-big-{name}"
            body = np.full(size, value, "<f4").tobytes()
            reference = registry.push(where, body, note=name)
            del body
            more = {"update_b64": None, "update_ref": reference, "format": "f32-le"}
            samples = 1 if number % DIFFERENT else 3
            learning.send(f"round-1-big-{name}", [], samples=samples, **more)
        status = learning.until("trainingrounds", "round-1-big", "Completed", seconds=1200)
        peak = operator.peak()
    print(
        f"peak {peak / 1e6:.0f} MB, model {4 * size / 1e6:.0f} MB, {status['aggregationSeconds']} s"
    )
    assert (status["bytes"], status["updatesReceived"]) == (clients * size * 4, clients)
    model = np.frombuffer(registry.layer(status["aggregatedModelRef"]), "<f4")
    assert (len(model), float(model.min()), float(model.max())) == (size, 2.0, 2.0)
    if most is not None:
        assert peak < most * 4 * size
