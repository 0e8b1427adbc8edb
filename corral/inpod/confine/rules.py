"""What a process gives up before it runs code that nobody vouches for."""

from __future__ import annotations

import ctypes
import os
import resource
import sys
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass

from corral.inpod.confine.errors import Refused
from corral.inpod.confine.filters import refuse_calls
from corral.inpod.confine.landlock import close_files

__all__ = ["Limits", "confine", "own_files"]


@dataclass(frozen=True, slots=True)
class Limits:
    """How much of the machine it has."""

    seconds: int = 60
    """Of the clock, and of each thread's processor time."""
    memory: int = 4 * 2**30
    """Bytes of its own data."""
    file: int = 2 * 2**30
    """Bytes of the largest file that it may write."""
    tasks: int = 512
    """Threads and processes of its user in all; root is not held to it."""


def own_files() -> list[str]:
    """What Python and its packages need to be loaded from; nothing of the machine's users."""
    paths = sysconfig.get_paths()
    packages = {paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    ours = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    machine = {
        "/usr/lib", "/usr/lib64", "/lib", "/lib64", "/usr/local/lib", "/etc/ld.so.cache",
        "/dev/null", "/dev/zero", "/dev/urandom", "/dev/random",
        "/usr/share/zoneinfo", "/etc/localtime", "/proc/cpuinfo", "/proc/meminfo",
        "/sys/devices/system/cpu", "/sys/devices/system/node",
    }  # fmt: skip
    libraries = os.path.join(sys.base_prefix, "lib")
    return sorted(packages | machine | {ours, libraries})


def confine(readable: Sequence[str], writable: Sequence[str], limits: Limits) -> None:
    """Give up everything but these files and limits, for this process and its children, for ever.

    Environment and open descriptors are the caller's to clear before.

    Raises:
        ConfineError: this machine cannot hold to it.
        Refused: the kernel did not take a rule.
    """
    amounts = {
        resource.RLIMIT_CPU: limits.seconds,
        resource.RLIMIT_DATA: limits.memory,
        resource.RLIMIT_FSIZE: limits.file,
        resource.RLIMIT_NPROC: limits.tasks,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_NOFILE: 256,
    }
    for which, amount in amounts.items():
        resource.setrlimit(which, (amount, amount))
    no_new_rights = 38
    if ctypes.CDLL(None, use_errno=True).prctl(no_new_rights, 1, 0, 0, 0):
        reason = os.strerror(ctypes.get_errno())
        raise Refused(f"this process cannot give up its rights: {reason}")
    close_files([*own_files(), *readable], writable)
    refuse_calls()
