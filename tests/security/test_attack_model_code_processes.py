"""Model code against other processes, and new ones."""

from __future__ import annotations

import json
import os

import pytest

from tests.security.model_code import Jail, jail

__all__ = ["jail"]


@pytest.mark.attack(
    "model code",
    "executes a program that is only in memory (memfd, execveat)",
    "both calls are refused",
)
def test_model_code_executes_memory(jail: Jail) -> None:
    jail.refuses("execute_memory")
    jail.refuses("raw", "execveat", 0, 0, 0, 0, 0x1000)


@pytest.mark.attack(
    "model code",
    "executes what it wrote, and the loader of libraries",
    "nothing is executed",
)
def test_model_code_executes_files(jail: Jail) -> None:
    jail.refuses("execute_written")
    jail.refuses("execute_library")


@pytest.mark.attack("model code", "makes processes", "there are threads only")
def test_model_code_forks(jail: Jail) -> None:
    jail.refuses("fork")
    jail.refuses("new_process", 17)
    jail.refuses("raw", "clone3", 0, 88)


@pytest.mark.attack(
    "model code",
    "makes namespaces, in which it would be root",
    "unshare, clone and setns are refused",
)
def test_model_code_new_namespaces(jail: Jail) -> None:
    jail.refuses("new_process", 0x10000011)
    jail.refuses("raw", "unshare", 0x10000000)
    jail.refuses("raw", "setns", 0, 0)


@pytest.mark.attack(
    "model code",
    "signals its parent, its group and everybody",
    "only itself is reached",
)
def test_model_code_signals(jail: Jail) -> None:
    for pid in (jail.process.pid, os.getpid(), 1, 0, -1):
        jail.refuses("kill", pid)
    jail.refuses("raw", "tkill", jail.process.pid, 0)
    jail.refuses("raw", "tgkill", jail.process.pid, jail.process.pid, 0)


@pytest.mark.attack("model code", "signals and robs its parent by a pidfd", "the calls are refused")
def test_model_code_signals_by_pidfd(jail: Jail) -> None:
    jail.refuses("raw", "pidfd_open", jail.process.pid, 0)
    jail.refuses("raw", "pidfd_getfd", 0, 0, 0)
    jail.refuses("raw", "pidfd_send_signal", 0, 0, 0, 0)


@pytest.mark.attack(
    "model code",
    "binds its parent to one processor",
    "only its own threads are reached",
)
def test_model_code_affinity(jail: Jail) -> None:
    before = os.sched_getaffinity(jail.process.pid)
    jail.refuses("parent_affinity", jail.process.pid)
    assert os.sched_getaffinity(jail.process.pid) == before


@pytest.mark.attack("model code", "lowers the priority of its parent", "the call is refused")
def test_model_code_priority(jail: Jail) -> None:
    jail.refuses("parent_priority", jail.process.pid)
    jail.refuses("raw", "ioprio_set", 1, jail.process.pid, 0)
    assert os.getpriority(os.PRIO_PROCESS, jail.process.pid) == os.getpriority(os.PRIO_PROCESS, 0)


@pytest.mark.attack(
    "model code",
    "reads and lowers the limits of its parent",
    "the call is refused",
)
def test_model_code_limits_of_others(jail: Jail) -> None:
    jail.refuses("parent_limits", jail.process.pid)
    jail.refuses("parent_limits_read", jail.process.pid)


@pytest.mark.attack("model code", "sets its own limits", "they can be read only")
def test_model_code_own_limits(jail: Jail) -> None:
    jail.refuses("own_limits")


@pytest.mark.attack("model code", "traces its parent", "ptrace is refused")
def test_model_code_traces(jail: Jail) -> None:
    jail.refuses("raw", "ptrace", 16, jail.process.pid, 0, 0)
    jail.refuses("raw", "ptrace", 0, 0, 0, 0)


@pytest.mark.attack(
    "model code",
    "reads and writes the memory of its parent",
    "neither calls nor /proc reach it",
)
def test_model_code_reads_memory(jail: Jail) -> None:
    jail.refuses("parent_memory", jail.process.pid)
    jail.refuses("raw", "process_vm_writev", jail.process.pid, 0, 0, 0, 0, 0)
    jail.refuses("read", f"/proc/{jail.process.pid}/mem")
    jail.refuses("read", f"/proc/{jail.process.pid}/environ")


@pytest.mark.attack(
    "model code",
    "moves the memory of its parent between nodes",
    "the calls are refused",
)
def test_model_code_moves_memory(jail: Jail) -> None:
    jail.refuses("raw", "migrate_pages", jail.process.pid, 0, 0, 0)
    jail.refuses("raw", "move_pages", jail.process.pid, 0, 0, 0, 0, 0)
    jail.refuses("raw", "kcmp", jail.process.pid, jail.process.pid, 0, 0, 0)
    jail.refuses("raw", "get_robust_list", jail.process.pid, 0, 0)


@pytest.mark.attack(
    "model code",
    "leaves its session, so that it is not ended with it",
    "the calls are refused",
)
def test_model_code_leaves_its_group(jail: Jail) -> None:
    jail.refuses("setsid")
    jail.refuses("group_leader")


@pytest.mark.attack(
    "model code",
    "becomes root, or takes capabilities",
    "it has none, and cannot have any",
)
def test_model_code_becomes_root(jail: Jail) -> None:
    jail.refuses("new_identity")
    jail.refuses("raw", "capset", 0, 0)
    found = json.loads(jail.tries("identity").removeprefix("done: "))
    assert not any(found["capabilities"])
    if "namespaces" not in jail.missing:
        assert found["uid"] == 65534


@pytest.mark.attack(
    "model code",
    "types into the terminal of whoever runs it (TIOCSTI)",
    "the request is refused",
)
def test_model_code_terminal(jail: Jail) -> None:
    jail.refuses("terminal_input")


@pytest.mark.attack(
    "model code",
    "makes itself a subreaper, undumpable, or takes its filter off (prctl)",
    "only names can be set",
)
def test_model_code_hides(jail: Jail) -> None:
    for option in (36, 4, 1, 8, 22, 35, 47):
        jail.refuses("change_process", option, 0, 0, 0, 0)
    jail.refuses("raw", "seccomp", 0, 0, 0)
