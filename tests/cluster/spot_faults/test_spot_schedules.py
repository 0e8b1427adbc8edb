"""Whatever goes wrong, in whatever order: the job finishes as it should, and nothing is left.

The first few schedules always, all two hundred with ``make soak SOAK=tests/cluster/spot_faults``.
"""

from __future__ import annotations

import os

import pytest

from tests.cluster.spot_faults.player import play
from tests.cluster.spot_faults.schedules import schedule
from tests.cluster.spot_faults.spot_stage import SpotJobs

SCHEDULES = 200
ALWAYS = 2
FIRST = int(os.environ.get("CORRAL_SEED") or 0)


@pytest.mark.parametrize(
    "seed",
    [
        *range(FIRST, FIRST + ALWAYS),
        *(
            pytest.param(seed, marks=pytest.mark.soak)
            for seed in range(FIRST + ALWAYS, FIRST + SCHEDULES)
        ),
    ],
)
def test_a_schedule_of_faults(jobs: SpotJobs, wanted: str, seed: int) -> None:
    blows = schedule(seed, replicas=2)
    print(*blows, sep="\n")
    run = jobs.create(f"schedule-{seed}")
    play(run, blows)
    run.finish()
    run.check(wanted)
    run.check_nothing_left()
    assert run.operator.runs, run.story()
