"""The same manifest on a cluster and simulated: the same models, bit for bit."""

from __future__ import annotations

import asyncio
from copy import deepcopy
from pathlib import Path

from corral.families.federated.simulator import Setting, Simulation
from corral.learning.simulation import Pool
from tests.cluster.federated_clients.federation import Federation, Obj, seed_job
from tests.cluster.federated_clients.modules import EXAMPLES

ROUNDS = 3


def simulated(job: Obj, data: Path, folder: Path) -> Obj:
    """The status of the job after a simulation with the Python client."""

    async def run() -> Obj:
        simulation = Simulation(job, Setting(folder / "models", data=data))
        with Pool(f"{EXAMPLES / 'client.py'}:take_part", folder=folder, workers=2) as pool:
            async for _ in simulation.rounds(pool):
                pass
        return dict(simulation.job["status"])

    return asyncio.run(run())


def test_a_simulation_gives_the_models_of_the_cluster(
    federation: Federation, tmp_path: Path
) -> None:
    job = seed_job(
        "twice", "proplet-1", "proplet-2", rounds=ROUNDS, hyperparams={"epochs": 2},
        aggregator={"algorithm": "fedadam", "config": {"learning_rate": 0.05}},
    )  # fmt: skip
    manifest = deepcopy(job)
    there = federation.completed(federation.run(job))
    here = simulated(manifest, federation.data, tmp_path)
    assert here["phase"] == "Completed"
    for number in range(1, ROUNDS + 1):
        on_cluster = there["rounds"][number - 1]
        in_simulation = here["rounds"][number - 1]
        model = federation.store.pull(on_cluster["modelRef"])
        assert (tmp_path / "models" / f"round-{number}.f32-le").read_bytes() == model
        for key in ("round", "updates", "samples", "bytes", "metrics"):
            assert in_simulation[key] == on_cluster[key]
