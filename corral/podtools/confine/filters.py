"""The system calls that confined code may make, as a seccomp filter: a list of what is allowed.

Written by hand because there is no well-kept package for it without a C library of its own: a
filter is a list of 8-byte instructions. A call that is not allowed fails with EPERM, as if the user
had no right to; one that is newer than this list with ENOSYS, as on an older kernel, so that
libraries do without. Calls of another architecture end the process.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
from collections.abc import Iterable, Mapping
from typing import Final

from corral.podtools.confine.calls import CHECKED, MODULES, PLAIN, numbers
from corral.podtools.confine.errors import ConfineError, Refused
from corral.podtools.confine.kernel import MACHINES, column, library

__all__ = ["program", "refuse_calls"]

_ARCHITECTURES: Final = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_X32: Final = 0x40000000
_NEWEST_KNOWN: Final = 424
"""Calls from this number on came after Linux 5.0, the same on all machines."""

_NEW_NAMESPACES: Final = 0x7E020080
"""CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET, NEWTIME."""
_THREAD: Final = 0x00010000
_SHARED, _ANONYMOUS, _GROWS_DOWN, _HUGE_PAGES = 0x01, 0x20, 0x100, 0x40000
_AF_UNIX: Final = 1
_STREAMS: Final = (0x1, 0x801, 0x80001, 0x80801)
"""SOCK_STREAM, with and without SOCK_NONBLOCK and SOCK_CLOEXEC."""
_FCNTL: Final = (0, 1, 2, 3, 4, 1030, 1032, 1034)
"""Copies and flags; no owner for signals, no leases, no larger pipes, and no locks of records.

A lock for reading can be had on whatever may be read, and keeps others from writing there."""
_IOCTL: Final = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)
"""TCGETS, TIOCGWINSZ, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX: nothing that a terminal would do."""
_PRCTL: Final = (3, 15, 16, 21, 23, 29, 30, 39, 0x53564D41)
"""Names of threads and mappings, timer slack, and what can be asked for."""
_ARCH_PRCTL: Final = (0x1003, 0x1021, 0x1022, 0x1023, 0x1024, 0x1025)
"""Reading FS, and leave to use wide registers (AMX)."""

# instructions: load a word of the call, jump where equal / greater / bits are set, return
_LOAD, _EQUAL, _GREATER, _BITS, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
_ALLOW: Final = 0x7FFF0000
_KILL: Final = 0x80000000


def _do(code: int, value: int, true: int = 0, false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, true, false, value)


def _fail(number: int = errno.EPERM) -> bytes:
    return _do(_RETURN, 0x00050000 | number)


# --- what is asked of an argument: instructions that go on where it holds, and fail where not ----


def _load(argument: int, high: bool = False) -> bytes:
    return _do(_LOAD, _ARGUMENTS + 8 * argument + 4 * high)


def _one_of(argument: int, values: Iterable[int]) -> list[bytes]:
    known = list(values)
    jumps = [_do(_EQUAL, value, len(known) - place, 0) for place, value in enumerate(known)]
    return [_load(argument), *jumps, _fail()]


def _without(argument: int, bits: int) -> list[bytes]:
    return [_load(argument), _do(_BITS, bits, 0, 1), _fail()]


def _with(argument: int, bit: int) -> list[bytes]:
    return [_load(argument), _do(_BITS, bit, 1, 0), _fail()]


def _not_both(argument: int, one: int, other: int) -> list[bytes]:
    return [_load(argument), _do(_BITS, one, 0, 2), _do(_BITS, other, 0, 1), _fail()]


def _null(argument: int) -> list[bytes]:
    low = [_load(argument), _do(_EQUAL, 0, 1, 0), _fail()]
    return [*low, _load(argument, high=True), _do(_EQUAL, 0, 1, 0), _fail()]


def _checks(pid: int, modules: bool) -> Mapping[str, list[bytes]]:
    """What is asked of the arguments of a call, by its name."""
    own = _one_of(0, [pid])
    return {
        "arch_prctl": _one_of(0, _ARCH_PRCTL),
        # threads, but no processes
        "clone": [*_without(0, _NEW_NAMESPACES), *_with(0, _THREAD)],
        # as on an old kernel: the C library then uses clone, whose flags can be checked
        "clone3": [_fail(errno.ENOSYS)],
        "memfd_create": [_fail(errno.ENOSYS)],
        # not even of files that it may only read; libraries take this for a file system without
        "flock": [_fail(errno.ENOSYS)],
        "fcntl": _one_of(1, _FCNTL),
        "ioctl": _one_of(1, _IOCTL),
        "kill": own,
        "tgkill": own,
        "rt_sigqueueinfo": own,
        "rt_tgsigqueueinfo": own,
        # memory that no limit of the process counts: shared, or shaped as a stack
        "mmap": [*_without(3, _GROWS_DOWN | _HUGE_PAGES), *_not_both(3, _SHARED, _ANONYMOUS)],
        "prctl": _one_of(0, _PRCTL),
        # limits may be asked for, not set
        "prlimit64": [*_one_of(0, [0, pid]), *_null(2)],
        "sched_setaffinity": _one_of(0, [0]),
        # a pair is connected: what is sent goes to its other end and nowhere else
        "sendto": _null(4),
        "socketpair": [*_one_of(0, [_AF_UNIX]), *_one_of(1, _STREAMS)],
        # times of a file that is open, not of one by its path
        "utimensat": _null(1) if modules else [_fail()],
    }


def program(machine: str, pid: int, *, modules: bool = False) -> bytes:
    """The filter for a process. Raises ConfineError where the machine is not known.

    Args:
        machine: as ``platform.machine`` names it.
        pid: of the process, as it sees it.
        modules: for the host of WebAssembly modules, which has volumes.
    """
    if machine not in MACHINES:
        raise ConfineError(
            f"code cannot be kept in on {machine}: only {', '.join(MACHINES)} are known"
        )
    at = column(machine)
    out = [
        _do(_LOAD, _ARCHITECTURE),
        _do(_EQUAL, _ARCHITECTURES[machine], 1, 0),
        _do(_RETURN, _KILL),
        _do(_LOAD, _NUMBER),
        _do(_GREATER, _X32, 0, 1),
        _do(_RETURN, _KILL),
    ]
    for number in numbers({**PLAIN, **(MODULES if modules else {})}, at):
        out += [_do(_EQUAL, number, 0, 1), _do(_RETURN, _ALLOW)]
    for name, block in _checks(pid, modules).items():
        if CHECKED[name][at] >= 0:
            out += [_do(_EQUAL, CHECKED[name][at], 0, len(block) + 1), *block]
            out.append(_do(_RETURN, _ALLOW))
    out += [_do(_GREATER, _NEWEST_KNOWN, 0, 1), _fail(errno.ENOSYS), _fail()]
    return b"".join(out)


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def refuse_calls(*, modules: bool = False) -> None:
    """Have the kernel refuse all others to this process and its threads from now on, for ever.

    Raises ConfineError, Refused.
    """
    code = program(platform.machine(), os.getpid(), modules=modules)
    filter_ = _Program(len(code) // 8, ctypes.c_char_p(code))
    set_filter, mode = 22, 2
    if library.prctl(set_filter, mode, ctypes.byref(filter_), 0, 0):
        reason = os.strerror(ctypes.get_errno())
        raise Refused(f"the kernel takes no filter of system calls: {reason}")
