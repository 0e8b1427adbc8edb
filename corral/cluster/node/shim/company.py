"""The containers that one process stands by: all of its children belong to one of them.

`alone` is for one container: whatever is below the process is the container's. `Keeper` is for
many, and is what nodes of the machine's root use. It takes containers on as long as somebody asks,
and ends when nobody can ask any more and the last container is over.
"""

from __future__ import annotations

import os
import signal
import socket
import traceback
from collections.abc import Callable
from contextlib import suppress

from corral.cluster.node.shim import confinement, kernel
from corral.cluster.node.shim.confinement import Inhabited, Surroundings, Visited
from corral.cluster.node.shim.loop import Loop
from corral.cluster.node.shim.supervisor import Supervisor, claim
from corral.cluster.node.shim.tasks import descendants
from corral.cluster.node.shim.wire import CHUNK

__all__ = ["Keeper", "alone"]

_LOOK_AGAIN = 2
"""Milliseconds until the processes of a container that ends are looked for again."""


def alone(folder: str, ready: int) -> None:
    """Run the container in ``folder`` to its end; report on the descriptor ``ready``."""
    found = claim(folder)
    if found is None:
        return  # somebody else has decided about it, or the folder is gone
    company = _Company()
    try:
        company.take(folder, found, ready, Inhabited())
        company.run()
    except BaseException:
        _crashed(folder, found[0])
        raise


def _crashed(folder: str, home: int) -> None:
    # nobody reads our standard error; the agent reports the container as lost
    words = f"{folder}\n{traceback.format_exc()}"
    with suppress(OSError):  # no room: words about one container must not cost the others
        with open(os.open("crash.txt", os.O_CREAT | os.O_WRONLY, 0o600, dir_fd=home), "w") as file:
            file.write(words)


class _Company:
    """Signals, children and the loop. As it is, for one container: what is below it is its."""

    def __init__(self) -> None:
        self.loop = Loop()
        self._of: dict[int, Supervisor] = {}
        self._there: set[Supervisor] = set()
        self._ending: set[Supervisor] = set()
        kernel.become_subreaper()
        confinement.prepare()
        wake, woken = os.pipe()
        for fd in (wake, woken):
            os.set_blocking(fd, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, lambda *_: self._terminate())
        signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
        self.loop.watch(wake, lambda _: self._children(wake))

    def take(
        self, folder: str, found: tuple[int, int], ready: int, around: Surroundings
    ) -> Supervisor:
        supervisor = Supervisor(folder, found, ready, self, around)
        self._there.add(supervisor)
        try:
            supervisor.start()
        except BaseException:
            self._forget(supervisor)
            raise
        self._look()
        return supervisor

    def _forget(self, supervisor: Supervisor) -> None:
        self._ending.discard(supervisor)
        self._there.discard(supervisor)

    def born(self, pid: int, supervisor: Supervisor) -> None:
        self._of[pid] = supervisor

    def over(self, supervisor: Supervisor) -> None:
        self._ending.add(supervisor)

    def relatives(self, supervisor: Supervisor) -> set[int]:
        return descendants(os.getpid())

    def _done(self) -> bool:
        return not self._there

    def run(self) -> None:
        while not self._done():
            self.loop.turn(_LOOK_AGAIN if self._ending else None)
            self._look()

    def _look(self) -> None:
        """Go on with those that end."""
        for supervisor in list(self._ending):
            try:
                supervisor.end()
            except OSError:
                continue  # it is tried again at the next look; the others must not wait for it
            if supervisor.closed:
                self._forget(supervisor)
                self._gone(supervisor)

    def _gone(self, supervisor: Supervisor) -> None:
        """The container is over."""

    def _children(self, wake: int) -> None:
        with suppress(BlockingIOError):
            os.read(wake, CHUNK)
        with suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                # others are orphans that came to us
                if supervisor := self._of.pop(pid, None):
                    supervisor.gone(pid, status)

    def _terminate(self) -> None:
        """SIGTERM to the shim itself: its containers end, for good."""
        for supervisor in list(self._there):
            supervisor.terminate()


class Keeper(_Company):
    """With any number of containers."""

    def __init__(self, requests: socket.socket, leave: Callable[[], None]) -> None:
        """``leave`` is called when nobody can ask for containers any more."""
        super().__init__()
        confinement.prepare_for_many()
        self._around = Visited()
        self._requests = requests
        self._leave = leave
        self._by_folder: dict[str, Supervisor] = {}
        self._asked = True
        requests.setblocking(False)
        self.loop.watch(requests.fileno(), lambda _: self._request())

    def _done(self) -> bool:
        return not self._asked and not self._there

    def _request(self) -> None:
        """One message: a folder with the pipe for reports, or a signal for a container."""
        try:
            message, fds, _, _ = socket.recv_fds(self._requests, CHUNK, 4)
        except BlockingIOError:
            return
        except OSError:
            message, fds = b"", []
        for fd in fds:
            os.set_inheritable(fd, False)  # else containers would hold the agent's pipe open
        if not message:
            self._asked = False
            self.loop.forget(self._requests.fileno())
            self._requests.close()
            self._leave()
        elif message[:1] == b"/":
            self._start(message.decode(), fds[0])
        else:
            number, _, folder = message.decode().partition(" ")
            if supervisor := self._by_folder.get(folder):
                supervisor.signal(int(number))

    def _start(self, folder: str, ready: int) -> None:
        found = claim(folder)
        if found is None:
            os.close(ready)
            return
        try:
            supervisor = self.take(folder, found, ready, self._around)
        except Exception:
            # one container must not cost the others their shim
            _crashed(folder, found[0])
            for fd in (*found, ready):
                with suppress(OSError):
                    os.close(fd)
            return
        if not supervisor.closed:
            self._by_folder[folder] = supervisor
        self._around.prepare()

    def _gone(self, supervisor: Supervisor) -> None:
        self._by_folder.pop(supervisor.folder, None)

    # -- whose process is it -----------------------------------------------------------------------

    def relatives(self, supervisor: Supervisor) -> set[int]:
        """What holds its namespaces, with orphans, and the commands run in it.

        Where it has no process namespace orphans are our own children.
        """
        found: set[int] = set()
        for child in _children_of_mine():
            owner = self._of.get(child)
            if owner is supervisor or (owner is None and supervisor.owns(child)):
                found |= {child, *descendants(child)}
        return found


def _children_of_mine() -> list[int]:
    me = os.getpid()
    try:
        with open(f"/proc/{me}/task/{me}/children", "rb") as file:
            return [int(pid) for pid in file.read().split()]
    except OSError:  # a kernel without lists of children
        return sorted(descendants(me))
