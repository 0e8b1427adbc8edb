"""What surrounds the processes of one container: namespaces, mounts, control groups, user.

``enter`` changes the shim itself, before its first child: everything it starts later, commands
run inside the container included, finds the same surroundings. Control groups and the user are
for the children alone (``settle``): a limit must never kill the shim.
"""

from __future__ import annotations

import os
import re
import resource
import signal
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from corral.cluster.node.shim import kernel

Spec = dict[str, Any]

_MACHINE_ONLY = re.compile(r"tty\w?\d+|vcs\w*|loop\d+|ram\d+")
"""Devices of the machine that no container uses; there are many of them."""

_KEPT_FLAGS = {
    os.ST_NOSUID: kernel.MS_NOSUID,
    os.ST_NODEV: kernel.MS_NODEV,
    os.ST_NOEXEC: kernel.MS_NOEXEC,
    os.ST_NOATIME: kernel.MS_NOATIME,
    os.ST_NODIRATIME: kernel.MS_NODIRATIME,
    os.ST_RELATIME: kernel.MS_RELATIME,
}


def enter(spec: Spec, folder: str) -> None:
    """Join and make namespaces, name the host, mount. Raises OSError.

    ``folder`` is any folder of the container's own; a new root is put together over it.
    """
    for kind, path in spec.get("join", {}).items():
        kernel.setns(path, kernel.NAMESPACES[kind])
    wanted = set(spec.get("unshare", ()))
    if "user" in wanted:
        _own_users()
    if others := wanted - {"user"}:
        kernel.unshare(sum(kernel.NAMESPACES[kind] for kind in others))
    if spec.get("hostname") and "uts" in wanted:
        socket.sethostname(spec["hostname"])
    if "mount" in wanted:
        kernel.mount("none", "/", flags=kernel.MS_REC | kernel.MS_PRIVATE)
        mounts = sorted(spec.get("mounts", ()), key=lambda m: str(m["target"]).count("/"))
        if any(_new_at_root(mount["target"]) for mount in mounts):
            _own_root(folder)
        for mount in mounts:
            _bind(mount["source"], mount["target"], read_only=mount.get("readOnly", False))


def _own_users() -> None:
    """A user namespace in which we are who we were: that is enough to mount."""
    uid, gid = os.geteuid(), os.getegid()
    kernel.unshare(kernel.NEWUSER)
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{uid} {uid} 1"),
        ("gid_map", f"{gid} {gid} 1"),
    ):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)


def _bind(source: str, target: str, *, read_only: bool) -> None:
    # a link in the image, such as /var/run, must lead where it would lead inside
    folder = os.path.realpath(os.path.dirname(target.rstrip("/")))
    target = os.path.join(folder, os.path.basename(target.rstrip("/")))
    target = os.path.realpath(target) if os.path.islink(target) else target
    is_folder = stat.S_ISDIR(os.stat(source).st_mode)
    _make_target(target, is_folder=is_folder)
    kernel.mount(source, target, flags=kernel.MS_BIND | kernel.MS_REC)
    if read_only:
        kept = os.statvfs(target).f_flag
        flags = kernel.MS_BIND | kernel.MS_REMOUNT | kernel.MS_RDONLY
        kernel.mount(
            "none",
            target,
            flags=flags | sum(mine for theirs, mine in _KEPT_FLAGS.items() if kept & theirs),
        )


def _make_target(target: str, *, is_folder: bool) -> None:
    """See that there is something to mount on, without writing to the machine's own folders."""
    if os.path.lexists(target):
        return
    parent = os.path.dirname(target)
    while not os.path.isdir(parent):
        parent = os.path.dirname(parent)
    if not _is_ours(parent):
        _mirror(parent)
    os.makedirs(os.path.dirname(target), exist_ok=True)
    if is_folder:
        os.mkdir(target)
    else:
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o644))


_mirrors: set[int] = set()


def _is_ours(path: str) -> bool:
    return os.stat(path).st_dev in _mirrors


def _mirror(folder: str) -> None:
    """Put a private folder over ``folder`` with all that it holds."""
    mode = stat.S_IMODE(os.stat(folder).st_mode)
    shown = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    kernel.mount("tmpfs", folder, kind="tmpfs", data=f"mode={mode:o}")
    _mirrors.add(os.stat(folder).st_dev)
    if folder == "/dev":
        _terminals(shown)
    _fill(folder, shown, without=_MACHINE_ONLY if folder == "/dev" else None)
    os.close(shown)


def _terminals(shown: int) -> None:
    """Let new terminals be opened in the private /dev that was just mounted over ``shown``.

    The kernel looks for ``pts`` beside the ``ptmx`` that is opened, in the same mount: beside a
    device that is bound alone there is nothing.
    """
    os.mkdir("/dev/pts")
    try:
        data = "newinstance,ptmxmode=0666,mode=0620"
        kernel.mount("devpts", "/dev/pts", kind="devpts", data=data)
    except OSError:  # for root alone: others open the machine's, which must then be there whole
        os.rmdir("/dev/pts")
        whole = "/dev/.machine"
        os.mkdir(whole)
        kernel.mount(f"/proc/self/fd/{shown}", whole, flags=kernel.MS_BIND | kernel.MS_REC)
        kernel.unmount(whole)  # a copy of the private /dev, which came along
        os.symlink(".machine/ptmx", "/dev/ptmx")
    else:
        os.symlink("pts/ptmx", "/dev/ptmx")


def _new_at_root(target: str) -> bool:
    return not os.path.lexists("/" + target.strip("/").split("/")[0])


def _own_root(folder: str) -> None:
    """Make / a private folder that shows everything the machine's has."""
    shown = os.open("/", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    kernel.mount("tmpfs", folder, kind="tmpfs", data="mode=755")
    _mirrors.add(os.stat(folder).st_dev)
    _fill(folder, shown)
    os.close(shown)
    os.chdir(folder)
    kernel.pivot_root(".", ".")
    kernel.unmount(".")
    os.chdir("/")


def _fill(folder: str, shown: int, *, without: re.Pattern[str] | None = None) -> None:
    """Bind everything in the folder open as ``shown`` into ``folder``, but what it has already."""
    for entry in list(os.scandir(shown)):
        if without is not None and without.fullmatch(entry.name):
            continue
        source, target = f"/proc/self/fd/{shown}/{entry.name}", os.path.join(folder, entry.name)
        if os.path.lexists(target):
            continue
        if entry.is_symlink():
            os.symlink(os.readlink(entry.name, dir_fd=shown), target)
            continue
        if entry.is_dir(follow_symlinks=False):
            os.mkdir(target)
        else:
            os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o600))
        kernel.mount(source, target, flags=kernel.MS_BIND | kernel.MS_REC)


# -- for the children --------------------------------------------------------------------------


def open_groups(spec: Spec) -> list[int]:
    """The files through which a process joins its control groups."""
    return [
        os.open(f"{path}/cgroup.procs", os.O_WRONLY | os.O_CLOEXEC)
        for path in spec.get("cgroups", ())
    ]


def own_groups(spec: Spec) -> list[int]:
    """The files through which the shim comes back to where it was, in the same order."""
    with open("/proc/self/cgroup") as file:
        mine = [line.rstrip("\n").split(":", 2)[1:] for line in file]
    found: list[int] = []
    for path in spec.get("cgroups", ()):
        hierarchy = os.path.dirname(os.path.dirname(path))
        known = set(os.path.basename(os.path.realpath(hierarchy)).split(","))
        home = next((place for names, place in mine if known & set(names.split(","))), "/")
        if not os.path.isdir(f"{hierarchy}{home}"):
            home = "/"  # seen from inside a container
        flags = os.O_WRONLY | os.O_CLOEXEC
        found.append(os.open(f"{hierarchy}{home.rstrip('/')}/cgroup.procs", flags))
    return found


@contextmanager
def joined(groups: list[int], own: list[int]) -> Iterator[None]:
    """In the container's control groups for a moment, so that what is born there is in them."""
    try:
        for fd in groups:
            os.write(fd, b"0")
        yield
    finally:
        for fd in own:
            os.write(fd, b"0")


def prepare() -> None:
    """In the shim: what its children inherit."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2):
        # whoever started the agent may have ignored them
        signal.signal(number, signal.SIG_DFL)
    os.umask(0o022)


def changes_user(spec: Spec) -> bool:
    """Whether processes run as somebody else than we do."""
    return os.geteuid() == 0 and (spec.get("uid") is not None or spec.get("gid") is not None)


def settle(spec: Spec, groups: list[int]) -> None:
    """In a child, before it becomes the program. Raises OSError."""
    for fd in groups:
        os.write(fd, b"0")
    uid, gid = spec.get("uid"), spec.get("gid")
    if changes_user(spec):
        os.setgroups(spec.get("groups", []))
        if gid is not None:
            os.setgid(gid)
        if uid is not None:
            os.setuid(uid)
    os.chdir(spec.get("cwd") or "/")


def oom_kills(spec: Spec) -> int:
    """How many processes the kernel has killed in the container's groups for want of memory."""
    for path in spec.get("cgroups", ()):
        for name in ("memory.oom_control", "memory.events"):
            try:
                with open(f"{path}/{name}") as file:
                    fields = dict(line.split()[:2] for line in file if len(line.split()) > 1)
            except OSError:
                continue
            return int(fields.get("oom_kill", 0))
    return 0
