"""Simulated jobs: the rounds of the controllers, without a cluster."""

from __future__ import annotations

import json
import math
import struct
import tempfile
from pathlib import Path

import pytest

from corral.families.federated.simulator import (
    Arrivals,
    CannotSimulate,
    Setting,
    Simulation,
    with_clients,
)
from corral.learning import codec
from corral.learning.simulation import Pool
from corral.learning.simulation.clients import answer

SIZE = 5


def train(env):
    """Moves the model by what the client's name says, and tells what it was told."""
    client = int(env["PROPLET_ID"].rpartition("-")[2])
    path = Path(env["FL_DIR"]) / "model"
    before = struct.unpack(f"<{SIZE}f", path.read_bytes()) if path.exists() else (0.0,) * SIZE
    assert path.exists() == ("FL_GLOBAL_UPDATE_B64" in env)
    values = [value + client / 4 for value in before]
    hyper = json.loads(env.get("HYPERPARAMS") or "{}")
    if client == hyper.get("byzantine"):
        values[0] = math.nan
    if client == hyper.get("failing"):
        raise RuntimeError("no data today")
    return {
        "round_id": env["ROUND_ID"],
        "proplet_id": env["PROPLET_ID"],
        "num_samples": 10 * client,
        "format": "f32-le",
        "metrics": {"loss": 1.0 / client},
        "update": struct.pack(f"<{SIZE}f", *values),
    }


class Here:
    """Clients in this process."""

    def __init__(self, folder):
        self.folder = folder
        self.worked = []

    async def run(self, works, *, model=""):
        link = self.folder / "model"
        link.unlink(missing_ok=True)
        if model:
            link.symlink_to(model)
        self.worked += [work.client for work in works]
        return [answer(train, work, self.folder) for work in works]


def job(clients=3, needed=None, total=2, **spec):
    return {
        "apiVersion": "propeller.absmach.io/v1alpha1",
        "kind": "FederatedJob",
        "metadata": {"name": "sim"},
        "spec": {
            "experimentId": "exp",
            "modelRef": "oci://registry/model:v1",
            "taskWasmImage": "oci://registry/client:v1",
            "participants": [{"propletId": f"client-{n}"} for n in range(1, clients + 1)],
            "kOfN": needed or clients,
            "timeoutSeconds": 60,
            "rounds": {"total": total, **spec.pop("rounds", {})},
            "aggregator": spec.pop("aggregator", {"algorithm": "fedavg"}),
            **spec,
        },
    }


@pytest.fixture
def simulated(tmp_path):
    """Runs a job; its status, the rounds' statuses, and who trained."""

    async def run(manifest, **arrivals):
        out = Path(tempfile.mkdtemp(dir=tmp_path))
        work = Path(tempfile.mkdtemp(dir=tmp_path))
        clients = Here(work)
        simulation = Simulation(manifest, Setting(out, arrivals=Arrivals(**arrivals)))
        rounds = [round_["status"] async for round_ in simulation.rounds(clients)]
        return simulation.job["status"], rounds, clients.worked, out

    return run


def model(out, number):
    return codec("f32-le").decode((out / f"round-{number}.f32-le").read_bytes()).vectors[0]


async def test_rounds_build_on_each_other(simulated):
    status, rounds, worked, out = await simulated(job())
    assert status["phase"] == "Completed"
    assert status["completedRounds"] == 2
    assert [entry["updates"] for entry in status["rounds"]] == [3, 3]
    # (1 * 10 + 2 * 20 + 3 * 30) / 60 quarters, once and then on top of that
    assert model(out, 1).tolist() == pytest.approx([140 / 60 / 4] * SIZE)
    assert model(out, 2).tolist() == pytest.approx([140 / 30 / 4] * SIZE)
    assert len(worked) == 6
    assert rounds[1]["baseModelRef"] == rounds[0]["aggregatedModelRef"]
    assert rounds[0]["samples"] == 60
    assert rounds[0]["metrics"]["loss"] == pytest.approx((10 + 10 + 10) / 60)
    assert status["participants"][2]["updates"] == 2


async def test_the_same_again_is_the_same(simulated):
    manifest = job(20, 12, aggregator={"algorithm": "fedadam"}, total=3)
    outs = [(await simulated(manifest, spread=1.0, failing=0.2, seed=5))[3] for _ in range(2)]
    names = sorted(path.name for path in outs[0].iterdir())
    assert "round-3.state" in names
    for name in names:
        assert (outs[0] / name).read_bytes() == (outs[1] / name).read_bytes()


async def test_the_first_make_the_round(simulated):
    status, rounds, worked, _ = await simulated(job(10, 4, total=1), spread=1.0, seed=1)
    assert status["phase"] == "Completed"
    chosen = [e["propletId"] for e in rounds[0]["participants"] if e.get("selected")]
    assert len(chosen) == 4
    assert sorted(worked) == sorted(chosen)
    late = [e for e in rounds[0]["participants"] if not e.get("selected")]
    assert {e["status"] for e in late} == {"Failed"}
    times = {name: Arrivals(spread=1.0, seed=1).seconds(name, 1) for name in
             (e["propletId"] for e in rounds[0]["participants"])}  # fmt: skip
    assert set(chosen) == set(sorted(times, key=times.get)[:4])


async def test_who_comes_late_counts_in_a_later_round(simulated):
    manifest = job(4, 2, total=3, rounds={"strategy": "parallel"})
    _, rounds, _, _ = await simulated(manifest, spread=1.5, seed=3)
    late = [e for status in rounds for e in status["participants"] if e.get("roundsLate")]
    assert any(e.get("selected") for e in late)


async def test_a_byzantine_update_is_left_out(simulated):
    manifest = job(4, 3, total=1, hyperparams={"byzantine": 4})
    status, rounds, _, out = await simulated(manifest)
    assert status["phase"] == "Completed"
    assert rounds[0]["updatesRejected"] == 1
    refused = next(e for e in rounds[0]["participants"] if e.get("rejected"))
    assert (refused["propletId"], "NaN" in refused["message"]) == ("client-4", True)
    assert model(out, 1).tolist() == pytest.approx([140 / 60 / 4] * SIZE)


async def test_a_client_that_fails(simulated):
    status, rounds, _, _ = await simulated(job(3, hyperparams={"failing": 2}))
    assert status["phase"] == "Failed"
    assert "InsufficientUpdates" in status["message"]
    failed = next(e for e in rounds[0]["participants"] if e["propletId"] == "client-2")
    assert failed["message"] == "no data today"


@pytest.mark.parametrize(
    ("policy", "phase", "reason"),
    [
        ({"onTimeout": "fail"}, "Failed", "Timeout"),
        ({"onTimeout": "aggregate", "minUpdates": 2}, "Completed", "Completed"),
        ({"onTimeout": "extend", "maxExtensions": 9}, "Completed", "Completed"),
    ],
)
async def test_time_runs_out(simulated, policy, phase, reason):
    manifest = job(30, total=1, rounds=policy, timeoutSeconds=2)
    status, rounds, _, _ = await simulated(manifest, latency=1.0, spread=1.0, seed=2)
    assert status["phase"] == phase
    ready = next(c for c in rounds[0]["conditions"] if c["type"] == "Ready")
    assert ready["reason"] == reason
    if policy["onTimeout"] == "extend":
        assert rounds[0]["extensions"] >= 1
        assert rounds[0]["updatesReceived"] == 30


async def test_the_privacy_budget_ends_the_job(simulated):
    privacy = {"clip": 1.0, "noise": 1.0, "epsilon": 8.0}
    manifest = job(3, total=50, aggregator={"algorithm": "fedavg", "privacy": privacy})
    status, rounds, _, _ = await simulated(manifest)
    assert status["phase"] == "Completed"
    assert 0 < len(rounds) < 50
    assert "PrivacyBudgetExhausted" in {c["reason"] for c in status["conditions"]}


def test_more_participants_than_the_manifest_has():
    many = with_clients(job(4, 3), 1000)
    assert len(many["spec"]["participants"]) == 1000
    assert many["spec"]["kOfN"] == 750
    assert many["spec"]["participants"][0] == {"propletId": "client-0001"}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"kind": "WasmTask"}, "not a FederatedJob"),
        ({"spec": {"participants": []}}, "experimentId"),
        ({"spec": job(aggregator={"algorithm": "magic"})["spec"]}, "magic"),
    ],
)
def test_what_cannot_be_simulated_says_why(tmp_path, change, said):
    with pytest.raises(CannotSimulate, match=said):
        Simulation({**job(), **change}, Setting(tmp_path))


async def test_data_of_its_own_or_shared(tmp_path):
    for name in ("client-1", "other"):
        (tmp_path / "data" / name).mkdir(parents=True)
    setting = Setting(tmp_path / "out", data=tmp_path / "data", shared=("other",))
    told = Simulation(job(3), setting)._environment()
    assert [Path(env["DATA_DIR"]).name for env in told.values()] == ["client-1", "other", "other"]


async def test_processes_give_what_this_one_gives(simulated, tmp_path):
    _, _, _, out = await simulated(job(7))
    spec = f"{__file__}:train"
    with Pool(spec, folder=tmp_path, workers=2) as pool:
        simulation = Simulation(job(7), Setting(tmp_path / "pool"))
        async for _ in simulation.rounds(pool):
            pass
    for number in (1, 2):
        name = f"round-{number}.f32-le"
        assert (tmp_path / "pool" / name).read_bytes() == (out / name).read_bytes()
