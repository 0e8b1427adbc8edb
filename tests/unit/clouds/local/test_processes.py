"""Processes are told apart for certain, and only those of a VM are ever killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from corral.clouds.local.processes import Process, below, kill_below


@pytest.fixture
def tree() -> Iterator[subprocess.Popen[bytes]]:
    """A shell with two sleepers below it."""
    script = "sleep 600 & sh -c 'sleep 600; true' & echo; wait"
    process = subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE)
    with process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        process.kill()


def known(pid: int) -> Process:
    found = Process.of(pid)
    assert found is not None
    return found


def test_a_number_that_is_somebody_else_s_by_now() -> None:
    me = known(os.getpid())
    assert me.alive
    assert known(os.getpid()) == me
    other = Process(me.pid, "another boot/1")
    assert not other.alive
    assert not other.send(signal.SIGKILL)


def test_one_that_has_ended_is_not_alive_before_it_is_reaped() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""], stdin=subprocess.PIPE)
    process = known(child.pid)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert not process.alive
    child.communicate()
    assert Process.of(child.pid) is None or Process.of(child.pid) != process


def test_all_below_are_killed_and_nothing_else(tree: subprocess.Popen[bytes]) -> None:
    root = known(tree.pid)
    children = below([tree.pid])
    assert len(children) >= 2
    kill_below(root, reap=lambda: None)
    assert not any(child.alive for child in children)


def test_one_that_has_ended_has_nothing_below(tree: subprocess.Popen[bytes]) -> None:
    children = below([tree.pid])
    kill_below(Process(tree.pid, "another boot/1"))
    assert all(child.alive for child in children)
    kill_below(known(tree.pid))


# None of these is alive by what is said of it: nothing happens even if they were not refused.
@pytest.mark.parametrize("pid", [0, 1, os.getppid(), -1])
def test_what_we_are_below_of_is_no_vm(pid: int) -> None:
    with pytest.raises(ValueError, match="no VM"):
        kill_below(Process(pid, "never"))
    assert not Process(pid, "never").send(signal.SIGKILL)
