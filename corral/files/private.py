"""Folders of our own: nobody else can enter them, prepare them for us, or put a link there.

A name in a folder that everybody may write to, such as /tmp, can be taken by anybody before we
come. So a folder is used only if it is one, no link, and belongs to us; otherwise it is refused in
words that say whose it is and what to do. A folder that the user named must also be out of reach:
no folder or link on the way to it may be another user's, who could put something else in its place.
"""

from __future__ import annotations

import errno
import grp
import os
import pwd
import stat
from contextlib import suppress
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

__all__ = [
    "NotPrivate",
    "data_folder",
    "is_own",
    "is_safe",
    "make_folders",
    "private_folder",
    "private_umask",
    "safe_way",
]

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_LINKS: Final = 40
"""On one way, as the kernel counts them."""


class NotPrivate(PermissionError):
    """A folder that we cannot trust; the words say why and what to do."""


def private_umask() -> None:
    """What this process writes from now on is for its user alone.

    But for compiled modules: whoever may read a module's source may read those too. Containers of
    other users would compile them at every start otherwise.
    """
    os.umask(0o077)
    if SourceFileLoader.set_data is not _set_data:
        SourceFileLoader.set_data = _set_data  # type: ignore[method-assign]


_write_compiled = SourceFileLoader.set_data


def _set_data(
    self: SourceFileLoader, path: str, data: ReadableBuffer, *, _mode: int = 0o666
) -> None:
    """Write a compiled module with the mode of its source, ``_mode``."""
    _write_compiled(self, path, data, _mode=_mode)
    with suppress(OSError):  # it may not have been written: then there is none
        folder = os.path.dirname(path)
        if stat.S_IMODE(os.stat(folder).st_mode) == 0o700:
            os.chmod(folder, 0o755)
        os.chmod(path, _mode & 0o644)


def private_folder(path: Path, *, mode: int = 0o700) -> None:
    """Make a folder of our own, or take the one that is there and close it to others.

    Folders above it that are not there are made for us alone.

    Raises:
        NotPrivate: it is a link, or somebody else's.
        OSError: it cannot be made.
    """
    make_folders(path)
    fd = _opened(path)
    try:
        info = _checked(path, fd)
        if stat.S_IMODE(info.st_mode) != mode:
            os.fchmod(fd, mode)
    finally:
        os.close(fd)


def data_folder(path: Path) -> Path:
    """The same for a folder that the user named, which may be a link and may hold other things.

    It is closed to others unless there are files in it that look like somebody's own. Returns it
    without links.

    Raises:
        NotPrivate: it is somebody else's, others may write to it, or to what is on the way to it.
        OSError: it cannot be made.
    """
    found = safe_way(path)  # before anything is made there, and after
    make_folders(found)
    found = safe_way(found)
    fd = _opened(found)
    try:
        info = _checked(path, fd)
        if info.st_mode & stat.S_IWOTH:
            raise NotPrivate(
                f"{path} can be written to by everybody: "
                f"choose another folder, or close it with `chmod 700 {path}`"
            )
        if info.st_mode & _OTHERS and _looks_ours(fd):
            os.fchmod(fd, info.st_mode & stat.S_IRWXU)  # one that is read-only stays so
    finally:
        os.close(fd)
    return found


def safe_way(path: Path) -> Path:
    """A path without links, of which nobody else can exchange a folder or link on the way.

    What is not there ends the way.

    Raises:
        NotPrivate: a folder or a link on the way is somebody else's, or others may write to it.
        OSError: it cannot be looked at.
    """
    place, followed = Path("/"), 0
    left = list(path.absolute().parts[:0:-1])
    while left:
        if not is_safe(info := place.stat()):
            raise NotPrivate(_way_refusal(path, place, info))
        if (name := left.pop()) == "..":
            place = place.parent
            continue
        try:
            info = (place / name).lstat()
        except FileNotFoundError:
            return place.joinpath(name, *reversed(left))
        if not stat.S_ISLNK(info.st_mode):
            place = place / name
            continue
        if info.st_uid not in (0, os.geteuid()):
            raise NotPrivate(_way_refusal(path, place / name, info))
        followed += 1
        if followed > _LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
        target = Path(os.readlink(place / name))
        place = Path("/") if target.is_absolute() else place
        left += target.parts[: 0 if target.is_absolute() else None : -1]
    return place


def is_safe(info: os.stat_result) -> bool:
    """Whether what is ours in a folder like that cannot be moved away by others."""
    if info.st_uid not in (0, os.geteuid()):
        return False
    if info.st_mode & stat.S_ISVTX:
        return True
    if info.st_mode & stat.S_IWGRP and not _is_alone(info.st_uid, info.st_gid):
        return False
    return not info.st_mode & stat.S_IWOTH


def _is_alone(user: int, group: int) -> bool:
    """Whether a group is a user's own, as many systems make one for each."""
    try:
        owner, found = pwd.getpwuid(user), grp.getgrgid(group)
    except KeyError:
        return False
    same = owner.pw_gid == group and owner.pw_name == found.gr_name
    return same and set(found.gr_mem) <= {owner.pw_name}


def _way_refusal(path: Path, place: Path, info: os.stat_result) -> str:
    what = "link" if stat.S_ISLNK(info.st_mode) else "folder"
    if info.st_uid not in (0, os.geteuid()):
        whose = f"is a {what} of user {_name(info.st_uid)}, and this is user {_name(os.geteuid())}"
        remedy = "choose another folder"
    else:
        whose = "can be written to by others"
        remedy = f"choose another folder, or close it with `chmod go-w {place}`"
    return f"{path} cannot be trusted: {place} on the way to it {whose}: {remedy}"


def _looks_ours(fd: int) -> bool:
    names = os.listdir(fd)
    return not names or not _MARKS.isdisjoint(names)


_MARKS: Final = frozenset(("cluster.pid", "agent.lock", "lock", "pki", "registry.pid"))
"""Files that parts of a cluster have in their folders."""


def make_folders(path: Path, *, mode: int = 0o700) -> None:
    """Make a folder and those above it, as far as they are not there, with exactly that mode."""
    missing: list[Path] = []
    while not os.path.lexists(path):
        missing.append(path)
        path = path.parent
    for folder in reversed(missing):
        with suppress(FileExistsError):
            folder.mkdir(mode=mode)
            if mode != 0o700:
                folder.chmod(mode)  # whatever the umask is


def is_own(path: Path) -> bool:
    """Whether this is a folder of ours that nobody else can write to."""
    try:
        info = path.lstat()
    except OSError:
        return False
    writable = info.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return stat.S_ISDIR(info.st_mode) and info.st_uid == os.geteuid() and not writable


def _opened(path: Path) -> int:
    try:
        return os.open(path, _FOLDER)
    except (NotADirectoryError, PermissionError) as err:
        raise NotPrivate(_refusal(path)) from err
    except OSError as err:
        if path.is_symlink():
            raise NotPrivate(_refusal(path)) from err
        raise


def _checked(path: Path, fd: int) -> os.stat_result:
    info = os.fstat(fd)
    if info.st_uid != os.geteuid():
        raise NotPrivate(_refusal(path))
    return info


def _refusal(path: Path) -> str:
    info = path.lstat()
    what = "a link" if stat.S_ISLNK(info.st_mode) else "a folder"
    what = what if stat.S_ISDIR(info.st_mode) or stat.S_ISLNK(info.st_mode) else "no folder"
    if info.st_uid == os.geteuid() and not stat.S_ISDIR(info.st_mode):
        return f"{path} is {what}: choose another folder"
    return (
        f"{path} is {what} of user {_name(info.st_uid)}, and this is user {_name(os.geteuid())}: "
        "nothing there can be trusted. Remove it if it is nobody's, or choose another folder"
    )


def _name(uid: int) -> str:
    try:
        return f"{pwd.getpwuid(uid).pw_name} ({uid})"
    except KeyError:
        return str(uid)
