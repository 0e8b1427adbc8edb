"""The system calls that Python 3.11 has no name for. Every one raises OSError."""

from __future__ import annotations

import ctypes
import os
import signal
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

NEWNS: Final = 0x00020000
NEWCGROUP: Final = 0x02000000
NEWUTS: Final = 0x04000000
NEWIPC: Final = 0x08000000
NEWUSER: Final = 0x10000000
NEWPID: Final = 0x20000000
NEWNET: Final = 0x40000000
NAMESPACES: Final = {
    "mount": NEWNS,
    "uts": NEWUTS,
    "ipc": NEWIPC,
    "user": NEWUSER,
    "pid": NEWPID,
    "net": NEWNET,
}

MS_REC: Final = 0x4000
MS_PRIVATE: Final = 0x40000

READ_ONLY: Final = 0x1
NO_SUID: Final = 0x2
NO_DEVICES: Final = 0x4
NO_EXEC: Final = 0x8
_IDMAP: Final = 0x100000

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_DUMPABLE: Final = 4
_PR_SET_SECCOMP: Final = 22
_PR_CAPBSET_DROP: Final = 24
_PR_SET_CHILD_SUBREAPER: Final = 36
_PR_SET_NO_NEW_PRIVS: Final = 38

# these numbers are the same on every architecture
_OPEN_TREE, _MOVE_MOUNT, _FSOPEN, _FSCONFIG, _FSMOUNT, _MOUNT_SETATTR = 428, 429, 430, 431, 432, 442
_AT_FDCWD: Final = -100
_AT_EMPTY_PATH: Final = 0x1000
_AT_RECURSIVE: Final = 0x8000
_TREE_CLONE: Final = 1
_NO_FOLLOW: Final = 0x100
_MOVE_FROM_EMPTY: Final = 0x4
_MOVE_TO_EMPTY: Final = 0x40

_PIVOT_ROOT: Final = {"x86_64": 155, "aarch64": 41, "riscv64": 41, "ppc64le": 203, "s390x": 217}
"""libc has no function for it."""

_STACK: Final = 1 << 16
_SHARED_MEMORY: Final = 0x100
_UNTIL_IT_ENDS: Final = 0x4000

_WAIT_FOR_CLONES: Final = -0x80000000
"""__WCLONE, as a number with a sign."""
_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def become_subreaper() -> None:
    """Orphans below this process become its children instead of init's."""
    _check(_libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "prctl")


def hide_memory() -> None:
    """Let nobody but the machine's root look into this process, until it runs another program."""
    _check(_libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0), "prctl")


def no_new_privileges() -> None:
    _check(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl")


def drop_from_bounds(capability: int) -> None:
    """Never have a capability again, whatever program is run."""
    _check(_libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0), "prctl")


class _Filter(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_char_p))


def filter_calls(code: bytes) -> None:
    """Put all further system calls through a filter."""
    wanted = _Filter(len(code) // 8, ctypes.c_char_p(code))
    _check(_libc.prctl(_PR_SET_SECCOMP, 2, ctypes.byref(wanted), 0, 0), "seccomp")


def set_capabilities(numbers: int) -> None:
    """Have at most these capabilities (a set of bits), of those there are, and hand none on."""
    header = struct.pack("=Ii", 0x20080522, 0)
    found = ctypes.create_string_buffer(24)
    _check(_libc.capget(header, found), "capget")
    _, low, _, _, high, _ = struct.unpack("=IIIIII", found.raw)
    numbers &= low | high << 32
    low, high = numbers & 0xFFFFFFFF, numbers >> 32
    data = struct.pack("=IIIIII", low, low, 0, high, high, 0)
    _check(_libc.capset(header, data), "capset")


def die_with_parent(signal: int) -> None:
    _check(_libc.prctl(_PR_SET_PDEATHSIG, signal, 0, 0, 0), "prctl")


def unshare(flags: int) -> None:
    _check(_libc.unshare(flags), "unshare")


def ended_child(flags: int) -> int:
    """A child in new namespaces that has ended at once; /proc shows them until `reap`.

    It has no memory of its own, for it needs none, and this process waits for its end.

    No fork: that runs handlers of every library in the child, which may start threads there (those
    of gRPC do), and a process with threads cannot have a user namespace made. And no process that
    lives: it would hold what this one has open, beyond the end of this one.
    """
    stack = ctypes.create_string_buffer(_STACK)
    top = (ctypes.addressof(stack) + _STACK) & ~15
    # handlers of ours, which it has too, must not run there
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        end = ctypes.cast(_libc._exit, ctypes.c_void_p)
        # without SIGCHLD, so that nobody who waits for any child takes it away
        flags |= _SHARED_MEMORY | _UNTIL_IT_ENDS
        pid = _libc.clone(end, ctypes.c_void_p(top), flags, None)
        _check(pid, "clone")
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    return int(pid)


def reap(pid: int) -> None:
    """Forget such a child."""
    os.waitpid(pid, _WAIT_FOR_CLONES)


def kill_and_reap(pid: int) -> None:
    """End a child that nobody needs, and forget it."""
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


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


def namespace(kind: str, pid: int | str = "self") -> int:
    """The namespace a process is in, open."""
    return os.open(namespace_path(kind, pid), os.O_RDONLY | os.O_CLOEXEC)


_trees: set[int] | None = None
"""Descriptors of trees that are attached nowhere, while `trees_closed` lasts."""


@contextmanager
def trees_closed() -> Iterator[None]:
    """Close at the end what was opened meanwhile and attached nowhere, whatever went wrong.

    Such a tree is a mount, and may keep somebody's files from going.
    """
    global _trees
    _trees = set()
    try:
        yield
    finally:
        for tree in _trees:
            os.close(tree)
        _trees = None


def track_tree(tree: int) -> int:
    if _trees is not None:
        _trees.add(tree)
    return tree


def make_private() -> None:
    """See that nothing that is mounted here from now on is seen elsewhere."""
    flags = ctypes.c_ulong(MS_REC | MS_PRIVATE)
    _check(_libc.mount(b"none", b"/", None, flags, None), "mount /")


def open_tree(path: str, *, folder: int = _AT_FDCWD, recursive: bool = True) -> int:
    """A copy of the mount at a path, attached nowhere; with ``path`` empty of that descriptor.

    A link below ``folder`` is not followed.
    """
    flags = _TREE_CLONE | os.O_CLOEXEC | (_AT_RECURSIVE if recursive else 0)
    flags |= 0 if folder == _AT_FDCWD else _NO_FOLLOW
    flags |= 0 if path else _AT_EMPTY_PATH
    fd = _libc.syscall(_OPEN_TREE, folder, os.fsencode(path), ctypes.c_uint(flags))
    _check(fd, f"open_tree {path}")
    return track_tree(int(fd))


def new_tree(kind: str, options: dict[str, str] | None = None, *, attributes: int = 0) -> int:
    """A new file system, attached nowhere."""
    fs = _libc.syscall(_FSOPEN, kind.encode(), 1)
    _check(fs, f"fsopen {kind}")
    try:
        for name, value in (options or {}).items():
            set_string = _libc.syscall(_FSCONFIG, fs, 1, name.encode(), value.encode(), 0)
            _check(set_string, f"{kind}: {name}={value}")
        _check(_libc.syscall(_FSCONFIG, fs, 6, None, None, 0), f"making a {kind}")
        fd = _libc.syscall(_FSMOUNT, fs, 1, attributes)
        _check(fd, f"fsmount {kind}")
        return track_tree(int(fd))
    finally:
        os.close(fs)


def set_attributes(tree: int, attributes: int, *, users: int = -1, recursive: bool = True) -> None:
    """Change the mounts of a tree; ``users`` is the user namespace whose ids its files get."""
    if users >= 0:
        attributes |= _IDMAP
    values = struct.pack("=QQQQ", attributes, 0, 0, max(users, 0))
    flags = _AT_EMPTY_PATH | (_AT_RECURSIVE if recursive else 0)
    result = _libc.syscall(_MOUNT_SETATTR, tree, b"", ctypes.c_uint(flags), values, len(values))
    _check(result, "mount_setattr")


def attach(tree: int, target: str, *, place: int = _AT_FDCWD) -> None:
    """Have a tree appear at a path, and close the descriptor.

    With ``place``, a descriptor, it appears there, and ``target`` is only for words.
    """
    try:
        name = os.fsencode(target) if place == _AT_FDCWD else b""
        flags = _MOVE_FROM_EMPTY | (0 if place == _AT_FDCWD else _MOVE_TO_EMPTY)
        moved = _libc.syscall(_MOVE_MOUNT, tree, b"", place, name, flags)
        _check(moved, f"mount on {target}")
    finally:
        if _trees is not None:
            _trees.discard(tree)
        os.close(tree)


def pivot_root(new: str, old: str) -> None:
    number = _PIVOT_ROOT.get(os.uname().machine)
    if number is None:
        raise OSError(38, f"pivot_root: not known on {os.uname().machine}")
    _check(_libc.syscall(number, os.fsencode(new), os.fsencode(old)), "pivot_root")


def unmount(target: str, *, lazy: bool = True) -> None:
    _check(_libc.umount2(os.fsencode(target), 2 if lazy else 0), f"umount {target}")
