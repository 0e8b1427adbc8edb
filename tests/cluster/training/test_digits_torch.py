"""The same training with torch.distributed, where torch is installed."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys

import pytest

from tests.cluster.training.training_stage import ARGS, EXAMPLES, STEPS, Jobs, Obj, restarts

pytestmark = [
    pytest.mark.timeout(400),
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed"),
]
JOB = "digits-torch"


@pytest.fixture(scope="module")
def torch_alone() -> Obj:
    """What one process comes to."""
    program = str(EXAMPLES / "digits_torch.py")
    done = subprocess.run(
        [sys.executable, program, "--steps", str(STEPS)],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    result: Obj = json.loads(done.stdout.splitlines()[-1])
    return result


def test_undisturbed_with_torch(jobs: Jobs, torch_alone: Obj) -> None:
    jobs.create(JOB, args=ARGS)
    assert restarts(jobs.succeeded(JOB)) == 0
    assert jobs.result(JOB) == torch_alone
    assert torch_alone["accuracy"] > 0.95


def test_killed_replica_with_torch(jobs: Jobs, torch_alone: Obj) -> None:
    jobs.create(JOB, args=ARGS)
    jobs.kill_replica(jobs.middle(JOB), 0)
    assert restarts(jobs.succeeded(JOB)) == 1
    assert jobs.result(JOB) == torch_alone
