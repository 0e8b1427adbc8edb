"""The examples are valid, and the program in them trains the same whatever becomes of it."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from corral.api.training.kinds import TrainingJob, merged_template

Obj = dict[str, Any]
EXAMPLES = Path(__file__).parents[3] / "examples" / "trainingjob"
MANIFESTS = sorted(EXAMPLES.glob("*.yaml"))
CORRAL = [name for name in os.environ if name.startswith(("CORRAL_", "JAX_"))]


def job_in(path: Path) -> Obj:
    (job,) = yaml.safe_load_all(path.read_text())
    return dict(job)


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.stem)
def test_valid(path: Path) -> None:
    job = job_in(path)
    assert list(TrainingJob.validate(job)) == []
    expected = ["embedded clusters only"] if path.stem == "digits-local" else []
    warnings = TrainingJob.warnings(job)
    assert len(warnings) == len(expected)
    assert all(text in warning for text, warning in zip(expected, warnings, strict=True))
    assert job["metadata"]["name"] == path.stem


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.stem)
def test_programs_of_manifests_are_there(path: Path) -> None:
    command = merged_template(job_in(path)["spec"])["spec"]["containers"][0]["command"]
    if command[1] != "-c":
        assert (EXAMPLES / Path(command[1]).name).exists()


def test_every_framework_has_one() -> None:
    frameworks = {job_in(path)["spec"]["framework"] for path in MANIFESTS}
    assert frameworks == {"pytorch", "tensorflow", "jax", "xgboost", "custom"}


# --- the program -------------------------------------------------------------------------------


def run(folder: Path, steps: int, **env: str) -> Obj:
    """Train in a process alone; its result."""
    clean = {name: value for name, value in os.environ.items() if name not in CORRAL}
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "digits_jax.py"), "--steps", str(steps)],
        env={**clean, "CORRAL_CHECKPOINT_DIR": str(folder), **env},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    begin, result = done.stdout.splitlines()
    return {**json.loads(result), "begin": int(begin.rpartition(" ")[2])}


@pytest.fixture
def digits(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The program as a module."""
    monkeypatch.setattr(os, "environ", dict(os.environ))  # it sets what JAX reads
    spec = importlib.util.spec_from_file_location("digits_jax", EXAMPLES / "digits_jax.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_batches_follow_from_the_step_and_cover_an_epoch(digits: ModuleType) -> None:
    size = 1437
    batches = [digits.batch_of(step, size) for step in range(1, 9)]
    assert (batches[3] == digits.batch_of(4, size)).all()
    epoch = [int(index) for batch in batches[:7] for index in batch.ravel()]
    assert len(set(epoch)) == len(epoch) == 7 * 192
    assert (batches[7] != batches[0]).any()


def test_learns_and_resumes_to_the_same_weights(tmp_path: Path) -> None:
    whole = run(tmp_path / "whole", 300)
    assert whole["accuracy"] > 0.95
    assert run(tmp_path / "parts", 120)["weights"] != whole["weights"]
    resumed = run(tmp_path / "parts", 300)
    assert resumed["begin"] == 120
    assert (resumed["weights"], resumed["accuracy"]) == (whole["weights"], whole["accuracy"])
