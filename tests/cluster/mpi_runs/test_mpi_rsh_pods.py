"""Real MPIs in pods without sshd: the launcher starts its daemons through the API."""

from __future__ import annotations

import pytest

from tests.cluster.mpi_runs.mpi_stage import MPIS, PATIENCE, RANKS, Jobs, Mpi, check_ranks
from tests.cluster.objects import eventually

pytestmark = pytest.mark.timeout(300)


@pytest.mark.parametrize("mpi", MPIS, ids=lambda mpi: mpi.name)
def test_every_worker_hosts_its_ranks(jobs: Jobs, mpi: Mpi) -> None:
    mpi.require()
    code, output = jobs.run(mpi, "sum", "allreduce.py")
    assert code == 0, output
    check_ranks(output, "sum-worker-0", "sum-worker-1")


@pytest.mark.parametrize("mpi", MPIS, ids=lambda mpi: mpi.name)
def test_the_launcher_hosts_ranks_too(jobs: Jobs, mpi: Mpi) -> None:
    mpi.require()
    code, output = jobs.run(mpi, "sum", "allreduce.py", launcher_works=True)
    assert code == 0, output
    check_ranks(output, "sum-launcher", "sum-worker-0")


@pytest.mark.parametrize("mpi", MPIS, ids=lambda mpi: mpi.name)
def test_an_aborting_rank_fails_the_launcher(jobs: Jobs, mpi: Mpi) -> None:
    mpi.require()
    code, output = jobs.run(mpi, "stop", "abort.py")
    # What ranks have written last may be lost, but not the code that one of them gave.
    assert code == 7, output


@pytest.mark.parametrize("mpi", MPIS, ids=lambda mpi: mpi.name)
def test_nothing_stays_on_workers_when_the_launcher_goes(jobs: Jobs, mpi: Mpi) -> None:
    mpi.require()
    launcher = jobs.start(mpi, "wait", "wait.py")
    jobs.pods.phase(launcher, "Running")
    eventually(lambda: jobs.pods.log(launcher).count("here") == RANKS, seconds=PATIENCE)
    assert len([line for line in jobs.processes() if "wait.py" in line]) > RANKS
    jobs.pods.delete(launcher, grace=0)
    eventually(lambda: not jobs.processes(), seconds=60)
    assert jobs.pods.get("wait-worker-0")["status"]["phase"] == "Running"
