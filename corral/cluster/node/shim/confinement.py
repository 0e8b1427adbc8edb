"""What surrounds the processes of one container: namespaces, control groups, user, privileges.

The namespaces are held by a process of their own (`cells`): a shim of one container (`Inhabited`)
goes no further than into the user namespace, one of many (`Visited`) goes nowhere. Control groups,
the user and privileges are for the children alone: a limit must never kill the shim.
"""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import Any, Final, Protocol

from corral.cluster.node.shim import births, cells, kernel, privileges
from corral.cluster.node.shim.births import Plan
from corral.cluster.node.shim.cells import Cell
from corral.cluster.node.shim.users import Users, own_users
from corral.files.beneath import open_in_root

Spec = dict[str, Any]

_REMEMBERED: Final = 32
"""Containers after which memory that is new since is excluded from forks too."""
_TOP: Final = ("/bin", "/sbin", "/lib", "/lib64")


class Surroundings(Protocol):
    """How a shim makes the namespaces of a container."""

    shared: bool
    """Whether this process stands by other containers too."""

    def made(self, spec: Spec, folder: str) -> Cell | None:
        """Make them; None for a container that has none. Raises OSError."""

    def plan(self, spec: Spec, groups: Sequence[int], cell: Cell | None) -> Plan | None:
        """What a child does without a copy of this process; None where it must have one."""


class Inhabited:
    """For a process that stands by one container."""

    shared = False

    def made(self, spec: Spec, folder: str) -> Cell | None:
        if not spec.get("view"):
            if spec.get("unshare") or spec.get("join"):
                raise OSError("a container with namespaces of its own needs a view of the machine")
            return None
        if "user" in spec.get("unshare", ()):
            own_users(uid=spec.get("uid"), gid=spec.get("gid"))
            # children are born among the container's processes, of the same user, and have the
            # machine's files open until they go where those are: nobody may look into them
            kernel.hide_memory()
        return cells.make(spec, folder)

    def plan(self, spec: Spec, groups: Sequence[int], cell: Cell | None) -> Plan | None:
        return None


class Visited:
    """For a process that stands by many containers, which must be the machine's root."""

    shared = True

    def __init__(self) -> None:
        self._home = {kind: kernel.namespace(kind) for kind in kernel.NAMESPACES if kind != "user"}
        self._users = Users()
        self._made = 0

    @staticmethod
    def fits(spec: Spec) -> bool:
        """Whether it can stand by the container: out of a user namespace there is no way back."""
        return bool(spec.get("view")) and "user" not in spec.get("unshare", ())

    def made(self, spec: Spec, folder: str) -> Cell | None:
        pod = spec.get("users", "")
        namespace, owner = self._users.take(pod) if pod else (-1, 0)
        try:
            if births.native is not None:
                cell = cells.visit(spec, folder, users=namespace, owner=owner, home=self._home)
            else:
                home = self._home["pid"]
                cell = cells.make(spec, folder, users=namespace, owner=owner, home=home)
        except BaseException:
            self._users.release(pod)
            raise
        cell.on_close = lambda: self._users.release(pod)
        return cell

    def plan(self, spec: Spec, groups: Sequence[int], cell: Cell | None) -> Plan | None:
        return None if births.native is None or cell is None else plan(spec, groups, cell)

    def prepare(self) -> None:
        """While there is nothing else to do."""
        self._users.prepare()
        if births.native is not None and self._made % _REMEMBERED == 0:
            births.exclude_from_forks()
        self._made += 1


def attempt(mode: str) -> None:
    """Find out whether containers can be made as in that mode. Raises OSError."""
    links = {name: os.readlink(name) for name in _TOP if os.path.islink(name)}
    shown = ["/usr", *(name for name in _TOP if os.path.isdir(name) and name not in links)]
    view = {"shown": shown, "links": links, "etc": "/usr"}
    kinds = ["mount", "uts", "ipc", "pid", *(["user"] if mode == "user" else ["net"])]
    spec = {"argv": ["true"], "unshare": kinds, "hostname": "x", "view": view, "users": "x"}
    around: Surroundings = Inhabited() if mode == "user" else Visited()
    cell = around.made(spec, "/usr")  # any folder: only this process sees what is mounted there
    assert cell is not None
    os.kill(cell.pid, signal.SIGKILL)


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
    """Whether processes run as somebody else than we do: not where we became that one already."""
    if os.geteuid() != 0 or "user" in spec.get("unshare", ()):
        return False
    return spec.get("uid") is not None or spec.get("gid") is not None


def settle(spec: Spec, groups: Sequence[int], cell: Cell | None) -> None:
    """In a child, before it becomes the program. Raises OSError."""
    resource.setrlimit(resource.RLIMIT_NOFILE, _files())
    for fd in groups:
        os.write(fd, b"0")
    wanted = spec.get("privileges") or {}
    if cell is not None:
        privileges.volunteer(wanted)
        cell.enter()
        if groups:
            kernel.unshare(kernel.NEWCGROUP)
        privileges.restrict(wanted)
    _change_user(spec, inside=cell is not None and cell.has_users)
    if cell is not None:
        privileges.limit(wanted)
        privileges.settle_capabilities(wanted)
        _work_in(spec.get("cwd") or "/")
    else:
        os.chdir(spec.get("cwd") or "/")


def plan(spec: Spec, groups: Sequence[int], cell: Cell) -> Plan:
    """The same for a child that needs no copy of this process."""
    wanted = spec.get("privileges") or {}
    return Plan(
        files=_files(),
        groups=groups,
        oom_score=str(wanted.get("oomScore") or ""),
        enter=cell.places(),
        no_new_privileges=bool(wanted.get("noNewPrivileges")),
        dropped=privileges.dropped(wanted),
        capabilities=privileges.kept(wanted),
        filter=privileges.call_filter(wanted),
        user=_user(spec, inside=cell.has_users),
        most_processes=wanted.get("maxProcesses") or 0,
        folder=spec.get("cwd") or "/",
    )


def _work_in(folder: str) -> None:
    """Go there, but not by a link of /proc: this process has the machine's folders open."""
    root = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    place = open_in_root(root, folder, os.O_PATH | os.O_DIRECTORY)
    os.fchdir(place)
    for fd in (root, place):
        os.close(fd)


def _change_user(spec: Spec, *, inside: bool) -> None:
    wanted = _user(spec, inside=inside)
    if wanted is None:
        return
    uid, gid, groups = wanted
    os.setgroups(groups)
    if gid >= 0:
        os.setgid(gid)
    if uid >= 0:
        os.setuid(uid)


def _user(spec: Spec, *, inside: bool) -> tuple[int, int, list[int]] | None:
    """User and group to become (-1: who it is), and all other groups; None to change nothing.

    ``inside`` a user namespace of its pod a process is nobody until it is somebody there.
    """
    if not inside and not changes_user(spec):
        return None
    uid, gid = (spec.get(name) for name in ("uid", "gid"))
    other = 0 if inside else -1
    return other if uid is None else uid, other if gid is None else gid, spec.get("groups", [])


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
