"""One participant against a round: the model is the others', and the status names the liar."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from corral.api.propeller.kinds import KINDS
from tests.backends import Backend
from tests.cluster.federated_rounds.learning_operating import Learning, Operator, job
from tests.cluster.federated_rounds.registry_box import RegistryBox
from tests.cluster.objects import Objects
from tests.cluster.operators import install


@pytest.fixture
def learning(objects: Objects, backend: Backend, tmp_path: Path) -> Iterator[Learning]:
    install(Objects(backend), [kind.crd() for kind in KINDS])
    with RegistryBox(tmp_path) as registry:
        operator = Operator(str(backend.kubeconfig), registry.url).start()
        try:
            yield Learning(objects, registry)
        finally:
            operator.kill()


def entry(status: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(e for e in status["participants"] if e["propletId"] == name)
    return found


LIES: dict[str, tuple[dict[str, Any], str]] = {
    "format": ({"format": "no-such-format"}, "cannot read the format"),
    "pickle": ({"format": "npy", "update_b64": "gASVBQAAAAAAAAB9lC4="}, "invalid npy payload"),
    "long format": ({"format": "x" * 5000}, "format is no name"),
    "no samples": ({"num_samples": -5}, "num_samples is -5"),
    "another round": ({"round_id": 7}, "it is of round 7"),
    "another's name": ({"proplet_id": "good-1"}, "but the task is of a-liar"),
}


@pytest.mark.attack(
    "rounds", "Spoils a round of the operator with its update", "Refused by name, the round is made"
)
@pytest.mark.parametrize("lie", LIES)
def test_the_round_is_made_without_the_liar(learning: Learning, lie: str) -> None:
    change, words = LIES[lie]
    learning.create(job("fl", "a-liar", "good-1", "good-2", "good-3", kOfN=3))
    learning.send("round-1-fl-a-liar", [9.0, 9.0], samples=1, **change)
    for number, values in enumerate(([1.0, 2.0], [3.0, 4.0], [5.0, 6.0]), 1):
        learning.send(f"round-1-fl-good-{number}", values, samples=1)
    status = learning.until("trainingrounds", "round-1-fl", "Completed")
    assert learning.model(status["aggregatedModelRef"]) == [3.0, 4.0]
    assert (status["format"], status["updatesRejected"]) == ("json-f64", 1)
    assert entry(status, "a-liar")["rejected"] is True
    assert words in entry(status, "a-liar")["message"]


@pytest.mark.attack(
    "rounds", "Says 2^31 samples to the operator", "It counts for ten medians, and that is told"
)
def test_a_count_that_takes_the_model(learning: Learning) -> None:
    learning.create(job("fl", "a-liar", "good-1", "good-2", kOfN=3))
    learning.send("round-1-fl-a-liar", [9.0], samples=2**31 - 1, metrics={"loss": 1e299})
    for number in (1, 2):
        learning.send(f"round-1-fl-good-{number}", [1.0], samples=5, metrics={"loss": 0.5})
    status = learning.until("trainingrounds", "round-1-fl", "Completed")
    assert learning.model(status["aggregatedModelRef"]) == [(9.0 * 50 + 10) / 60]
    assert (status["samples"], status["metrics"]) == (60, {"loss": 0.5})
    assert "it counts for 50 samples" in entry(status, "a-liar")["message"]
    assert "a-liar" in learning.told("round-1-fl", "SamplesBounded")


@pytest.mark.attack(
    "rounds", "Says more samples than the job's max_samples", "It is refused, the others count"
)
def test_a_declared_limit(learning: Learning) -> None:
    wanted = job("fl", "a-liar", "good-1", "good-2", kOfN=2)
    wanted["spec"]["aggregator"] = {"algorithm": "fedavg", "config": {"max_samples": 100}}
    learning.create(wanted)
    learning.send("round-1-fl-a-liar", [9.0], samples=101)
    for number in (1, 2):
        learning.send(f"round-1-fl-good-{number}", [1.0], samples=100)
    status = learning.until("trainingrounds", "round-1-fl", "Completed")
    assert learning.model(status["aggregatedModelRef"]) == [1.0]
    assert "the job allows 100" in entry(status, "a-liar")["message"]
