"""The files that a container sees: a new root that shows what its environment needs, and no more.

`spec["view"]` says what: ``shown`` are paths of the machine, read-only at their own places,
``hidden`` are folders in them that are seen empty, ``links`` are symbolic links, ``etc`` is a
folder that stands for /etc, ``devices`` are devices beside those that everybody has, ``hideProc``
leaves of /proc what container runtimes leave. All else (/tmp, /run, /root, /home ...) is the
container's own, empty and in memory. Volumes are added last, for containers may change what is in
them at any time: what comes after them goes by descriptors, and follows no link of /proc, behind
which is all that this process has open. Runs in a process that has a mount namespace, and in the
process namespace that /proc is to show.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import Any, Final

from corral.cluster.node.shim import kernel
from corral.cluster.node.shim.sources import open_source
from corral.files.beneath import make_beneath, open_beneath, open_in_root, opened_beneath

Spec = dict[str, Any]

_FOLDERS: Final = {
    "dev": 0o755, "etc": 0o755, "home": 0o755, "media": 0o755, "mnt": 0o755, "opt": 0o755,
    "proc": 0o555, "root": 0o711, "run": 0o755, "run/lock": 0o1777, "srv": 0o755, "sys": 0o555,
    "tmp": 0o1777, "var": 0o755, "var/cache": 0o755, "var/lib": 0o755, "var/log": 0o755,
    "var/tmp": 0o1777, "dev/pts": 0o755, "dev/shm": 0o1777,
}  # fmt: skip
_LINKS: Final = {
    "var/run": "/run", "var/lock": "/run/lock", "dev/ptmx": "pts/ptmx", "dev/fd": "/proc/self/fd",
    "dev/stdin": "/proc/self/fd/0", "dev/stdout": "/proc/self/fd/1",
    "dev/stderr": "/proc/self/fd/2",
}  # fmt: skip
_DEVICES: Final = {
    "null": (1, 3), "zero": (1, 5), "full": (1, 7), "random": (1, 8), "urandom": (1, 9),
    "tty": (5, 0),
}  # fmt: skip
_FIXED_PROC: Final = tuple(f"/proc/{n}" for n in ("bus", "fs", "irq", "sys", "sysrq-trigger"))
_HIDDEN_PROC: Final = tuple(
    f"/proc/{n}"
    for n in ("acpi", "asound", "interrupts", "kcore", "keys", "latency_stats", "sched_debug",
              "scsi", "timer_list", "timer_stats")
)  # fmt: skip
_VOLUME: Final = kernel.NO_SUID | kernel.NO_DEVICES
_SHOWN: Final = kernel.READ_ONLY | kernel.NO_SUID | kernel.NO_DEVICES
PROC: Final = kernel.NO_SUID | kernel.NO_EXEC | kernel.NO_DEVICES
"""How /proc is mounted."""
_PLACE: Final = os.O_PATH | os.O_CLOEXEC
_FOLDER: Final = _PLACE | os.O_DIRECTORY
_LONGEST_PATH: Final = 4096
_MOST_BESIDE: Final = 1 << 13
"""Entries of a folder into which something is to be mounted: each is mounted anew."""


def build(
    spec: Spec,
    folder: str,
    *,
    owner: int = 0,
    users: int = -1,
    proc: Callable[[], int] | None = None,
    before_volumes: Callable[[], None] = lambda: None,
) -> None:
    """Make the root and go there. Raises OSError.

    ``folder`` is any folder of the machine; ``owner`` is who has the container's own files, and
    ``users`` the user namespace by whose ids the files of volumes are seen, where it has one.
    ``proc`` gives a /proc of its process namespace, where this process is not in that; it is called
    as late as can be.
    ``before_volumes`` is called in the new root as long as it holds nothing of the container's.
    """
    view = spec["view"]
    mounts = sorted(spec.get("mounts", ()), key=lambda m: str(m["target"]).count("/"))
    volumes = _volumes(mounts, spec.get("cwd") or "/", users)
    shown = [(path, _open_shown(path, path)) for path in view["shown"]]
    shown.append(("/etc", _open_shown(view["etc"], "/etc")))
    devices = _devices(view.get("devices", ()))
    # while the machine's are in sight: only then may an ordinary user have new ones
    kernel_trees = _kernel_trees(owner)
    if proc is None:
        kernel_trees.append(("/proc", kernel.new_tree("proc", attributes=PROC)))
    root = kernel.new_tree("tmpfs", {"mode": "755", **_owned(owner)})
    umask = os.umask(0)
    try:
        own = _fill(root, view, owner)
    finally:
        os.umask(umask)
    kernel.attach(root, folder)
    os.chdir(folder)
    kernel.pivot_root(".", ".")
    kernel.unmount(".")
    os.chdir("/")
    for path, tree in kernel_trees:
        kernel.attach(tree, path)
    for path, tree in (*shown, *devices):
        _attach(tree, path, own, owner)
    if proc is not None:
        kernel.attach(proc(), "/proc")
    for path in view.get("hidden", ()):
        kernel.attach(kernel.new_tree("tmpfs", {"mode": "555"}, attributes=_SHOWN), path)
    before_volumes()
    if view.get("hideProc"):
        _hide_proc()
    for path, tree in volumes:
        _attach(tree, path, own, owner)
    _working_folder(spec, owner)
    if view.get("readOnly"):
        _close_root()


# -- what comes from the machine -------------------------------------------------------------------


def _volumes(mounts: Sequence[Spec], cwd: str, users: int) -> list[tuple[str, int]]:
    """Where each is to be, and its tree."""
    sources: list[int] = []
    try:
        sources.extend(open_source(mount) for mount in mounts)
        _make_places(mounts, sources, cwd)
        return [
            (mount["target"], _volume_tree(source, mount, users))
            for mount, source in zip(mounts, sources, strict=True)
        ]
    finally:
        for source in sources:
            os.close(source)


def _make_places(mounts: Sequence[Spec], sources: Sequence[int], folder: str) -> None:
    """Make in volumes what other volumes are to be mounted on, and the working directory.

    As container runtimes do: what a container then writes beside that is in its volume. Where it
    cannot be made (the volume is read-only, or a link there leads out) the container gets a folder
    of its own instead, see `_mirror`.
    """
    volumes = {
        "/".join(_parts(mount["target"])): -1 if mount.get("readOnly") else source
        for mount, source in zip(mounts, sources, strict=True)
    }
    for mount, source in zip(mounts, sources, strict=True):
        volume, relative = _volume_around(mount["target"], volumes)
        if volume >= 0:
            with suppress(OSError):
                if stat.S_ISDIR(os.stat(source).st_mode):
                    make_beneath(volume, relative, mode=0o755)
                else:
                    _make_file(volume, relative)
    volume, relative = _volume_around(folder, volumes)
    if volume >= 0:
        with suppress(OSError):
            make_beneath(volume, relative, mode=stat.S_IMODE(os.stat(volume).st_mode))


def _volume_around(path: str, volumes: Mapping[str, int]) -> tuple[int, str]:
    """The volume that holds a path, and the path there; -1 if none does that can be changed."""
    inside = "/".join(_parts(path))
    place = inside if len(inside) < _LONGEST_PATH else ""
    while place:
        place = place.rpartition("/")[0]
        if place in volumes:
            return volumes[place], inside[len(place) :].lstrip("/")
    return -1, ""


def _make_file(volume: int, relative: str) -> None:
    with suppress(FileNotFoundError):
        os.close(open_beneath(volume, relative))
        return
    folder, _, name = relative.rpartition("/")
    make_beneath(volume, folder, mode=0o755)
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC
    with opened_beneath(volume, folder, os.O_RDONLY | os.O_DIRECTORY) as parent:
        os.close(os.open(name, flags, 0o644, dir_fd=parent))


def _volume_tree(source: int, mount: Spec, users: int) -> int:
    """A volume, attached nowhere yet, with its files seen as those of the container's users."""
    tree = kernel.open_tree("", folder=source)
    wanted = _VOLUME | (kernel.READ_ONLY if mount.get("readOnly") else 0)
    if users >= 0:
        try:
            kernel.set_attributes(tree, wanted, users=users)
            return tree
        except OSError:  # not every file system can: then its files are those of the machine
            pass
    kernel.set_attributes(tree, wanted)
    return tree


def _open_shown(path: str, target: str) -> int:
    # what is mounted below /sys is not for containers, but only root may leave it out
    tree = kernel.open_tree(path, recursive=target != "/sys" or not _is_machine_root())
    kernel.set_attributes(tree, _SHOWN)
    return tree


def _devices(more: Iterable[str]) -> list[tuple[str, int]]:
    """Those that are mounted: the machine's, where this process may not make them itself."""
    names = list(more)
    if not _is_machine_root():
        names += [f"/dev/{name}" for name in _DEVICES]
    found = []
    for name in names:
        tree = kernel.open_tree(name)
        kernel.set_attributes(tree, kernel.NO_SUID)
        found.append((name, tree))
    return found


@cache
def _is_machine_root() -> bool:
    """Whether this is root and in no user namespace: it may make devices and take mounts apart."""
    with open("/proc/self/uid_map") as file:
        return file.read().split() == ["0", "0", "4294967295"] and os.geteuid() == 0


# -- what is the container's own -------------------------------------------------------------------


def _fill(root: int, view: Spec, owner: int) -> set[int]:
    """Fill the new root; the devices of the file systems that are ours to change."""
    for name, mode in _FOLDERS.items():
        os.mkdir(name, mode, dir_fd=root)
        if owner:
            os.chown(name, owner, owner, dir_fd=root)
    for name, target in _LINKS.items():
        os.symlink(target, name, dir_fd=root)
    for name, target in view.get("links", {}).items():
        _parents(root, name.lstrip("/"))
        os.symlink(target, name.lstrip("/"), dir_fd=root)
    if _is_machine_root():
        for name, (major, minor) in _DEVICES.items():
            os.mknod(f"dev/{name}", stat.S_IFCHR | 0o666, os.makedev(major, minor), dir_fd=root)
    return {os.stat(".", dir_fd=root).st_dev}


def _parents(root: int, name: str) -> None:
    made = ""
    for part in name.split("/")[:-1]:
        made = f"{made}/{part}".lstrip("/")
        if not os.path.lexists(f"/proc/self/fd/{root}/{made}"):
            os.mkdir(made, 0o755, dir_fd=root)


def _kernel_trees(owner: int) -> list[tuple[str, int]]:
    """File systems of the kernel: terminals, shared memory."""
    quiet = kernel.NO_SUID | kernel.NO_EXEC
    shared = {"mode": "1777", **_owned(owner)}
    terminals = {"ptmxmode": "0666", "mode": "0620"}
    return [
        ("/dev/shm", kernel.new_tree("tmpfs", shared, attributes=quiet | kernel.NO_DEVICES)),
        ("/dev/pts", kernel.new_tree("devpts", terminals, attributes=quiet)),
    ]


def _hide_proc() -> None:
    """Where no user namespace makes the machine's root somebody else."""
    for name in _FIXED_PROC:
        if os.path.exists(name):
            tree = kernel.open_tree(name)
            kernel.set_attributes(tree, kernel.READ_ONLY)
            kernel.attach(tree, name)
    for name in _HIDDEN_PROC:
        if os.path.isdir(name):
            kernel.attach(kernel.new_tree("tmpfs", attributes=kernel.READ_ONLY), name)
        elif os.path.exists(name):
            kernel.attach(kernel.open_tree("/dev/null"), name)


def _owned(owner: int) -> dict[str, str]:
    return {"uid": str(owner), "gid": str(owner)} if owner else {}


def _working_folder(spec: Spec, owner: int) -> None:
    """A container runtime makes it, where it is not there."""
    parts = _parts(spec.get("cwd") or "/")
    there = _deepest(parts)
    if len(there) == len(parts):
        return
    place = _open(there, _FOLDER)
    try:
        place = _exchanged(place, _make_folders(place, parts[len(there) : -1], owner))
        os.mkdir(parts[-1], dir_fd=place)
        if owner:
            user, group = owner + (spec.get("uid") or 0), owner + (spec.get("gid") or 0)
            os.chown(parts[-1], user, group, dir_fd=place, follow_symlinks=False)
    finally:
        os.close(place)


def _close_root() -> None:
    root = os.open("/", os.O_PATH | os.O_CLOEXEC)
    try:
        kernel.set_attributes(root, kernel.READ_ONLY, recursive=False)
    finally:
        os.close(root)


# -- putting it together ---------------------------------------------------------------------------


def _attach(tree: int, target: str, own: set[int], owner: int) -> None:
    is_folder = stat.S_ISDIR(os.stat(tree).st_mode)
    place = _target(target, own, owner, is_folder=is_folder)
    try:
        kernel.attach(tree, target, place=place)
    finally:
        os.close(place)


def _target(target: str, own: set[int], owner: int, *, is_folder: bool) -> int:
    """Something to mount on, open; it is made where it is not there."""
    parts = _parts(target)
    with suppress(FileNotFoundError):
        return _open(parts, _PLACE)
    there = _deepest(parts[:-1])
    place = _open(there, _FOLDER)
    try:
        if os.fstat(place).st_dev not in own:
            place = _exchanged(place, _mirror(place, "/" + "/".join(there), own))
        place = _exchanged(place, _make_folders(place, parts[len(there) : -1], owner))
        name = parts[-1]
        if is_folder:
            os.mkdir(name, 0o755, dir_fd=place)
        else:
            flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC
            os.close(os.open(name, flags, 0o644, dir_fd=place))
        return os.open(name, _PLACE | os.O_NOFOLLOW, dir_fd=place)
    finally:
        os.close(place)


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part]


def _open(parts: Sequence[str], flags: int) -> int:
    """A path of the container, with its links, but none of /proc. Raises LedOut, OSError."""
    root = os.open("/", _FOLDER)
    try:
        return open_in_root(root, "/".join(parts), flags)
    finally:
        os.close(root)


def _deepest(parts: Sequence[str]) -> Sequence[str]:
    """As much of a path as is there."""
    while parts:
        try:
            os.close(_open(parts, _PLACE))
            break
        except FileNotFoundError:
            parts = parts[:-1]
    return parts


def _make_folders(place: int, names: Sequence[str], owner: int) -> int:
    """Make folders one below the other; the last one, open, which is ``place`` without any."""
    made = os.dup(place)
    try:
        for name in names:
            os.mkdir(name, 0o755, dir_fd=made)
            if owner:
                os.chown(name, owner, owner, dir_fd=made, follow_symlinks=False)
            made = _exchanged(made, os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=made))
    except BaseException:
        os.close(made)
        raise
    return made


def _exchanged(old: int, new: int) -> int:
    os.close(old)
    return new


def _mirror(place: int, path: str, own: set[int]) -> int:
    """Put a private folder over one with all that it holds: something is to be added."""
    folder = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=place)
    try:
        mode = stat.S_IMODE(os.fstat(folder).st_mode)
        links, held = _content(folder, path)
        tree = kernel.new_tree("tmpfs", {"mode": f"{mode:o}"})
        new = os.dup(tree)
        try:
            kernel.attach(tree, path, place=folder)
            own.add(os.fstat(new).st_dev)
            for target, name in links:
                os.symlink(target, name, dir_fd=new)
            for name, tree in held:
                _show_again(tree, name, new)
        except BaseException:
            os.close(new)
            raise
    finally:
        os.close(folder)
    return new


def _content(folder: int, path: str) -> tuple[list[tuple[str, str]], list[tuple[str, int]]]:
    """The links in a folder, with where they lead, and all else, with a tree of it."""
    links, held = [], []
    with os.scandir(folder) as entries:
        for number, entry in enumerate(entries):
            if number == _MOST_BESIDE:
                raise OSError(errno.EMFILE, "too many files for something to be mounted", path)
            if entry.is_symlink():
                links.append((os.readlink(entry.name, dir_fd=folder), entry.name))
            else:
                held.append((entry.name, kernel.open_tree(entry.name, folder=folder)))
    return links, held


def _show_again(tree: int, name: str, folder: int) -> None:
    if stat.S_ISDIR(os.stat(tree).st_mode):
        os.mkdir(name, dir_fd=folder)
    else:
        flags = os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC
        os.close(os.open(name, flags, 0o600, dir_fd=folder))
    place = os.open(name, _PLACE | os.O_NOFOLLOW, dir_fd=folder)
    try:
        kernel.attach(tree, name, place=place)
    finally:
        os.close(place)
