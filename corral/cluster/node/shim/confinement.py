"""What surrounds the processes of one container: namespaces, mounts, control groups, user.

A shim of one container goes into its namespaces for good (`Inhabited`); one of many goes there to
start a process, and comes back (`Visited`). Control groups and the user are for the children alone:
a limit must never kill the shim.
"""

from __future__ import annotations

import os
import re
import resource
import signal
import socket
import stat
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import Any, Protocol

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


class Surroundings(Protocol):
    """How a shim gets into the namespaces of a container."""

    shared: bool
    """Whether this process stands by other containers too."""

    @contextmanager
    def made(self, spec: Spec, folder: str) -> Iterator[None]:
        """Make them, and be there for a while. Raises OSError."""
        yield

    @contextmanager
    def entered(self, spec: Spec, pid: int) -> Iterator[None]:
        """Be where that process of the container is. Raises OSError."""
        yield


class Inhabited:
    """For a process that stands by one container: it stays there."""

    shared = False

    @contextmanager
    def made(self, spec: Spec, folder: str) -> Iterator[None]:
        enter(spec, folder)
        yield

    @contextmanager
    def entered(self, spec: Spec, pid: int) -> Iterator[None]:
        yield


class Visited:
    """For a process that stands by many containers, each with a mount namespace of its own."""

    shared = True
    kinds = ("net", "uts", "mount")

    def __init__(self) -> None:
        self._home = {kind: kernel.namespace(kind) for kind in self.kinds}

    @staticmethod
    def fits(spec: Spec) -> bool:
        """Whether there is a way back from there: out of a user namespace there is none."""
        kinds = {*spec.get("unshare", ()), *spec.get("join", {})}
        return bool(spec.get("argv")) and "mount" in kinds and "user" not in kinds

    @contextmanager
    def made(self, spec: Spec, folder: str) -> Iterator[None]:
        _mirrors.clear()
        try:
            enter(spec, folder)
            yield
        finally:
            self._return(spec)

    @contextmanager
    def entered(self, spec: Spec, pid: int) -> Iterator[None]:
        try:
            for kind in self._changed(spec):
                kernel.setns(kernel.namespace_path(kind, pid), kernel.NAMESPACES[kind])
            yield
        finally:
            self._return(spec)

    def _changed(self, spec: Spec) -> list[str]:
        kinds = {*spec.get("unshare", ()), *spec.get("join", {})}
        return [kind for kind in self.kinds if kind in kinds]

    def _return(self, spec: Spec) -> None:
        for kind in self._changed(spec):
            kernel.setns_fd(self._home[kind], kernel.NAMESPACES[kind])


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
        elif _same_device(entry.stat(follow_symlinks=False), target):
            continue
        else:
            os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o600))
        kernel.mount(source, target, flags=kernel.MS_BIND | kernel.MS_REC)


def _same_device(found: os.stat_result, target: str) -> bool:
    """Make a device again, where it is one and we may: cheaper than a mount."""
    if not (stat.S_ISCHR(found.st_mode) or stat.S_ISBLK(found.st_mode)):
        return False
    try:
        os.mknod(target, found.st_mode, found.st_rdev)
    except PermissionError:
        return False
    os.chmod(target, stat.S_IMODE(found.st_mode))
    os.chown(target, found.st_uid, found.st_gid)
    return True


# -- for the children --------------------------------------------------------------------------


@contextmanager
def opened_groups(spec: Spec) -> Iterator[list[int]]:
    """The files through which a process joins its control groups."""
    with ExitStack() as stack:
        found: list[int] = []
        for path in spec.get("cgroups", ()):
            fd = os.open(f"{path}/cgroup.procs", os.O_WRONLY | os.O_CLOEXEC)
            stack.callback(os.close, fd)
            found.append(fd)
        yield found


@cache
def _own_group(hierarchy: str) -> int:
    """The file through which this process comes back to where it was."""
    with open("/proc/self/cgroup") as file:
        mine = [line.rstrip("\n").split(":", 2)[1:] for line in file]
    known = set(os.path.basename(os.path.realpath(hierarchy)).split(","))
    home = next((place for names, place in mine if known & set(names.split(","))), "/")
    if not os.path.isdir(f"{hierarchy}{home}"):
        home = "/"  # seen from inside a container
    flags = os.O_WRONLY | os.O_CLOEXEC
    return os.open(f"{hierarchy}{home.rstrip('/')}/cgroup.procs", flags)


def know_own_groups(spec: Spec) -> list[int]:
    """Those in the hierarchies of the container's groups; to be asked for while at home."""
    return [_own_group(os.path.dirname(os.path.dirname(path))) for path in spec.get("cgroups", ())]


@contextmanager
def joined(spec: Spec, groups: Sequence[int]) -> Iterator[None]:
    """In the container's control groups for a moment, so that what is born there is in them."""
    own = know_own_groups(spec)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, _files())
        for fd in groups:
            os.write(fd, b"0")
        yield
    finally:
        for fd in own:
            os.write(fd, b"0")
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


@cache
def _files() -> tuple[int, int]:
    """How many files a container may have open: what this process was given."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)


def prepare_for_many() -> None:
    """In a shim of many containers, before the first: have as many files open as may be."""
    hard = _files()[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


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


def settle(spec: Spec, groups: Sequence[int]) -> None:
    """In a child, before it becomes the program. Raises OSError."""
    resource.setrlimit(resource.RLIMIT_NOFILE, _files())
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
