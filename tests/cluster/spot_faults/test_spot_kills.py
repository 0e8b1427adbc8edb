"""The operator is killed again and again just after it wrote something: the next one goes on.

A status that is written and not yet acted upon is where work is lost, done twice or forgotten.
"""

from __future__ import annotations

import os
import random
import time

import pytest

from tests.cluster.spot_faults.spot_stage import API, SpotJobs, SpotRun
from tests.cluster.spot_faults.training_program import undisturbed

STEPS, PACE = 2000, 0.25
"""Longer than all kills take."""
QUIET = 2.0
"""Seconds without a write after which a machine is taken, so that there is something to do."""
MOST = 4
"""A kill comes after at most so many writes."""


def written(run: SpotRun) -> list[str]:
    """The versions of all that the controllers write about a job."""
    objects = run.jobs.objects
    found = [run.get(), objects.get(API, "spotinstancevms", "here")]
    reply = objects.backend.request("GET", objects.path("batch/v1", "jobs"))
    found += reply.json()["items"]
    return sorted(obj["metadata"]["uid"] + obj["metadata"]["resourceVersion"] for obj in found)


def wait_for_writes(run: SpotRun, count: int, rng: random.Random) -> None:
    """Until so many writes were seen; machines are taken when nothing happens by itself."""
    before, since = written(run), time.monotonic()
    while count > 0:
        now = written(run)
        if now != before:
            before, since, count = now, time.monotonic(), count - 1
        elif time.monotonic() - since > QUIET:
            machine = run.cloud.machine(run.name, rng.randrange(run.replicas))
            if machine is not None:
                run.cloud.kill(machine)
            since = time.monotonic()


@pytest.mark.parametrize(
    "kills",
    [
        pytest.param(4, id="short"),
        pytest.param(60, id="long", marks=[pytest.mark.soak, pytest.mark.timeout(900)]),
    ],
)
def test_an_operator_that_is_killed_at_its_writes(jobs: SpotJobs, kills: int) -> None:
    seed = int(os.environ.get("CORRAL_SEED") or random.SystemRandom().randrange(10**6))
    print(f"CORRAL_SEED={seed}")
    rng = random.Random(seed)
    run = jobs.create("killed-at-writes", steps=STEPS, PACE=str(PACE))
    for _ in range(kills):
        wait_for_writes(run, rng.randint(1, MOST), rng)
        run.operator.kill()
        run.operator.start()
    run.middle()
    run.finish()
    run.check(undisturbed(STEPS))
    run.check_nothing_left()
