"""What the processes of a container may do: capabilities, system calls, their number."""

from __future__ import annotations

import os
import resource
from contextlib import suppress
from functools import cache
from typing import Any, Final

from corral.cluster.node.shim import calls, kernel

__all__ = [
    "CAPABILITIES",
    "call_filter",
    "dropped",
    "kept",
    "limit",
    "prepare",
    "restrict",
    "volunteer",
]

Spec = dict[str, Any]

CAPABILITIES: Final = (
    "CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID",
    "SETPCAP", "LINUX_IMMUTABLE", "NET_BIND_SERVICE", "NET_BROADCAST", "NET_ADMIN", "NET_RAW",
    "IPC_LOCK", "IPC_OWNER", "SYS_MODULE", "SYS_RAWIO", "SYS_CHROOT", "SYS_PTRACE", "SYS_PACCT",
    "SYS_ADMIN", "SYS_BOOT", "SYS_NICE", "SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG", "MKNOD",
    "LEASE", "AUDIT_WRITE", "AUDIT_CONTROL", "SETFCAP", "MAC_OVERRIDE", "MAC_ADMIN", "SYSLOG",
    "WAKE_ALARM", "BLOCK_SUSPEND", "AUDIT_READ", "PERFMON", "BPF", "CHECKPOINT_RESTORE",
)  # fmt: skip
"""By their numbers."""


@cache
def _last() -> int:
    with open("/proc/sys/kernel/cap_last_cap") as file:
        return int(file.read())


@cache
def _bits(names: frozenset[str]) -> int:
    return sum(1 << number for number, name in enumerate(CAPABILITIES) if name in names)


def _names(privileges: Spec) -> frozenset[str]:
    return frozenset(privileges.get("capabilities", ()))


def prepare(privileges: Spec) -> None:
    """In the shim: know what children need, which then find it. Raises OSError."""
    _last()
    _bits(_names(privileges))
    if privileges.get("seccomp"):
        calls.program(_names(privileges))


def volunteer(privileges: Spec) -> None:
    """In a child that still sees the machine's /proc: be ended before others for their memory."""
    if score := privileges.get("oomScore"):
        with suppress(OSError):  # a shim without rights hides its memory, and with it this file
            fd = os.open("/proc/self/oom_score_adj", os.O_WRONLY | os.O_CLOEXEC)
            try:
                os.write(fd, str(score).encode())
            finally:
                os.close(fd)


def limit(privileges: Spec) -> None:
    """In a child: how many processes its user may have in its user namespace."""
    most = privileges.get("maxProcesses")
    if most:
        hard = resource.getrlimit(resource.RLIMIT_NPROC)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(resource.RLIMIT_NPROC, (most, most))


def restrict(privileges: Spec) -> None:
    """In a child that is still root of its namespaces: give up what the container must not have.

    The filter comes before the capabilities: without them it could not be set.
    """
    if privileges.get("noNewPrivileges"):
        kernel.no_new_privileges()
    lost = dropped(privileges)
    for number in range(lost.bit_length()):
        if lost >> number & 1:
            kernel.drop_from_bounds(number)
    if program := call_filter(privileges):
        kernel.filter_calls(program)


def settle_capabilities(privileges: Spec) -> None:
    """After the user has changed, which must not have capabilities unless it is root."""
    kernel.set_capabilities(kept(privileges) if os.geteuid() == 0 else 0)


def kept(privileges: Spec) -> int:
    """Capabilities that its root has, as bits."""
    return _bits(_names(privileges))


def dropped(privileges: Spec) -> int:
    """Capabilities that none of its processes ever has, as bits."""
    return (1 << (_last() + 1)) - 1 & ~kept(privileges)


def call_filter(privileges: Spec) -> bytes:
    """What lets system calls through; empty for all."""
    return calls.program(_names(privileges)) if privileges.get("seccomp") else b""
