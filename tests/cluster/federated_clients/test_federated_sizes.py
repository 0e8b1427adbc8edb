"""Updates of any size, as couriers carry them, and what ``corral operator`` needs for them.

The contents are random, as trained weights are: means of them are not exact in float32.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from corral.podtools.uploader.uploader import Uploader
from tests.backends import Backend, own_backend
from tests.cluster.federated_clients import outside
from tests.cluster.federated_clients.federation import API, Federation, Store, seed_job
from tests.cluster.objects import Objects, eventually
from tests.cluster.operator.conftest import set_up
from tests.cluster.operator.operators import Replica
from tests.registries import RunningRegistry, running_registry

DIFFERENT = 8
"""Contents; the registry keeps each once, and every client has an artifact of its own."""
PLACES = 500
"""Parameters at which the mean is computed outside."""


@pytest.fixture
def backend(tmp_path: Path) -> Iterator[Backend]:
    """A cluster without any proplet: the case plays them."""
    with own_backend(tmp_path / "cluster") as backend:
        asyncio.run(set_up(str(backend.kubeconfig)))
        yield backend


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Path]:
    """A folder of which nothing is kept."""
    folder = tmp_path / "room"
    folder.mkdir()
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def registry(room: Path) -> Iterator[RunningRegistry]:
    with running_registry(room / "registry") as registry:
        yield registry


@pytest.fixture
def replica(backend: Backend, registry: RunningRegistry, tmp_path: Path) -> Iterator[Replica]:
    """``corral operator``, with all of its families."""
    pairs = [f"--registry-map={pair}" for pair in registry.pairs()]
    options = ("--no-leader-elect", "--registry", registry.base, *pairs)
    replica = Replica(backend.kubeconfig, tmp_path, "operator", *options)
    replica.wait()
    yield replica
    replica.kill()


def peak(replica: Replica) -> int:
    """The most memory that the process has had, in bytes; files that it maps count."""
    text = Path(f"/proc/{replica.process.pid}/status").read_text()
    (line,) = [line for line in text.splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) * 1024


def deliver(folder: Path, content: Path, env: dict[str, str], samples: int) -> dict[str, Any]:
    """What a courier says after a task has left this update."""
    folder.mkdir()
    os.link(content, folder / "update")
    told = {"num_samples": samples, "format": "f32-le"}
    (folder / "result.json").write_text(json.dumps(told))
    said: list[str] = []
    message = Uploader({**env, "FL_DIR": str(folder)}, say=said.append).last_words()
    assert message, said
    found: dict[str, Any] = json.loads(message)
    return found


@pytest.mark.parametrize(
    ("clients", "size", "models"),
    [
        pytest.param(12, 1_000_000, None, id="short"),
        pytest.param(
            64, 100_000_000, 3, id="long", marks=[pytest.mark.soak, pytest.mark.timeout(3000)]
        ),
    ],
)
def test_updates_of_this_size(
    objects: Objects,
    registry: RunningRegistry,
    replica: Replica,
    room: Path,
    *,
    clients: int,
    size: int,
    models: int | None,
) -> None:
    """The operator needs less than three models, however many clients there are."""
    federation = Federation(objects, Store(registry), room)
    names = [f"p{number:02}" for number in range(clients)]
    objects.create("federatedjobs", seed_job("big", *names, rounds=1, timeoutSeconds=3600))
    before = peak(replica)
    places = np.random.default_rng(0).integers(size, size=PLACES)
    sampled = [write(room / f"content-{n}", n, size)[places] for n in range(DIFFERENT)]
    total = np.zeros(DIFFERENT, np.int64)
    for number, name in enumerate(names):
        task = f"round-1-big-{name}"
        eventually(lambda task=task: objects.find(API, "wasmtasks", task), seconds=60)
        samples = 100 + 7 * number
        total[number % DIFFERENT] += samples
        env = {
            "FL_UPDATE_REF": f"{registry.base}/{objects.namespace}/big/updates:{task}",
            "CORRAL_REGISTRIES": json.dumps(dict(p.split("=", 1) for p in registry.pairs())),
            "ROUND_ID": "round-1", "FL_JOB_ID": "exp-001", "PROPLET_ID": name, "TASK_ID": task,
        }  # fmt: skip
        content = room / f"content-{number % DIFFERENT}"
        results = deliver(room / name, content, env, samples)
        assert results["update_bytes"] == 4 * size
        told = {"status": {"phase": "Completed", "results": results}}
        objects.patch(API, "wasmtasks", task, told, subresource="status")
    status = federation.completed("big", seconds=2000)
    most = peak(replica)
    (round_,) = status["rounds"]
    print(
        f"{clients} clients x {size} float32: peak {most / 1e6:.0f} MB ({before / 1e6:.0f} MB "
        f"before), model {4 * size / 1e6:.0f} MB, aggregated in {round_['aggregationSeconds']} s"
    )
    assert (round_["updates"], round_["bytes"]) == (clients, 4 * size * clients)
    model = np.frombuffer(federation.store.pull(status["aggregatedModelRef"]), "<f4")
    assert len(model) == size
    for at, place in enumerate(places):
        parts = (Fraction(float(sampled[n][at])) * int(total[n]) for n in range(DIFFERENT))
        assert model[place] == outside.nearest(sum(parts, Fraction(0)) / int(total.sum()))
    if models is not None:
        assert most < models * 4 * size


def write(path: Path, seed: int, size: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    """A file of random weights; the same for a seed."""
    weights = np.random.default_rng(seed).standard_normal(size, np.float32)
    weights *= np.float32(0.05)
    path.write_bytes(weights.astype("<f4", copy=False).data)
    return weights
