"""Which pod is to blame, by pods and by what MPIs write."""

from __future__ import annotations

import pytest

from corral.families.mpijob.lifecycle.diagnosis import (
    blamed,
    describe,
    launcher_trouble,
    named_failure,
    worker_trouble,
)
from corral.families.mpijob.lifecycle.limits import MPISettings
from corral.runtime.pods.failures import trimmed
from tests.unit.families.mpijob.mpijob_world import START, again, ended, pod, worker

OPENMPI_5_EXIT = """\
--------------------------------------------------------------------------
prterun detected that one or more processes exited with non-zero status,
thus causing the job to be terminated. The first process to do so was:

   Process name: [prterun-foo-launcher-21@1,2] Exit code:    3
--------------------------------------------------------------------------
"""
OPENMPI_SIGNAL = """\
--------------------------------------------------------------------------
prterun noticed that process rank 3 with PID 713 on node foo-worker-1 exited on
signal 9 (Killed).
--------------------------------------------------------------------------
"""
OPENMPI_4 = """\
mpirun noticed that process rank 2 with PID 0 on node foo-worker-1.foo.bar.svc exited on signal 6 \
(Aborted).
"""
MPICH = """\
===================================================================================
=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES
=   PID 412 RUNNING AT foo-worker-1
=   EXIT CODE: 9
=   CLEANING UP REMAINING PROCESSES
===================================================================================
"""
INTEL = """\
===================================================================================
=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES
=   RANK 2 PID 77 RUNNING AT foo-worker-1
=   KILLED BY SIGNAL: 9 (Killed)
===================================================================================
"""
OWN = "rank 3 aborts on foo-worker-1\nabort: 7\n"
TABLE = """\
An MPI process aborted. More details:
  Local host:    foo-worker-1
  Error code:    7
"""
LOST = "corral rsh: foo-worker-1.foo.bar.svc: the pod is gone\n"


@pytest.mark.parametrize(
    ("text", "rank", "code", "signal"),
    [
        (OPENMPI_SIGNAL, 3, None, 9),
        (OPENMPI_4, 2, None, 6),
        (MPICH, None, 9, None),
        (INTEL, 2, None, 9),
        (OWN, 3, None, None),
        (TABLE, None, 7, None),
        (LOST, None, None, None),
    ],
    ids=["openmpi-5", "openmpi-4", "mpich", "intel", "own", "table", "lost"],
)
def test_the_log_names_a_worker(
    text: str, rank: int | None, code: int | None, signal: int | None
) -> None:
    found = blamed("foo", ["a line of the program", *text.splitlines()])
    assert found is not None
    assert found.pod == "foo-worker-1"
    assert (found.rank, found.exit_code, found.signal) == (rank, code, signal)


@pytest.mark.parametrize(
    "text",
    [OPENMPI_5_EXIT, "hello from foo-worker-1\n", "", "other-foo-worker-1 exited", "rank 1 aborts"],
)
def test_a_log_that_names_none(text: str) -> None:
    assert blamed("foo", text.splitlines()) is None


def test_greetings_before_a_failure_are_no_blame() -> None:
    lines = ["hello from foo-worker-0", "hello from foo-worker-1", *MPICH.splitlines()]
    found = blamed("foo", lines)
    assert found is not None and found.line == "PID 412 RUNNING AT foo-worker-1"


def test_a_named_worker_becomes_the_failure() -> None:
    found = blamed("foo", OPENMPI_SIGNAL.splitlines())
    assert found is not None
    failure = named_failure("foo", found, [worker(1)], {"exitCode": 137})
    assert failure == {
        "replica": "Worker",
        "index": 1,
        "pod": "foo-worker-1",
        "node": "n1",
        "reason": "ProcessFailed",
        "exitCode": 137,
        "signal": 9,
        "message": f"rank 3: {found.line}",
    }


class TestPods:
    def test_the_first_worker_to_die(self) -> None:
        workers = [
            worker(0, "Failed", containerStatuses=[ended(1, at=5)]),
            worker(1, "Failed", containerStatuses=[ended(137, at=2, reason="OOMKilled")]),
            worker(2),
        ]
        found = worker_trouble("foo", workers)
        assert found is not None
        assert found.failure == {
            "replica": "Worker",
            "index": 1,
            "pod": "foo-worker-1",
            "node": "n1",
            "reason": "OOMKilled",
            "message": "the container used more memory than its limit",
            "exitCode": 137,
            "signal": 9,
        }
        assert found.container == "main"

    def test_restarts_count_while_the_launcher_ran(self) -> None:
        workers = [worker(0, containerStatuses=[again(1, at=5)])]
        assert worker_trouble("foo", workers, since=START + 6) is None
        found = worker_trouble("foo", workers, since=START + 4)
        assert found is not None and found.previous
        assert found.failure["message"] == "container main has ended 1 times"

    def test_the_last_launcher_to_fail(self) -> None:
        pods = [
            pod("foo-launcher-a", "Failed", made=1, containerStatuses=[ended(1)]),
            pod("foo-launcher-b", "Failed", made=2, containerStatuses=[ended(2)]),
            pod("foo-launcher-c", made=3),
        ]
        found = launcher_trouble("foo", pods)
        assert found is not None
        assert (found.failure["replica"], found.failure["exitCode"]) == ("Launcher", 2)
        assert "index" not in found.failure
        assert launcher_trouble("foo", pods[2:]) is None


def test_in_one_line() -> None:
    failure = {"pod": "foo-worker-1", "reason": "Error", "exitCode": 1}
    assert describe(failure) == "pod foo-worker-1 failed (Error, exit code 1)"


def test_the_end_of_a_log_is_bounded() -> None:
    settings = MPISettings(log_lines=3, log_bytes=8)
    assert trimmed(["a", "b", "cc", "dd"], settings) == "b\ncc\ndd"
    assert trimmed(["öö", "öööö"], settings) == "öööö"
