"""The client as a module and the client as a process give the same numbers, bit for bit."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import wasmtime

from tests.cluster.federated_clients.digits import accuracy, split
from tests.cluster.federated_clients.modules import EXAMPLES, client_module

Result = dict[str, object]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("digits")
    split(folder, {"proplet-1": 0.7, "proplet-2": 0.3})
    return folder


class Sandbox:
    """Runs the module with a folder of data."""

    def __init__(self, folder: Path) -> None:
        self._engine = wasmtime.Engine()
        self._module = wasmtime.Module.from_file(self._engine, str(client_module()))
        self._out, self._err = folder / "out", folder / "err"

    def run(self, data: Path, *, code: int = 0, **env: str) -> str:
        """What it prints; where it should fail, its last words."""
        store, wasi = wasmtime.Store(self._engine), wasmtime.WasiConfig()
        wasi.env = list(env.items())
        wasi.preopen_dir(str(data), "/data")
        wasi.stdout_file, wasi.stderr_file = str(self._out), str(self._err)
        store.set_wasi(wasi)
        linker = wasmtime.Linker(self._engine)
        linker.define_wasi()
        start = linker.instantiate(store, self._module).exports(store)["_start"]
        ended = 0
        try:
            start(store)  # type: ignore[operator]
        except wasmtime.ExitTrap as trap:
            ended = trap.code
        store.close()
        assert ended == code, self._err.read_text()
        return self._err.read_text() if code else self._out.read_text()


@pytest.fixture
def sandbox(tmp_path: Path) -> Sandbox:
    return Sandbox(tmp_path)


def as_process(data: Path, *, code: int = 0, **env: str) -> str:
    command = [sys.executable, str(EXAMPLES / "client.py")]
    env = {"PATH": os.environ["PATH"], "DATA_DIR": str(data), **env}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == code, done.stderr
    return done.stderr if code else done.stdout


CASES: dict[str, dict[str, object]] = {
    "logistic regression": {"epochs": 3},
    "a hidden layer": {"model": "mlp", "hidden": 12, "epochs": 2, "batch_size": 7, "seed": 5},
    "kept near the global model": {"mu": 0.05, "lr": 0.1, "epochs": 2, "format": "json-f64"},
}


@pytest.mark.parametrize("hyperparams", CASES.values(), ids=CASES)
def test_same_numbers(data: Path, sandbox: Sandbox, hyperparams: dict[str, object]) -> None:
    """In a first round, and in one that begins with the model of the first."""
    env = {"HYPERPARAMS": json.dumps(hyperparams), "PROPLET_ID": "proplet-1", "FL_JOB_ID": "x"}
    env["FL_CLIENT_CONFIG"] = json.dumps({"seed": 3})
    for number in (1, 2):
        env["ROUND_ID"] = f"round-{number}"
        module = json.loads(sandbox.run(data / "proplet-1", **env))
        process = json.loads(as_process(data / "proplet-1", **env))
        assert numbers(module) == numbers(process)
        env["FL_GLOBAL_UPDATE_B64"] = str(module.pop("update_b64"))
        env["FL_GLOBAL_UPDATE_FORMAT"] = str(module["format"])
        process.pop("update_b64")
        assert module == process
        assert (module["round_id"], module["num_samples"]) == (number, 834)


def numbers(result: Result) -> list[float]:
    payload = base64.b64decode(str(result["update_b64"]))
    if result["format"] == "json-f64":
        return list(json.loads(payload))
    return list(np.frombuffer(payload, "<f4").tolist())


def test_learns_what_it_can_from_its_own_data(data: Path, sandbox: Sandbox) -> None:
    alone = json.loads(sandbox.run(data / "proplet-2", PROPLET_ID="proplet-2"))
    together = json.loads(sandbox.run(data / "all", PROPLET_ID="all"))
    found = [base64.b64decode(str(result["update_b64"])) for result in (alone, together)]
    share = [accuracy(data / "test.bin", payload) for payload in found]
    assert share[0] < 0.9 < 0.94 < share[1]
    assert alone["metrics"]["accuracy"] > 0.94


MISTAKES = {
    "no data": ("absent", {}, "cannot read"),
    "no model of that name": ("proplet-1", {"model": "tree"}, "must be logistic or mlp"),
    "no number": ("proplet-1", {"epochs": "many"}, "epochs is no number"),
    "no step": ("proplet-1", {"epochs": 0}, "must be at least 1"),
    "no format of that name": ("proplet-1", {"format": "npy"}, "must be f32-le or json-f64"),
    "too far": ("proplet-1", {"lr": 1e308, "epochs": 1}, "diverged"),
}


@pytest.mark.parametrize(("shard", "hyperparams", "words"), MISTAKES.values(), ids=MISTAKES)
@pytest.mark.filterwarnings("ignore")
def test_same_words(
    data: Path, sandbox: Sandbox, shard: str, hyperparams: dict[str, object], words: str
) -> None:
    (data / "absent").mkdir(exist_ok=True)
    env = {"HYPERPARAMS": json.dumps(hyperparams), "PROPLET_ID": "proplet-1"}
    for said in (
        sandbox.run(data / shard, code=1, **env),
        as_process(data / shard, code=1, **env),
    ):
        assert "the client cannot take part: " in said and words in said


def test_a_model_of_another_size_is_refused(data: Path, sandbox: Sandbox) -> None:
    env = {"FL_GLOBAL_UPDATE_B64": base64.b64encode(bytes(40)).decode(), "PROPLET_ID": "p"}
    for run in (sandbox.run, as_process):
        assert "has 10 parameters, and must have 650" in run(data / "proplet-1", code=1, **env)
