"""Ranges of user ids: every pod of a root node has one of its own, and a user namespace over it.

Ids inside are 0 to 65535. Ranges are taken in blocks; a block is a locked file, which the process
that stands by the containers holds as long as it lives: no two nodes of a machine use the same,
and those of an agent that was started again are still taken.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import Final

from corral.cluster.node.shim import kernel

SIZE: Final = 1 << 16
"""Ids of one pod."""
FIRST: Final = 0x10000000
_IN_BLOCK: Final = 256
_BLOCKS: Final = (0xF0000000 - FIRST) // (SIZE * _IN_BLOCK)
_FOLDER: Final = "/run/corral/users"


class Users:
    """The user namespaces of the pods that this process stands by."""

    def __init__(self, folder: str = _FOLDER) -> None:
        self._folder = folder
        self._locks: list[int] = []
        self._free: list[int] = []
        self._ready: list[tuple[int, int]] = []
        self._of: dict[str, tuple[int, int]] = {}
        self._uses: dict[str, int] = {}

    def take(self, pod: str) -> tuple[int, int]:
        """The pod's user namespace, and the machine's id of its user 0. Raises OSError."""
        if pod not in self._of:
            self._of[pod] = self._ready.pop(0) if self._ready else self._make()
        self._uses[pod] = self._uses.get(pod, 0) + 1
        return self._of[pod]

    def release(self, pod: str) -> None:
        """One container fewer; the range goes back with the last."""
        if pod not in self._of:
            return
        self._uses[pod] -= 1
        if not self._uses[pod]:
            # a namespace without processes is as good as a new one, and making one takes time
            self._ready.append(self._of.pop(pod))
            del self._uses[pod]

    def prepare(self) -> None:
        """Have the next one ready, so that a pod does not wait for it."""
        if not self._ready:
            with suppress(OSError):  # who needs it meets the same problem, and reports it
                self._ready.append(self._make())

    def _make(self) -> tuple[int, int]:
        if not self._free:
            self._take_block()
        base = self._free.pop(0)
        try:
            return _namespace(base), base
        except OSError:
            self._free.append(base)
            raise

    def _take_block(self) -> None:
        for path in (os.path.dirname(self._folder), self._folder):
            with suppress(FileExistsError):
                os.mkdir(path, 0o700)
        folder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            found = os.fstat(folder)
            if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o022:
                raise PermissionError(f"{self._folder} is not ours alone: remove it")
            for number in range(_BLOCKS):
                if self._lock(number, folder):
                    first = FIRST + number * SIZE * _IN_BLOCK
                    self._free += range(first, first + SIZE * _IN_BLOCK, SIZE)
                    return
        finally:
            os.close(folder)
        raise OSError("all ranges of user ids of this machine are taken")

    def _lock(self, number: int, folder: int) -> bool:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(str(number), flags, 0o600, dir_fd=folder)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return False
        self._locks.append(fd)
        return True


def _namespace(base: int) -> int:
    """A user namespace over the range that begins there, open. Raises OSError."""
    with _explained():
        pid = kernel.ended_child(kernel.NEWUSER)
    try:
        for name in ("uid_map", "gid_map"):
            _write(f"/proc/{pid}/{name}", f"0 {base} {SIZE}")
        return os.open(f"/proc/{pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        kernel.reap(pid)


@cache
def can_map(folder: str) -> bool:
    """Whether files on the file system of a folder can be seen by the ids of a pod.

    Only the machine's root can find out. File systems in memory can since Linux 6.3.
    """
    with suppress(OSError):
        namespace = _namespace(FIRST)
        try:
            tree = kernel.open_tree(folder, recursive=False)
            try:
                kernel.set_attributes(tree, 0, users=namespace, recursive=False)
                return True
            finally:
                os.close(tree)
        finally:
            os.close(namespace)
    return False


def own_users(*, uid: int | None = None, gid: int | None = None) -> None:
    """A user namespace for this process, in which it is who it was or that one: enough to mount."""
    mine, group = os.geteuid(), os.getegid()
    with _explained():
        kernel.unshare(kernel.NEWUSER)
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{mine if uid is None else uid} {mine} 1"),
        ("gid_map", f"{group if gid is None else gid} {group} 1"),
    ):
        _write(f"/proc/self/{name}", text)


def _write(path: str, text: str) -> None:
    try:
        with open(path, "w") as file:
            file.write(text)
    except OSError as err:  # one of a write does not say to what
        raise OSError(err.errno, err.strerror, path) from err


@contextmanager
def _explained() -> Iterator[None]:
    """Say why there is no user namespace, and what to do, as far as that is known."""
    try:
        yield
    except OSError as err:
        remedy = _REMEDIES.get(err.errno or 0, "")
        raise OSError(
            err.errno, f"no user namespace could be made: {err.strerror}{remedy}"
        ) from err


_LIMIT: Final = " (raise user.max_user_namespaces with sysctl)"
_REMEDIES: Final = {
    errno.ENOSPC: _LIMIT,
    errno.EUSERS: _LIMIT,
    errno.EPERM: " (a chroot, a filter of system calls or a security module forbids it: allow it)",
    errno.EINVAL: " (this process has threads, or the kernel has no user namespaces)",
}
