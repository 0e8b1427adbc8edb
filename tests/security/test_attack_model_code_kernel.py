"""Model code against the kernel: calls that it has no business with."""

from __future__ import annotations

import pytest

from tests.security.model_code import Jail, jail

__all__ = ["jail"]


@pytest.mark.attack("model code", "makes calls by io_uring, past the filter", "the call is refused")
def test_model_code_io_uring(jail: Jail) -> None:
    jail.refuses("raw", "io_uring_setup", 4, 0)


@pytest.mark.attack("model code", "loads a program into the kernel", "the call is refused")
def test_model_code_bpf(jail: Jail) -> None:
    jail.refuses("raw", "bpf", 0, 0, 0)


@pytest.mark.attack("model code", "measures other processes", "the call is refused")
def test_model_code_perf(jail: Jail) -> None:
    jail.refuses("raw", "perf_event_open", 0, 0, -1, -1, 0)


@pytest.mark.attack("model code", "holds the kernel in a page fault", "the call is refused")
def test_model_code_userfaultfd(jail: Jail) -> None:
    jail.refuses("raw", "userfaultfd", 0)


@pytest.mark.attack("model code", "reads and adds keys of the kernel", "the calls are refused")
def test_model_code_keys(jail: Jail) -> None:
    jail.refuses("raw", "keyctl", 0, 0, 0, 0, 0)
    jail.refuses("raw", "add_key", 0, 0, 0, 0, 0)
    jail.refuses("raw", "request_key", 0, 0, 0, 0)


@pytest.mark.attack("model code", "mounts and unmounts", "the calls are refused")
def test_model_code_mounts(jail: Jail) -> None:
    jail.refuses("raw", "mount", 0, 0, 0, 0, 0)
    jail.refuses("raw", "umount2", 0, 0)
    jail.refuses("raw", "fsopen", 0, 0)
    jail.refuses("raw", "open_tree", -100, 0, 0)


@pytest.mark.attack("model code", "changes its root folder", "the calls are refused")
def test_model_code_roots(jail: Jail) -> None:
    jail.refuses("raw", "pivot_root", 0, 0)
    jail.refuses("raw", "chroot", 0)


@pytest.mark.attack("model code", "turns off the layout of its memory", "the call is refused")
def test_model_code_personality(jail: Jail) -> None:
    jail.refuses("raw", "personality", 262144)


@pytest.mark.attack("model code", "loads another kernel or a module", "the calls are refused")
def test_model_code_kernels(jail: Jail) -> None:
    jail.refuses("raw", "kexec_load", 0, 0, 0, 0)
    jail.refuses("raw", "init_module", 0, 0, 0)
    jail.refuses("raw", "finit_module", 0, 0, 0)


@pytest.mark.attack(
    "model code",
    "reboots, swaps, reads the kernel's log, counts quotas",
    "the calls are refused",
)
def test_model_code_administration(jail: Jail) -> None:
    jail.refuses("raw", "reboot", 0, 0, 0, 0)
    jail.refuses("raw", "swapon", 0, 0)
    jail.refuses("raw", "syslog", 3, 0, 0)
    jail.refuses("raw", "quotactl", 0, 0, 0, 0)
    jail.refuses("raw", "acct", 0)


@pytest.mark.attack(
    "model code",
    "sets the clock and the name of the machine",
    "the calls are refused",
)
def test_model_code_clock(jail: Jail) -> None:
    jail.refuses("raw", "settimeofday", 0, 0)
    jail.refuses("raw", "clock_settime", 0, 0)
    jail.refuses("raw", "sethostname", 0, 0)


@pytest.mark.attack("model code", "watches what others do with files", "the calls are refused")
def test_model_code_notices(jail: Jail) -> None:
    jail.refuses("raw", "inotify_init1", 0)
    jail.refuses("raw", "fanotify_init", 0, 0)


@pytest.mark.attack(
    "model code",
    "uses shared memory, semaphores and queues by key",
    "the calls are refused",
)
def test_model_code_system_v(jail: Jail) -> None:
    jail.refuses("raw", "shmget", 0, 4096, 896)
    jail.refuses("raw", "semget", 0, 1, 896)
    jail.refuses("raw", "msgget", 0, 896)
    jail.refuses("raw", "mq_open", 0, 0, 0, 0)


@pytest.mark.attack(
    "model code",
    "has memory that nobody counts (memfd, memfd_secret, locked, AIO)",
    "the calls are refused",
)
def test_model_code_secret_memory(jail: Jail) -> None:
    jail.refuses("raw", "memfd_create", 0, 0)
    jail.refuses("raw", "memfd_secret", 0)
    jail.refuses("raw", "mlock", 0, 4096)
    jail.refuses("raw", "io_setup", 64, 0)
    jail.refuses("raw", "vmsplice", 1, 0, 0, 0)
