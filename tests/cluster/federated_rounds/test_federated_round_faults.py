"""Whatever goes wrong on the way to the API server, every update counts once and rounds follow."""

from __future__ import annotations

import os
import random
from pathlib import Path

from tests.backends import Backend
from tests.cluster.federated_rounds.learning_operating import Learning, job
from tests.cluster.federated_rounds.operator_process import OperatorProcess
from tests.cluster.federated_rounds.playing import Proplets
from tests.cluster.federated_rounds.registry_box import RegistryBox
from tests.cluster.objects import Objects
from tests.faults.plan import Fault, FaultPlan
from tests.faults.proxy import FaultProxy

NAMES = ("p1", "p2", "p3")
ROUNDS = 3
JOBS = 2


def test_jobs_complete(
    backend: Backend, objects: Objects, registry: RegistryBox, tmp_path: Path
) -> None:
    seed = int(os.environ.get("CORRAL_SEED") or random.SystemRandom().randrange(10**6))
    print(f"CORRAL_SEED={seed}")
    learning = Learning(objects, registry)
    names = [f"faulty-{number}" for number in range(JOBS)]
    with (
        FaultProxy(backend, tmp_path, FaultPlan(seed, rate=0.2)) as proxy,
        OperatorProcess(proxy.kubeconfig, registry.url, tmp_path / "operator.log"),
        Proplets(learning),
    ):
        for name in names:
            learning.create(job(name, *NAMES, rounds=ROUNDS))
        statuses = [
            learning.until("federatedjobs", name, "Completed", seconds=120) for name in names
        ]
    faults = proxy.audit.faults()
    assert set(faults) >= {Fault.ERROR, Fault.DROP, Fault.LOST}, faults
    for status in statuses:
        assert [r["round"] for r in status["rounds"]] == list(range(1, ROUNDS + 1))
        assert [r["updates"] for r in status["rounds"]] == [len(NAMES)] * ROUNDS
        assert [p["updates"] for p in status["participants"]] == [ROUNDS] * len(NAMES)
    made = [e.object["metadata"]["name"] for e in proxy.audit.creations("wasmtasks")]
    assert len(made) == len(set(made)) == JOBS * ROUNDS * len(NAMES)
    last = {registry.digests(status["aggregatedModelRef"])[0] for status in statuses}
    assert len(last) == 1, "the same updates make the same model"
