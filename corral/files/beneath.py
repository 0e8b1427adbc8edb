"""Paths that somebody else chose, opened without ever leaving the folder they are relative to.

A path that is checked first and used afterwards can be exchanged in between. Here the kernel
follows it (``openat2`` with RESOLVE_BENEATH), or each part of it is opened on its own where the
kernel cannot; what comes back is a descriptor, which nobody can exchange. Links inside the folder
are followed as far as they stay inside; absolute ones never are.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

__all__ = ["LedOut", "make_beneath", "open_beneath", "open_in_root", "opened_beneath"]

_OPENAT2: Final = 437
"""The same on every architecture."""
_NO_MAGICLINKS: Final = 0x02
_NO_SYMLINKS: Final = 0x04
_BENEATH: Final = 0x08
_IN_ROOT: Final = 0x10
_TRIES: Final = 1000
"""How often a path is followed anew because something was renamed meanwhile."""
_LINKS: Final = 40
"""Links in one path, as the kernel counts them."""

_libc = ctypes.CDLL(None, use_errno=True)


class LedOut(OSError):
    """The path leads out of its folder, or through a link where none is allowed."""

    def __init__(self, relative: str) -> None:
        super().__init__(errno.EXDEV, "leads out of its folder", relative)


class _Unsupported(Exception):
    """The kernel has no openat2, or a filter forbids it."""


class _How(ctypes.Structure):
    _fields_ = (
        ("flags", ctypes.c_uint64),
        ("mode", ctypes.c_uint64),
        ("resolve", ctypes.c_uint64),
    )


def open_beneath(
    root: int | str | os.PathLike[str],
    relative: str,
    flags: int = os.O_PATH,
    *,
    mode: int = 0o600,
    links: bool = True,
) -> int:
    """Open a path below ``root`` (a folder, or its descriptor); "" and "." are the folder itself.

    Args:
        root: trusted, links in it are followed.
        relative: from somebody else.
        flags: as for os.open; O_CLOEXEC is added.
        mode: of a file that is made.
        links: whether links that stay inside are followed.

    Raises:
        LedOut: it leaves the folder; without ``links`` also when it passes through one.
        OSError: it cannot be opened.
    """
    if not isinstance(root, int):
        home = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            return open_beneath(home, relative, flags, mode=mode, links=links)
        finally:
            os.close(home)
    flags |= os.O_CLOEXEC
    try:
        return _by_kernel(root, relative or ".", flags, mode, links=links)
    except _Unsupported:
        return _by_parts(root, relative, flags, mode, links=links)


@contextmanager
def opened_beneath(
    root: int | str | os.PathLike[str],
    relative: str,
    flags: int = os.O_PATH,
    *,
    mode: int = 0o600,
    links: bool = True,
) -> Iterator[int]:
    """The same, closed at the end."""
    fd = open_beneath(root, relative, flags, mode=mode, links=links)
    try:
        yield fd
    finally:
        os.close(fd)


def open_in_root(root: int, path: str, flags: int = os.O_PATH) -> int:
    """Open a path as if ``root`` (a descriptor) was the root of all files; links are followed.

    But never those of /proc, which lead to what a process has open, wherever that is. Needs Linux
    5.6.

    Raises:
        LedOut: it passes through such a link.
        OSError: it cannot be opened.
    """
    try:
        return _resolve(root, path or "/", flags | os.O_CLOEXEC, 0, _IN_ROOT | _NO_MAGICLINKS)
    except _Unsupported:
        raise OSError(
            errno.ENOSYS, "this kernel has no openat2, or it is forbidden", path
        ) from None
    except OSError as err:
        if err.errno == errno.ELOOP:
            raise LedOut(path) from err
        raise


def make_beneath(
    root: int | str | os.PathLike[str], relative: str, *, mode: int, links: bool = True
) -> None:
    """Make the folders of a path that are not there, with exactly ``mode``. Raises as above."""
    parts = [part for part in relative.split("/") if part not in ("", ".")]
    for count in range(1, len(parts) + 1):
        try:
            os.close(open_beneath(root, "/".join(parts[:count]), links=links))
        except FileNotFoundError:
            folder = os.O_RDONLY | os.O_DIRECTORY
            above = "/".join(parts[: count - 1])
            with opened_beneath(root, above, folder, links=links) as parent:
                _make(parent, parts[count - 1], mode)


def _make(parent: int, name: str, mode: int) -> None:
    try:
        os.mkdir(name, 0o700, dir_fd=parent)
    except FileExistsError:
        return  # somebody was quicker, or it is a link that leads nowhere
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    made = os.open(name, flags, dir_fd=parent)
    try:
        os.fchmod(made, mode)  # whatever the umask is
    finally:
        os.close(made)


# -- by the kernel -----------------------------------------------------------------------------


def _by_kernel(root: int, relative: str, flags: int, mode: int, *, links: bool) -> int:
    resolve = _BENEATH | _NO_MAGICLINKS | (0 if links else _NO_SYMLINKS)
    try:
        return _resolve(root, relative, flags, mode, resolve)
    except OSError as err:
        if err.errno == errno.EXDEV or (err.errno == errno.ELOOP and not links):
            raise LedOut(relative) from err
        raise


def _resolve(root: int, relative: str, flags: int, mode: int, resolve: int) -> int:
    how = _How(flags=flags, mode=mode if flags & os.O_CREAT else 0, resolve=resolve)
    for _ in range(_TRIES):
        fd = int(
            _libc.syscall(
                _OPENAT2, root, os.fsencode(relative), ctypes.byref(how), ctypes.sizeof(how)
            )
        )
        if fd >= 0:
            return fd
        number = ctypes.get_errno()
        if number != errno.EAGAIN:
            break
    if number in (errno.ENOSYS, errno.EPERM):
        raise _Unsupported
    raise OSError(number, os.strerror(number), relative)


# -- by ourselves ------------------------------------------------------------------------------


def _by_parts(root: int, relative: str, flags: int, mode: int, *, links: bool) -> int:
    """Open one part after the other; ``..`` goes back to a folder that is still open."""
    trail = [os.dup(root)]
    left = relative.split("/")[::-1]
    seen = 0
    if relative.startswith("/"):
        raise LedOut(relative)
    try:
        while left:
            part = left.pop()
            if part in ("", "."):
                continue
            if part == "..":
                if len(trail) == 1:
                    raise LedOut(relative)
                os.close(trail.pop())
                continue
            target = _link(trail[-1], part)
            if target is None:
                if not any(more not in ("", ".") for more in left):
                    return os.open(part, flags | os.O_NOFOLLOW, mode, dir_fd=trail[-1])
                folder = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
                trail.append(os.open(part, folder, dir_fd=trail[-1]))
                continue
            seen += 1
            if not links or target.startswith("/"):
                raise LedOut(relative)
            if seen > _LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), relative)
            left += target.split("/")[::-1]
        return os.open(".", flags, dir_fd=trail[-1])
    finally:
        for fd in trail:
            os.close(fd)


def _link(folder: int, name: str) -> str | None:
    """Where a link leads; None for what is no link, or is not there."""
    try:
        if stat.S_ISLNK(os.lstat(name, dir_fd=folder).st_mode):
            return os.readlink(name, dir_fd=folder)
    except FileNotFoundError:
        return None
    except OSError as err:
        if err.errno != errno.EINVAL:  # it was a link when it was looked at, and is none now
            raise
    return None
