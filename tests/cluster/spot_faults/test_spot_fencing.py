"""A machine that was only cut off, and comes back: its copy can write no checkpoint any more."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.cluster.spot_faults import journals
from tests.cluster.spot_faults.spot_cloud import environment
from tests.cluster.spot_faults.spot_stage import PROGRAM, SpotJobs, SpotRun


def variables(run: SpotRun, pod: str) -> dict[str, str]:
    """What a copy that runs was started with."""
    marks = {f"CORRAL_JOB_UID={run.uid}".encode(), f"POD={pod}".encode()}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and marks <= (found := environment(entry)):
            pairs = [each.decode().partition("=") for each in found if each]
            return {name: value for name, _, value in pairs}
    raise AssertionError(f"{pod} does not run\n{run.story()}")


def test_a_copy_that_comes_back_is_fenced(jobs: SpotJobs, wanted: str, tmp_path: Path) -> None:
    run = jobs.create("fenced")
    run.middle()
    first = run.running(0)
    old = variables(run, first.pod)
    machine = run.cloud.machine(run.name, 0)
    assert machine is not None
    run.cloud.kill(machine)
    second = run.running(0, after=1)
    assert second.attempt > first.attempt
    zombie = {
        **os.environ,
        **{name: value for name, value in old.items() if name.startswith("CORRAL_")},
        "CORRAL_REPORT_URL": "",  # cut off from the operator, but not from the volume
        "CORRAL_CHECKPOINT_DIR": str(run.folder(0)),
        "CORRAL_CHECKPOINT_PEERS": str(run.folder(0).parent),
        "CORRAL_CHECKPOINT_INTERVAL": "0.1",
        "JOURNAL": str(tmp_path),
        "STEPS": str(second.steps[-1] + 60),
        "PACE": "0.02",
        "POD": "zombie",
        "NODE": "zombie",
        "REPLICA": "0",
    }
    done = subprocess.run(
        [sys.executable, str(PROGRAM)], env=zombie, capture_output=True, timeout=60, check=False
    )
    (came_back,) = journals.read(tmp_path)
    assert done.returncode == 0 and came_back.saves, done.stderr
    assert came_back.attempt == first.attempt
    begun = journals.claims(run.folder(0))[second.attempt]
    late = [each for each in journals.published(run.folder(0)) if each.at > begun]
    assert late and {each.attempt for each in late} == {second.attempt}, run.story()
    run.finish()
    run.check(wanted)
    run.check_nothing_left()
