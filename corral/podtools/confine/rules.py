"""What a process gives up before it runs code that nobody vouches for."""

from __future__ import annotations

import os
import resource
import sys
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

from corral.podtools.confine.errors import Refused
from corral.podtools.confine.filters import refuse_calls
from corral.podtools.confine.kernel import drop_capabilities, no_new_privileges
from corral.podtools.confine.landlock import close_files

__all__ = ["Limits", "confine", "own_files"]

_MAPPED: Final = 64 * 2**30
"""Bytes that may be mapped beside its own data: programs, libraries, data that is read."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How much of the machine it has."""

    seconds: int = 60
    """Of the clock, and of its processor time."""
    memory: int = 4 * 2**30
    """Bytes of its own data and of its files, where these are in memory."""
    file: int = 2 * 2**30
    """Bytes of the largest file that it may write."""
    tasks: int = 512
    """Threads; where it has no user of its own, with all processes of that user."""
    disk: int = 2 * 2**30
    """Bytes of all files that it may have at once."""


@cache
def own_files() -> list[str]:
    """What Python and its packages need to be loaded from; nothing of the machine's users."""
    paths = sysconfig.get_paths()
    packages = {paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    ours = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    # not /dev/zero: mapped, it is shared memory that no limit counts
    machine = {
        "/usr/lib", "/usr/lib64", "/lib", "/lib64", "/usr/local/lib", "/etc/ld.so.cache",
        "/dev/null", "/dev/urandom", "/dev/random",
        "/usr/share/zoneinfo", "/etc/localtime", "/proc/cpuinfo", "/proc/meminfo",
        "/sys/devices/system/cpu", "/sys/devices/system/node",
    }  # fmt: skip
    libraries = os.path.join(sys.base_prefix, "lib")
    return sorted(packages | machine | {ours, libraries})


def confine(readable: Sequence[str], writable: Sequence[str], limits: Limits) -> None:
    """Give up everything but these files and limits, for this process and its children, for ever.

    Environment, open descriptors and namespaces are the caller's to see to before.

    Raises:
        ConfineError: this machine cannot hold to it.
        Refused: the kernel did not take a rule.
    """
    amounts = {
        resource.RLIMIT_CPU: limits.seconds,
        resource.RLIMIT_DATA: limits.memory,
        resource.RLIMIT_AS: limits.memory + _MAPPED,
        resource.RLIMIT_FSIZE: limits.file,
        resource.RLIMIT_NPROC: limits.tasks,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_NOFILE: 256,
        resource.RLIMIT_MEMLOCK: 0,
        resource.RLIMIT_MSGQUEUE: 0,
    }
    for which, amount in amounts.items():
        set_limit(which, amount)
    try:
        no_new_privileges()
        drop_capabilities()
    except OSError as err:
        raise Refused(f"this process cannot give up its rights: {err}") from err
    close_files([*own_files(), *readable], [*writable, "/dev/null"])
    refuse_calls()


def set_limit(which: int, amount: int) -> None:
    """Have no more than this of something, nor than was allowed before."""
    hard = resource.getrlimit(which)[1]
    least = amount if hard == resource.RLIM_INFINITY else min(amount, hard)
    resource.setrlimit(which, (least, least))
