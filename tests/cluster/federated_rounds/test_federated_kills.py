"""The operator is killed again and again at its writes: the model is the undisturbed run's.

A kill comes just before a request of the operator is passed on or just after: either the server
never saw it, or it did and nobody heard of it.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from pathlib import Path

import pytest

from tests.backends import Backend
from tests.cluster.federated_rounds.learning_operating import Learning, Operator, job
from tests.cluster.federated_rounds.operator_process import OperatorProcess
from tests.cluster.federated_rounds.playing import Proplets
from tests.cluster.federated_rounds.registry_box import RegistryBox
from tests.cluster.objects import Objects
from tests.faults.audit import Entry
from tests.faults.plan import FaultPlan
from tests.faults.proxy import FaultProxy

NAMES = ("p1", "p2", "p3")
WRITES = ("POST", "PATCH", "PUT", "DELETE")


class Killer:
    """Ends the operator at some of its writes."""

    def __init__(self, rng: random.Random, kills: int, *, most: int) -> None:
        self.operator: OperatorProcess | None = None
        self.done: Counter[str] = Counter()
        self._rng, self._left, self._most = rng, kills, most
        self._countdown = rng.randint(1, most)

    @property
    def left(self) -> int:
        return self._left

    async def __call__(self, entry: Entry) -> None:
        target = entry.target
        if entry.method not in WRITES or target.resource == "events" or self._left <= 0:
            return
        self._countdown -= 1
        if self._countdown > 0:
            return
        assert self.operator is not None
        self._left -= 1
        self._countdown = self._rng.randint(1, self._most)
        lost = self._rng.random() < 0.5
        self.done[f"{target.resource}/{target.subresource} {'lost' if lost else 'done'}"] += 1
        self.operator.kill()
        if lost:
            raise ConnectionResetError("the operator was killed before it could ask")


@pytest.mark.parametrize(
    ("kills", "rounds", "most"),
    [
        pytest.param(9, 4, 9, id="short"),
        pytest.param(50, 10, 4, id="long", marks=[pytest.mark.soak, pytest.mark.timeout(600)]),
    ],
)
def test_the_model_does_not_depend_on_kills(
    backend: Backend,
    objects: Objects,
    registry: RegistryBox,
    tmp_path: Path,
    *,
    kills: int,
    rounds: int,
    most: int,
) -> None:
    seed = int(os.environ.get("CORRAL_SEED") or random.SystemRandom().randrange(10**6))
    print(f"CORRAL_SEED={seed}")
    killer = Killer(random.Random(seed), kills, most=most)
    learning = Learning(objects, registry)
    aggregator = {"algorithm": "fedadam", "config": {"learning_rate": 0.3}}
    spec = {"rounds": rounds, "aggregator": aggregator, "timeoutSeconds": 600}
    quiet = Operator(str(backend.kubeconfig), registry.url).start()
    try:
        with Proplets(learning):
            learning.create(job("calm", *NAMES, **spec))
            learning.until("federatedjobs", "calm", "Completed")
    finally:
        quiet.kill()
    with (
        FaultProxy(backend, tmp_path, FaultPlan(seed), meddler=killer) as proxy,
        OperatorProcess(proxy.kubeconfig, registry.url, tmp_path / "operator.log") as operator,
    ):
        killer.operator = operator
        with Proplets(learning):
            learning.create(job("storm", *NAMES, **spec))
            learning.until("federatedjobs", "storm", "Completed", seconds=60 + 8 * kills)
        made = [
            entry.object["metadata"]["name"]
            for entry in proxy.audit.creations("trainingrounds", objects.namespace)
        ]
    print(killer.done)
    assert killer.left == 0, "the job was over before all kills"
    assert made == [f"round-{n}-storm" for n in range(1, rounds + 1)]
    calm, storm = (learning.status("federatedjobs", name) for name in ("calm", "storm"))
    assert storm["completedRounds"] == rounds
    assert [r["round"] for r in storm["rounds"]] == list(range(1, rounds + 1))
    assert [p["updates"] for p in storm["participants"]] == [rounds] * len(NAMES)
    for one, other in zip(calm["rounds"], storm["rounds"], strict=True):
        assert registry.digests(one["modelRef"]) == registry.digests(other["modelRef"])
    assert len(registry.digests(storm["aggregatedModelRef"])) == 2
