"""The files that confined code may reach: everything else is closed by the kernel (Landlock).

Written by hand because there is no well-kept package for it: three system calls.
"""

from __future__ import annotations

import ctypes
import os
import stat
import struct
from collections.abc import Sequence
from typing import Final

from corral.inpod.confine.errors import ConfineError, Refused

__all__ = ["close_files"]

_CREATE, _ADD, _RESTRICT = 444, 445, 446
_PATH_BENEATH: Final = 1
_READ: Final = (1 << 2) | (1 << 3)
"""Reading files and folders."""
_WRITE: Final = 0x7FF2 & ~((1 << 6) | (1 << 9) | (1 << 10) | (1 << 11) | (1 << 12))
"""Writing, truncating, making and removing files and folders; no devices, sockets, pipes or links:

whoever reads what was made must not be led elsewhere."""
_FILE: Final = (1 << 0) | (1 << 1) | (1 << 2) | (1 << 14) | (1 << 15)
"""What can be said of something that is no folder."""
_LAST: Final = {1: 12, 2: 13, 3: 14, 4: 14}
"""The highest right that a version of the interface knows; 15 from the fifth on."""
_SCOPED: Final = 0b11
"""Abstract sockets and signals: nobody outside."""


def close_files(readable: Sequence[str], writable: Sequence[str]) -> None:
    """Leave this process and its children these files and folders, for ever.

    Nothing may be executed. Paths that do not exist are left out.

    Raises:
        ConfineError: the kernel has no Landlock.
        Refused: it did not take a rule.
    """
    library = ctypes.CDLL(None, use_errno=True)
    version = library.syscall(_CREATE, None, 0, 1)
    if version < 1:
        raise ConfineError(
            "code cannot be kept in on this machine: its kernel has no Landlock "
            "(Linux 5.13 with CONFIG_SECURITY_LANDLOCK, and `landlock` among its modules)"
        )
    handled = (1 << (_LAST.get(version, 15) + 1)) - 1
    network = 0b11 if version >= 4 else 0
    scoped = _SCOPED if version >= 6 else 0
    attributes = struct.pack("=QQQ", handled, network, scoped)
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    rules = _checked(library, _CREATE, attributes, size, 0)
    try:
        for path in readable:
            _allow(library, rules, path, _READ & handled)
        for path in writable:
            _allow(library, rules, path, (_READ | _WRITE) & handled)
        _checked(library, _RESTRICT, rules, 0)
    finally:
        os.close(rules)


def _allow(library: ctypes.CDLL, rules: int, path: str, rights: int) -> None:
    try:
        found = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        if not stat.S_ISDIR(os.fstat(found).st_mode):
            rights &= _FILE
        _checked(library, _ADD, rules, _PATH_BENEATH, struct.pack("=Qi", rights, found), 0)
    finally:
        os.close(found)


def _checked(library: ctypes.CDLL, number: int, *arguments: int | bytes) -> int:
    result: int = library.syscall(number, *arguments)
    if result < 0:
        reason = os.strerror(ctypes.get_errno())
        raise Refused(f"the kernel does not close files to this process: {reason}")
    return result
