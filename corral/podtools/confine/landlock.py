"""The files that confined code may reach: everything else is closed by the kernel (Landlock).

Written by hand because there is no well-kept package for it: three system calls. Every right that
the running kernel knows is taken away first, those of later versions where it has them.
"""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Sequence
from typing import Final

from corral.podtools.confine.errors import ConfineError, Refused
from corral.podtools.confine.kernel import call, library

__all__ = ["close_files", "unknown_rights"]

_CREATE, _ADD, _RESTRICT = 444, 445, 446
_PATH_BENEATH: Final = 1
_READ: Final = (1 << 2) | (1 << 3)
"""The rights to read files and folders."""
_LINKS: Final = (1 << 12) | (1 << 13)
"""Making symbolic links, and moving between folders."""
_WRITE: Final = 0x7FF2 & ~((1 << 6) | (1 << 9) | (1 << 10) | (1 << 11) | (1 << 12))
"""Writing, truncating, making and removing files and folders; no devices, sockets, pipes or links:

whoever reads what was made must not be led elsewhere."""
_FILE: Final = (1 << 0) | (1 << 1) | (1 << 2) | (1 << 14) | (1 << 15)
"""What can be said of something that is no folder."""
_LAST: Final = {1: 12, 2: 13, 3: 14, 4: 14}
"""The highest right that a version of the interface knows; 15 from the fifth on."""
_NETWORK, _SCOPED = 0b11, 0b11
"""Binding and connecting; abstract sockets and signals outside."""
_SINCE: Final = {"truncate": 3, "network": 4, "ioctl": 5, "scope": 6}
"""The version of the interface that brought a right."""


def version() -> int:
    """Of the running kernel's interface; less than 1 where it has none."""
    return int(library.syscall(_CREATE, None, 0, 1))


def unknown_rights() -> list[str]:
    """Rights that this kernel cannot take away."""
    known = version()
    return [f"landlock-{name}" for name, since in _SINCE.items() if known < since]


def close_files(readable: Sequence[str], writable: Sequence[str], *, links: bool = False) -> None:
    """Leave this process and its children these files and folders, for ever.

    Nothing may be executed. Paths that do not exist are left out. ``links``: symbolic links may be
    made in what is writable.

    Raises:
        ConfineError: the kernel has no Landlock.
        Refused: it did not take a rule.
    """
    known = version()
    if known < 1:
        raise ConfineError(
            "code cannot be kept in on this machine: its kernel has no Landlock "
            "(Linux 5.13 with CONFIG_SECURITY_LANDLOCK, and `landlock` among its modules)"
        )
    handled = (1 << (_LAST.get(known, 15) + 1)) - 1
    try:
        rules = _ruleset(known, handled)
        try:
            for path in readable:
                _allow(rules, path, _READ & handled)
            rights = _READ | _WRITE | (_LINKS if links else 0)
            for path in writable:
                _allow(rules, path, rights & handled)
            call("landlock_restrict_self", _RESTRICT, rules, 0)
        finally:
            os.close(rules)
    except OSError as err:
        raise Refused(f"the kernel does not close files to this process: {err}") from err


def _ruleset(known: int, handled: int) -> int:
    network = _NETWORK if known >= _SINCE["network"] else 0
    scoped = _SCOPED if known >= _SINCE["scope"] else 0
    attributes = struct.pack("=QQQ", handled, network, scoped)
    size = 24 if scoped else 16 if network else 8
    return call("landlock_create_ruleset", _CREATE, attributes, size, 0)


def _allow(rules: int, path: str, rights: int) -> None:
    try:
        found = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        if not stat.S_ISDIR(os.fstat(found).st_mode):
            rights &= _FILE
        rule = struct.pack("=Qi", rights, found)
        call(f"landlock_add_rule {path}", _ADD, rules, _PATH_BENEATH, rule, 0)
    finally:
        os.close(found)
