"""The namespaces of one container, and the process that holds them open.

That process is the first of the container's process namespace: orphans become its children, and
when it ends the kernel ends all others. It does nothing, may do nothing and shows nothing of the
shim it was forked from. Processes of the container are children of the shim that are born in the
process namespace and go into the others by themselves.
"""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from corral.cluster.node.shim import births, kernel, view
from corral.cluster.node.shim.tasks import PATIENCE

Spec = dict[str, Any]

_MADE: Final = b"made"


class Cell:
    """As the shim sees it; ``users`` is a user namespace to enter, or -1."""

    def __init__(
        self,
        pid: int,
        namespaces: dict[str, int],
        *,
        terminals: int,
        users: int = -1,
        home: int = -1,
    ) -> None:
        """``namespaces`` are open descriptors, by kind; ``home`` as for `make`."""
        self.pid = pid
        self.terminals = terminals
        """Its /dev/pts."""
        self._namespaces = namespaces
        self._users = users
        self._home = home
        self.mounts = os.fstat(namespaces["mount"]).st_ino
        """The number of its mount namespace, by which its processes are known."""
        self.has_users = users >= 0
        """Whether processes go into a user namespace of their pod."""
        self.on_close: Callable[[], None] = lambda: None

    @contextmanager
    def births(self) -> Iterator[None]:
        """While this lasts children are born in the container's process namespace."""
        if self._home < 0 or "pid" not in self._namespaces:
            yield
            return
        kernel.setns_fd(self._namespaces["pid"], kernel.NEWPID)
        try:
            yield
        finally:
            kernel.setns_fd(self._home, kernel.NEWPID)

    def enter(self) -> None:
        """In such a child: go into the other namespaces. Raises OSError."""
        kernel.hide_memory()
        for fd, kind in self.places():
            kernel.setns_fd(fd, kind)

    def places(self) -> list[tuple[int, int]]:
        """What `enter` enters: descriptors and kinds."""
        found = [
            (fd, kernel.NAMESPACES[kind]) for kind, fd in self._namespaces.items() if kind != "pid"
        ]
        return [*found, (self._users, kernel.NEWUSER)] if self.has_users else found

    def close(self) -> None:
        """Nothing of the container is left."""
        for fd in (*self._namespaces.values(), self.terminals):
            os.close(fd)
        self.on_close()


def make(spec: Spec, folder: str, *, users: int = -1, owner: int = 0, home: int = -1) -> Cell:
    """Make the namespaces of a container. Raises OSError.

    ``home`` is this process's own process namespace, to come back to; without it all children from
    now on are born in the container's.
    """
    kinds = _kinds(spec)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours:
        with theirs:
            if "pid" in kinds:
                kernel.unshare(kernel.NEWPID)
            try:
                pid = os.fork()
                if pid == 0:
                    _hold(spec, folder, theirs, kinds, users=users, owner=owner)
            finally:
                if home >= 0 and "pid" in kinds:
                    kernel.setns_fd(home, kernel.NEWPID)
        ours.settimeout(PATIENCE)
        try:
            words, fds, _, _ = socket.recv_fds(ours, 4096, len(kinds) + 1)
        except TimeoutError:
            os.kill(pid, signal.SIGKILL)
            words, fds = b"its namespaces and mounts were not made in time", []
    if words != _MADE:
        os.waitpid(pid, 0)
        raise OSError(words.decode(errors="replace") or "the namespaces could not be made")
    for fd in fds:
        os.set_inheritable(fd, False)
    namespaces = dict(zip(kinds, fds[:-1], strict=True))
    return Cell(pid, namespaces, terminals=fds[-1], users=users, home=home)


def visit(spec: Spec, folder: str, *, users: int, owner: int, home: Mapping[str, int]) -> Cell:
    """The same by this process itself, which goes there and comes back. Raises OSError.

    ``home`` are its own namespaces, of every kind but users.
    """
    kinds = _kinds(spec)
    opened: list[int] = []
    holder: births.Holder | None = None

    def before_volumes() -> None:
        _set_sysctls(spec)
        opened.append(_terminals())

    try:
        with _return_to(home, kinds), kernel.trees_closed():
            _enter(spec)
            try:
                if "pid" in kinds:
                    kernel.unshare(kernel.NEWPID)
                holder = births.Holder(users, view.PROC, PATIENCE)
            finally:
                kernel.setns_fd(home["pid"], kernel.NEWPID)
            opened.extend(kernel.namespace(k, holder.pid if k == "pid" else "self") for k in kinds)
            view.build(
                spec,
                folder,
                owner=owner,
                users=users,
                proc=holder.tree,
                before_volumes=before_volumes,
            )
    except BaseException as err:
        if holder is not None:
            holder.end()
        for fd in opened:
            os.close(fd)
        if isinstance(err, OSError):
            raise OSError(_words(err)) from err
        raise
    namespaces = dict(zip(kinds, opened[:-1], strict=True))
    return Cell(holder.pid, namespaces, terminals=opened[-1], users=users, home=home["pid"])


@contextmanager
def _return_to(home: Mapping[str, int], kinds: list[str]) -> Iterator[None]:
    try:
        yield
    finally:
        try:
            for kind in kinds:
                if kind != "pid":
                    kernel.setns_fd(home[kind], kernel.NAMESPACES[kind])
        except OSError:
            # going on among a container's files would give it the next one's
            os.abort()


def _kinds(spec: Spec) -> list[str]:
    """The kinds of namespaces it has, but for users, which are its pod's."""
    known = {*spec.get("unshare", ()), *spec.get("join", {})}
    return [kind for kind in kernel.NAMESPACES if kind != "user" and kind in known]


def _words(err: OSError) -> str:
    why = err.strerror or str(err)
    return f"{err.filename}: {why}" if err.filename else why


def _set_sysctls(spec: Spec) -> None:
    for name, value in spec.get("sysctls", {}).items():
        with open(f"/proc/sys/{name.replace('.', '/')}", "w") as file:
            file.write(value)


def _terminals() -> int:
    return os.open("/dev/pts", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)


def _hold(
    spec: Spec, folder: str, tell: socket.socket, kinds: list[str], *, users: int, owner: int
) -> None:
    """In the child; never returns."""
    made: list[int] = []

    def before_volumes() -> None:
        # a volume may lie over /proc or /dev, and hold anything in place of these
        _set_sysctls(spec)
        made.extend(kernel.namespace(kind) for kind in kinds)
        made.append(_terminals())

    try:
        _enter(spec)
        view.build(spec, folder, owner=owner, users=users, before_volumes=before_volumes)
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody has to wait for orphans
        _become_nobody(users)
        socket.send_fds(tell, [_MADE], made)
        os.closerange(0, 1 << 30)
        while True:
            signal.pause()
    except OSError as err:
        tell.send(_words(err).encode())
    except BaseException as err:
        tell.send(repr(err).encode())
    finally:
        os._exit(1)


def _enter(spec: Spec) -> None:
    """Be in its namespaces, but for users and processes."""
    for kind, path in spec.get("join", {}).items():
        kernel.setns(path, kernel.NAMESPACES[kind])
    kinds = set(spec.get("unshare", ())) - {"user", "pid"}
    kernel.unshare(sum(kernel.NAMESPACES[kind] for kind in kinds))
    if spec.get("hostname") and "uts" in kinds:
        socket.sethostname(spec["hostname"])
    kernel.make_private()


def _become_nobody(users: int) -> None:
    """Have no rights, and no memory for others to read: it is a copy of the shim's."""
    if users >= 0:
        kernel.setns_fd(users, kernel.NEWUSER)
        os.setgroups([])
        os.setresgid(0, 0, 0)
        os.setresuid(0, 0, 0)
    kernel.set_capabilities(0)
    kernel.no_new_privileges()
    kernel.hide_memory()
    kernel.die_with_parent(signal.SIGKILL)
