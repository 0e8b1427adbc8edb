"""Real MPIs over real ssh, with the hostfile, the keys and the variables that an MPIJob makes.

No cluster: hosts are network namespaces of this machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from tests.cluster.mpi_runs.mpi_stage import EVERY_MPI, Mpi, check_ranks, mpijob
from tests.cluster.mpi_runs.ssh_hosts import SshHosts

pytestmark = pytest.mark.timeout(300)
Launch = Callable[[str], CompletedProcess[str]]


@pytest.fixture(params=EVERY_MPI, ids=lambda mpi: mpi.name)
def launch(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Launch]:
    """Runs a program of ours on the hosts of a job."""
    mpi: Mpi = request.param
    mpi.require()
    hosts = SshHosts(mpijob(mpi, "job", "team", "allreduce.py"), mpi, tmp_path)
    hosts.open()

    def run(program: str) -> CompletedProcess[str]:
        done = hosts.launch(mpi.line(program))
        print(hosts.log())
        return done

    yield run
    hosts.close()


def test_every_host_has_its_ranks(launch: Launch) -> None:
    done = launch("allreduce.py")
    assert done.returncode == 0, done
    check_ranks(done.stdout, "job-worker-0", "job-worker-1")


def test_an_aborting_rank_fails_the_launcher_over_ssh(launch: Launch) -> None:
    assert launch("abort.py").returncode == 7
