"""Whole jobs with real clients: proplets train on digits that they keep to themselves."""

from __future__ import annotations

from tests.cluster.federated_clients import outside
from tests.cluster.federated_clients.digits import accuracy, client
from tests.cluster.federated_clients.federation import ELSEWHERE, MIXED, Federation, seed_job

ROUNDS = 10
MLP = {"model": "mlp", "hidden": 24, "epochs": 3, "lr": 0.3}


def test_the_seed_job_learns_as_if_all_data_were_in_one_place(federation: Federation) -> None:
    """And every model is the exact mean of the modules' updates, bit for bit."""
    name = federation.run(seed_job("fl-experiment", "proplet-1", "proplet-2", rounds=ROUNDS))
    central = accuracy(federation.data / "test.bin", outside.centrally(federation.data, ROUNDS))
    status = federation.completed(name)
    assert (status["completedRounds"], len(status["rounds"])) == (ROUNDS, ROUNDS)
    assert federation.accuracy(status["aggregatedModelRef"]) >= central - 0.01
    assert central > 0.95
    alone = outside.train(federation.data / "proplet-2", "proplet-2", 1, None)[1]
    assert accuracy(federation.data / "test.bin", alone) < central - 0.05
    for number in range(1, ROUNDS + 1):
        updates = []
        for proplet in ("proplet-1", "proplet-2"):
            envelope, payload = federation.update(f"round-{number}-{name}-{proplet}")
            assert envelope["round_id"] == number
            updates.append((envelope["num_samples"], payload))
        assert [samples for samples, _ in updates] == [834, 364]
        model = federation.store.pull(status["rounds"][number - 1]["modelRef"])
        assert model == outside.mean(updates)
    notes = federation.store.manifest(status["aggregatedModelRef"]).annotations
    assert notes["dev.corral.model.round"] == str(ROUNDS)
    assert notes["dev.corral.model.samples"] == "1198"


def test_a_module_and_a_process_take_part_in_one_round(federation: Federation) -> None:
    """They begin with the model of the registry, and send updates that no message could hold."""
    layout = client.Layout(64, MLP["hidden"], 10)
    initial = client.encode(layout.initial(9), "f32-le")
    where = f"oci://{ELSEWHERE}/models/initial:mlp"
    federation.store.push(where, initial, kind="application/vnd.corral.model.v1+f32-le")
    job = seed_job(
        "mixed", "proplet-1", "proplet-2", rounds=2, modelRef=where, hyperparams=MLP,
        taskWasmImage=MIXED,
        aggregator={"algorithm": "fedavg", "config": {"format": "f32-le"}},
    )  # fmt: skip
    job["spec"]["participants"][1]["template"] = {"runtimeClassName": ""}
    status = federation.completed(federation.run(job))
    pods = federation.pods("batch.kubernetes.io/job-name")
    kinds = {pod["spec"].get("runtimeClassName") for pod in pods}
    assert kinds == {"wasm", None}
    model = initial
    for number in (1, 2):
        expected = [
            outside.train(federation.data / proplet, proplet, number, model, MLP)
            for proplet in ("proplet-1", "proplet-2")
        ]
        for proplet, (samples, payload) in zip(("proplet-1", "proplet-2"), expected, strict=True):
            sent = federation.task(f"round-{number}-mixed-{proplet}")["results"]
            assert (sent["num_samples"], sent["update_bytes"]) == (samples, len(payload))
        model = outside.mean(expected)
        assert federation.store.pull(status["rounds"][number - 1]["modelRef"]) == model
