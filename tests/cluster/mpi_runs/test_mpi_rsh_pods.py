"""Real MPIs in pods without sshd: the launcher starts its daemons through the API.

Every MPI is seen at work in every mode; what else is of an MPI is shown in one mode, and what is
of the mode with one MPI. `make test` has two MPIs and one mode.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.cluster.mpi_runs.mpi_stage import (
    EVERY_MPI,
    MODES,
    MPIS,
    PATIENCE,
    RANKS,
    Jobs,
    Mpi,
    check_ranks,
)
from tests.cluster.objects import eventually

pytestmark = pytest.mark.timeout(300)
MODE, *OTHER_MODES = MODES
every_mpi = pytest.mark.parametrize("mpi", EVERY_MPI, ids=lambda mpi: mpi.name)


@every_mpi
def test_every_worker_hosts_its_ranks(jobs: Jobs, mpi: Mpi) -> None:
    mpi.require()
    code, output = jobs.run(mpi, "sum", "allreduce.py")
    assert code == 0, output
    check_ranks(output, "sum-worker-0", "sum-worker-1")


def the_launcher_hosts_ranks_too(jobs: Jobs, mpi: Mpi) -> None:
    code, output = jobs.run(mpi, "sum", "allreduce.py", launcher_works=True)
    assert code == 0, output
    check_ranks(output, "sum-launcher", "sum-worker-0")


def an_aborting_rank_fails_the_launcher(jobs: Jobs, mpi: Mpi) -> None:
    code, output = jobs.run(mpi, "stop", "abort.py")
    # What ranks have written last may be lost, but not the code that one of them gave.
    assert code == 7, output


def nothing_stays_on_workers_when_the_launcher_goes(jobs: Jobs, mpi: Mpi) -> None:
    launcher = jobs.start(mpi, "wait", "wait.py")
    jobs.pods.phase(launcher, "Running")
    eventually(lambda: jobs.pods.log(launcher).count("here") == RANKS, seconds=PATIENCE)
    assert len([line for line in jobs.processes() if "wait.py" in line]) > RANKS
    jobs.pods.delete(launcher, grace=0)
    eventually(lambda: not jobs.processes(), seconds=60)
    assert jobs.pods.get("wait-worker-0")["status"]["phase"] == "Running"


STORIES = (
    the_launcher_hosts_ranks_too,
    an_aborting_rank_fails_the_launcher,
    nothing_stays_on_workers_when_the_launcher_goes,
)
every_story = pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)


@every_story
@every_mpi
@pytest.mark.parametrize("node", [MODE], indirect=True)
def test_stories_of_an_mpi(jobs: Jobs, mpi: Mpi, story: Callable[[Jobs, Mpi], None]) -> None:
    mpi.require()
    story(jobs, mpi)


@pytest.mark.full
@every_story
@pytest.mark.parametrize("node", OTHER_MODES, indirect=True)
def test_stories_of_a_mode(jobs: Jobs, story: Callable[[Jobs, Mpi], None]) -> None:
    MPIS[0].require()
    story(jobs, MPIS[0])
