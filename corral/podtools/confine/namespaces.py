"""Namespaces of its own for confined code, and a user without rights.

With the rights of root the process becomes a user that nobody else is; what it may read is bound
so that its files are that user's. Without them it stays the user it is, under another number, in a
user namespace that nobody else is in. In both cases it has no capabilities there.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from corral.podtools.confine.kernel import checked, has_capabilities, library, prctl
from corral.podtools.confine.view import Tree, clone_tree, make_view, outermost

__all__ = ["Entered", "become", "enter"]

_MOUNTS, _UTS, _IPC, _USER, _PIDS, _NETWORK = (
    0x20000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000,
)  # fmt: skip
_OWN: Final = _MOUNTS | _UTS | _IPC | _NETWORK
_SETGID, _SETUID, _SYS_ADMIN = 6, 7, 21
_DUMPABLE: Final = 4
INSIDE: Final = 65534
"""The user that the process is for itself."""
_FIRST_UNUSED: Final = 2_000_000_000
"""Users from here on are nobody's: far above those of people and of pods."""


@dataclass(frozen=True, slots=True)
class Entered:
    """The namespaces that the process has entered."""

    proc: int
    """A descriptor of the machine's own /proc."""
    folders: Sequence[int]
    """The folders to write to, the home folder first."""
    user: int | None
    """That the process is to become; None: it is what it must be."""


def enter(readable: Sequence[str], writable: Sequence[str], size: int) -> Entered:
    """Go into new namespaces with a view of their own; children go into a new PID namespace.

    Raises OSError where this machine does not allow it; the process is then of no more use.
    """
    proc = os.open("/proc", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    rich = os.geteuid() == 0 and has_capabilities(_SETGID, _SETUID, _SYS_ADMIN)
    user = _unused_user() if rich else None
    if rich:
        checked("unshare", library.unshare(_OWN))
        trees, user = _trees(readable, user)
        owner = 0 if user is None else user
    else:
        _enter_alone(proc)
        trees, owner = [clone_tree(path) for path in outermost(readable)], INSIDE
    folders = make_view(trees, writable, size, owner)
    # only now: the first child after it is the one that the namespace ends with
    checked("unshare", library.unshare(_PIDS))
    return Entered(proc, folders, user)


def become(entered: Entered) -> None:
    """In the process that is to run code: be nobody. Raises OSError."""
    if entered.user is None:
        return
    os.setgroups([])
    os.setresgid(entered.user, entered.user, entered.user)
    os.setresuid(entered.user, entered.user, entered.user)
    # else its files in /proc are root's, and it cannot name itself in its namespace
    prctl("dumpable", _DUMPABLE, 1)
    checked("unshare", library.unshare(_USER))
    _map_alone(entered.proc, entered.user, entered.user)


def _enter_alone(proc: int) -> None:
    user, group = os.geteuid(), os.getegid()
    checked("unshare", library.unshare(_USER | _OWN))
    _map_alone(proc, user, group)


def _map_alone(proc: int, user: int, group: int) -> None:
    """Be one user in a user namespace, which has no others."""
    _write(proc, "self/setgroups", "deny")
    _write(proc, "self/uid_map", f"{INSIDE} {user} 1")
    _write(proc, "self/gid_map", f"{INSIDE} {group} 1")


def _write(proc: int, name: str, text: str) -> None:
    fd = os.open(name, os.O_WRONLY | os.O_CLOEXEC, dir_fd=proc)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


def _unused_user() -> int | None:
    """A user that nobody is: a number for each process. None where there is none to be had."""
    wanted = _FIRST_UNUSED + os.getpid()
    with open("/proc/self/uid_map") as file:
        ranges = [(int(first), int(count)) for first, _, count in map(str.split, file)]
    if any(first <= wanted < first + count for first, count in ranges):
        return wanted
    first, count = max(ranges)
    # a range of a pod: its last thousand, which no image uses
    return first + count - 2 - os.getpid() % 1000 if count >= 60_000 else None


# --- what it may read, as files of another user --------------------------------------------------


def _trees(paths: Sequence[str], user: int | None) -> tuple[list[Tree], int | None]:
    """The trees, and the user that may read them; None: it must stay who it is."""
    found = outermost(paths)
    if user is not None:
        owners = _Owners(user)
        try:
            return [clone_tree(path, owners.namespace) for path in found], user
        except OSError as err:
            # a kind of file system whose files cannot have another owner
            if err.errno not in (errno.EINVAL, errno.EPERM, errno.EOPNOTSUPP):
                raise
        finally:
            owners.close()
    return [clone_tree(path) for path in found], None


class _Owners:
    """User namespaces by which the files of one user are another's."""

    def __init__(self, user: int) -> None:
        self._user = user
        self._made: dict[int, int] = {}

    def namespace(self, owner: int) -> int:
        if owner not in self._made:
            self._made[owner] = self._make(f"{owner} {self._user} 1")
        return self._made[owner]

    def close(self) -> None:
        for fd in self._made.values():
            os.close(fd)

    def _make(self, text: str) -> int:
        """A namespace with a map; a process that does nothing stands in it meanwhile."""
        ours, theirs = os.pipe2(os.O_CLOEXEC)
        again, go = os.pipe2(os.O_CLOEXEC)
        child = os.fork()
        if child == 0:
            os.close(go)
            os.write(theirs, b"0" if library.unshare(_USER) else b"1")
            os.read(again, 1)
            os._exit(0)
        try:
            os.close(again)
            if os.read(ours, 1) != b"1":
                raise OSError(1, "user namespaces are not allowed")
            for name in ("uid_map", "gid_map"):
                with open(f"/proc/{child}/{name}", "w") as file:
                    file.write(text)
            return os.open(f"/proc/{child}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
        finally:
            os.close(go)
            os.close(ours)
            os.close(theirs)
            os.waitpid(child, 0)
