"""System calls that Python has no function for, each failing with an OSError that says which."""

from __future__ import annotations

import ctypes
import os
import platform
import struct
from typing import Final

__all__ = [
    "MACHINES",
    "call",
    "column",
    "drop_capabilities",
    "has_capabilities",
    "library",
    "no_new_privileges",
    "prctl",
]

MACHINES: Final = ("x86_64", "aarch64")
"""Those whose system calls are known; tables of numbers have a column for each."""
_NO_NEW_PRIVILEGES: Final = 38
_CAPSET: Final = (126, 91)
_CAPABILITY_VERSION: Final = 0x20080522

library: Final = ctypes.CDLL(None, use_errno=True)


def column(machine: str = "") -> int:
    """The place of a machine in tables of numbers, else of this one. Raises ValueError."""
    return MACHINES.index(machine or platform.machine())


def call(what: str, number: int, *arguments: int | bytes | None) -> int:
    """Make a system call by its number. Raises OSError."""
    return checked(what, library.syscall(number, *arguments))


def prctl(what: str, option: int, *arguments: int) -> int:
    """Make one such call and return its result; raises OSError."""
    return checked(what, library.prctl(option, *(*arguments, 0, 0, 0, 0)[:4]))


def checked(what: str, result: int) -> int:
    """What a function of the C library returned. Raises OSError where it failed."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def no_new_privileges() -> None:
    """No program that is executed from now on gives this process rights. Raises OSError."""
    prctl("no_new_privs", _NO_NEW_PRIVILEGES, 1)


def drop_capabilities(keep: int = 0) -> None:
    """Have no capabilities but those of a mask, as far as there are any. Raises OSError."""
    header = struct.pack("=Ii", _CAPABILITY_VERSION, 0)
    keep &= _capabilities()
    low, high = keep & 0xFFFFFFFF, keep >> 32
    call("capset", _CAPSET[column()], header, struct.pack("=6I", low, low, 0, high, high, 0))


def has_capabilities(*numbers: int) -> bool:
    """Whether this process has all of these capabilities, in its user namespace."""
    found = _capabilities()
    return all(found >> number & 1 for number in numbers)


def _capabilities() -> int:
    """Those that this process may use, as a mask."""
    data = ctypes.create_string_buffer(24)
    header = struct.pack("=Ii", _CAPABILITY_VERSION, 0)
    checked("capget", library.capget(header, data))
    low, _, _, high, _, _ = struct.unpack("=6I", data.raw)
    return int(low) | int(high) << 32
