"""The system calls that Python 3.11 has no name for. Every one raises OSError."""

from __future__ import annotations

import ctypes
import os
from typing import Final

NEWNS: Final = 0x00020000
NEWUTS: Final = 0x04000000
NEWUSER: Final = 0x10000000
NEWNET: Final = 0x40000000
NAMESPACES: Final = {"mount": NEWNS, "uts": NEWUTS, "user": NEWUSER, "net": NEWNET}

MS_RDONLY: Final = 0x1
MS_NOSUID: Final = 0x2
MS_NODEV: Final = 0x4
MS_NOEXEC: Final = 0x8
MS_REMOUNT: Final = 0x20
MS_NOATIME: Final = 0x400
MS_NODIRATIME: Final = 0x800
MS_BIND: Final = 0x1000
MS_REC: Final = 0x4000
MS_PRIVATE: Final = 0x40000
MS_RELATIME: Final = 0x200000

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36

_PIVOT_ROOT: Final = {"x86_64": 155, "aarch64": 41, "riscv64": 41, "ppc64le": 203, "s390x": 217}
"""libc has no function for it."""

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def become_subreaper() -> None:
    """Orphans below this process become its children instead of init's."""
    _check(_libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "prctl")


def die_with_parent(signal: int) -> None:
    _check(_libc.prctl(_PR_SET_PDEATHSIG, signal, 0, 0, 0), "prctl")


def unshare(flags: int) -> None:
    _check(_libc.unshare(flags), "unshare")


def setns(path: str, kind: int) -> None:
    """Enter the namespace behind ``path``."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        setns_fd(fd, kind)
    finally:
        os.close(fd)


def setns_fd(fd: int, kind: int) -> None:
    _check(_libc.setns(fd, kind), "setns")


def namespace_path(kind: str, pid: int | str = "self") -> str:
    """Where the kernel shows the namespace that a process is in."""
    return f"/proc/{pid}/ns/{'mnt' if kind == 'mount' else kind}"


def namespace(kind: str) -> int:
    """The namespace this process is in, open."""
    return os.open(namespace_path(kind), os.O_RDONLY | os.O_CLOEXEC)


def mount(source: str, target: str, *, kind: str = "", flags: int = 0, data: str = "") -> None:
    result = _libc.mount(
        os.fsencode(source),
        os.fsencode(target),
        kind.encode() or None,
        ctypes.c_ulong(flags),
        data.encode() or None,
    )
    _check(result, f"mount {source} on {target}")


def pivot_root(new: str, old: str) -> None:
    number = _PIVOT_ROOT.get(os.uname().machine)
    if number is None:
        raise OSError(38, f"pivot_root: not known on {os.uname().machine}")
    _check(_libc.syscall(number, os.fsencode(new), os.fsencode(old)), "pivot_root")


def unmount(target: str, *, lazy: bool = True) -> None:
    _check(_libc.umount2(os.fsencode(target), 2 if lazy else 0), f"umount {target}")
