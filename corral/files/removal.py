"""Removing a folder that somebody else filled: links are removed, never followed.

Whatever lies there: folders that forbid it, folders as deep as a file system lets them be, folders
that are exchanged for links meanwhile. Two descriptors and no recursion are enough, because what
lies deeper is first moved up. What is mounted there is let go of first: it is not what is removed,
and a folder that something is mounted on could not be.
"""

from __future__ import annotations

import ctypes
import os
import re
import secrets
import stat
from contextlib import suppress
from pathlib import Path

__all__ = ["remove_tree"]

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_MNT_DETACH, _UMOUNT_NOFOLLOW = 2, 8
_ESCAPED = re.compile(rb"\\([0-7]{3})")
"""How the kernel writes a space or a line break of a path."""
_libc = ctypes.CDLL(None, use_errno=True)
_CHANGED = (FileNotFoundError, NotADirectoryError, IsADirectoryError)
"""An entry is gone, or was exchanged since we looked: the next listing has what is there now."""


def remove_tree(path: Path) -> None:
    """Remove a folder with all that is in it; what is not there is removed already.

    Raises:
        OSError: something could not be removed, or ``path`` is a link.
    """
    if path.is_symlink():
        raise OSError(f"{path} is a link")
    for place in _mounts_below(path):
        _unmount(place)
    try:
        root = _open(str(path), None)  # which opens no link, should there be one now
    except FileNotFoundError:
        return
    try:
        while names := os.listdir(root):
            for name in names:
                _remove(root, name)
    finally:
        os.close(root)
    with suppress(FileNotFoundError):
        path.rmdir()


def _mounts_below(path: Path) -> list[str]:
    """Where something is mounted in a folder, the latest first."""
    beginning = os.fsencode(os.path.realpath(path)) + b"/"
    try:
        lines = Path("/proc/self/mountinfo").read_bytes().splitlines()
    except FileNotFoundError:  # no /proc here
        return []
    places = [_ESCAPED.sub(_letter, line.split(b" ", 5)[4]) for line in lines]
    return [os.fsdecode(p) for p in reversed(places) if p.startswith(beginning)]


def _letter(escaped: re.Match[bytes]) -> bytes:
    return bytes([int(escaped[1], 8)])


def _unmount(place: str) -> None:
    """At once for everybody who has not opened it yet. Raises OSError."""
    if _libc.umount2(os.fsencode(place), _MNT_DETACH | _UMOUNT_NOFOLLOW):
        number = ctypes.get_errno()
        raise OSError(number, f"cannot unmount {place}: {os.strerror(number)}")


def _remove(root: int, name: str) -> None:
    """Remove an entry; the folders in it are in ``root`` afterwards."""
    with suppress(*_CHANGED):
        if not stat.S_ISDIR(os.lstat(name, dir_fd=root).st_mode):
            os.unlink(name, dir_fd=root)
            return
        folder = _open(name, root)
        try:
            for entry in os.listdir(folder):
                _lift(folder, entry, root)
        finally:
            os.close(folder)
        os.rmdir(name, dir_fd=root)


def _lift(folder: int, entry: str, root: int) -> None:
    with suppress(FileNotFoundError):
        if stat.S_ISDIR(os.lstat(entry, dir_fd=folder).st_mode):
            _unlock(entry, folder)
            new = f".removed-{secrets.token_hex(8)}"
            os.rename(entry, new, src_dir_fd=folder, dst_dir_fd=root)
        else:
            os.unlink(entry, dir_fd=folder)


def _open(name: str, parent: int | None) -> int:
    """A folder, which is made accessible for it. Raises OSError, for a link too."""
    _unlock(name, parent)
    return os.open(name, _FOLDER, dir_fd=parent)


def _unlock(name: str, parent: int | None) -> None:
    """Let us list and change a folder of ours that forbids it; a link is left as it is."""
    found = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    try:
        info = os.fstat(found)
        forbids = info.st_mode & stat.S_IRWXU != stat.S_IRWXU
        if stat.S_ISDIR(info.st_mode) and forbids and os.geteuid() in (0, info.st_uid):
            # a descriptor made with O_PATH has no fchmod
            os.chmod(f"/proc/self/fd/{found}", stat.S_IMODE(info.st_mode) | stat.S_IRWXU)
    finally:
        os.close(found)
