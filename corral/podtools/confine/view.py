"""A root folder of its own, which holds what confined code needs and nothing else of the machine.

It is made in a new mount namespace: what is readable is bound read-only at its own path, and the
only place to write to is one tmpfs of a bounded size, which has the home folder and the writable
folders. The rest of the machine, `/proc` included, is not there.
"""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from corral.podtools.confine.kernel import call, checked, column, library

__all__ = ["HOME", "INODES", "Tree", "clone_tree", "make_view", "outermost"]

HOME: Final = "/scratch"
INODES: Final = 16384
"""Files and folders that it may have at once."""

_OPEN_TREE, _MOVE_MOUNT, _MOUNT_SETATTR = 428, 429, 442
_PIVOT_ROOT: Final = (155, 41)
_CLONE, _CLOEXEC, _RECURSIVE, _EMPTY_PATH = 1, os.O_CLOEXEC, 0x8000, 0x1000
_FROM_FD: Final = 4
_CWD: Final = -100
_READ_ONLY, _NO_SETUID, _NO_DEVICES, _IDMAP = 0x1, 0x2, 0x4, 0x100000
_MS_READ_ONLY, _MS_NO_SETUID, _MS_NO_DEVICES, _MS_REMOUNT = 1, 2, 4, 32
_MS_BIND, _MS_RECURSIVE, _MS_PRIVATE = 4096, 16384, 1 << 18
_DETACH: Final = 2
_PLACE: Final = "/tmp"
"""Where the new root is mounted while it is made."""


@dataclass(frozen=True, slots=True)
class Tree:
    """A file or folder that was taken out of the machine's view, to be put into another."""

    path: str
    fd: int
    folder: bool


def outermost(paths: Sequence[str]) -> list[str]:
    """Paths that exist, without those that lie below another."""
    out: list[str] = []
    for path in sorted({os.path.normpath(path) for path in paths}):
        inside = any(path == other or path.startswith(f"{other}/") for other in out)
        if not inside and os.path.exists(path):
            out.append(path)
    return out


def clone_tree(path: str, owner: Callable[[int], int] | None = None) -> Tree:
    """Take a copy of a mounted tree, to be read only.

    Args:
        path: the file or folder.
        owner: a user namespace for the owner of the tree, by whose map its files are those of
            another user.

    Raises:
        OSError: it cannot be had, or not with another owner.
    """
    flags = _CLONE | _CLOEXEC | _RECURSIVE
    fd = call(f"open_tree {path}", _OPEN_TREE, _CWD, os.fsencode(path), flags)
    try:
        info = os.fstat(fd)
        device = stat.S_ISCHR(info.st_mode)
        attributes = _READ_ONLY | _NO_SETUID | (0 if device else _NO_DEVICES)
        _set_attributes(path, fd, attributes, 0)
        if owner is not None and not _open_to_all(info):
            _set_attributes(path, fd, _IDMAP, owner(info.st_uid))
        elif owner is not None:
            _try_owner(path, fd, owner(info.st_uid))
        return Tree(path, fd, stat.S_ISDIR(info.st_mode))
    except OSError:
        os.close(fd)
        raise


def _open_to_all(info: os.stat_result) -> bool:
    wanted = 0o5 if stat.S_ISDIR(info.st_mode) else 0o4
    return info.st_mode & wanted == wanted


def _try_owner(path: str, fd: int, namespace: int) -> bool:
    """Whether files of this kind can have another owner; those of /proc and /sys cannot."""
    try:
        _set_attributes(path, fd, _IDMAP, namespace)
    except OSError:
        return False
    return True


def _set_attributes(path: str, fd: int, attributes: int, namespace: int) -> None:
    data = struct.pack("=QQQQ", attributes, 0, 0, namespace)
    flags = _EMPTY_PATH | _RECURSIVE
    call(f"mount_setattr {path}", _MOUNT_SETATTR, fd, b"", flags, data, len(data))


def make_view(trees: Sequence[Tree], writable: Sequence[str], size: int, user: int) -> list[int]:
    """Make a root folder of trees and go there; the folders to write to, the home folder first.

    Needs a mount namespace of its own, and the right to mount in it. ``size`` is that of all files
    in bytes, ``user`` their owner. Raises OSError.
    """
    _mount(None, "/", None, _MS_RECURSIVE | _MS_PRIVATE, "")
    _mount("tmpfs", _PLACE, "tmpfs", _MS_NO_SETUID | _MS_NO_DEVICES, "size=4m,mode=0755")
    os.chdir(_PLACE)
    umask = os.umask(0o022)  # the code's user must get through the folders of the view
    places = _scratch(writable, size, user)
    for tree in trees:
        _put(tree)
    opened = []
    for place, fd in places:
        _put(Tree(place, fd, folder=True))
        opened.append(os.open(f".{place}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
    os.umask(umask)
    call("pivot_root", _PIVOT_ROOT[column()], b".", b".")
    checked("umount2", library.umount2(b".", _DETACH))
    os.chdir("/")
    _mount(None, "/", None, _MS_REMOUNT | _MS_BIND | _MS_READ_ONLY | _MS_NO_SETUID, "")
    return opened


def _scratch(writable: Sequence[str], size: int, user: int) -> list[tuple[str, int]]:
    """One tmpfs with a folder for each place; mounted nowhere as a whole."""
    os.mkdir(".made", 0o700)
    options = f"size={size},nr_inodes={INODES},mode=0700,uid={user},gid={user}"
    _mount("tmpfs", ".made", "tmpfs", _MS_NO_SETUID | _MS_NO_DEVICES, options)
    out = []
    for number, place in enumerate([HOME, *writable]):
        folder = f".made/{number}"
        os.mkdir(folder, 0o700)
        os.chown(folder, user, user)
        flags = _CLONE | _CLOEXEC
        out.append((place, call(f"open_tree {place}", _OPEN_TREE, _CWD, folder.encode(), flags)))
    checked("umount2", library.umount2(b".made", _DETACH))
    os.rmdir(".made")
    return out


def _put(tree: Tree) -> None:
    """Put a tree at its path below the folder we are in."""
    path = f".{os.path.normpath(tree.path)}"
    if tree.folder:
        os.makedirs(path, mode=0o755, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_RDONLY | os.O_CLOEXEC, 0o644))
    words = (tree.fd, b"", _CWD, os.fsencode(path), _FROM_FD)
    call(f"move_mount {tree.path}", _MOVE_MOUNT, *words)
    os.close(tree.fd)


def _mount(source: str | None, place: str, kind: str | None, flags: int, options: str) -> None:
    words = [None if word is None else os.fsencode(word) for word in (source, place, kind)]
    result = library.mount(*words, flags, options.encode() or None)
    checked(f"mount {kind or ''} {place}", result)
