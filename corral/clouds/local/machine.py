"""The process that is a local VM: it runs the node agent, and takes everything along when it ends.

``python -m corral.clouds.local.machine FOLDER``. There is one for a folder, once: a VM that has
ended does not come back. It outlives whoever started it, starts an agent that has died again as a
machine's service manager would, tells a notice through the metadata endpoint, and at the deadline
kills all that runs on it, whether or not anybody still watches.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Final

from corral.clouds.local.leftovers import remove_leftovers
from corral.clouds.local.processes import Process, adopt_orphans, kill_below
from corral.clouds.local.records import Ended, Folder, Record, Running

__all__ = ["main"]

_FIRST_PAUSE_S: Final = 0.5
_LONGEST_PAUSE_S: Final = 10.0


class Machine:
    """One VM, from its start to its end."""

    def __init__(self, folder: Folder, record: Record, sock: socket.socket) -> None:
        self._folder = folder
        self._record = record
        self._sock = sock
        self._port = sock.getsockname()[1]
        self._node = 0
        self._pause = _FIRST_PAUSE_S
        self._ending = False
        self._given = folder.given()
        self._timer: asyncio.TimerHandle | None = None
        self._stop_early = False
        me = Process.of(os.getpid())
        assert me is not None
        self._me = me
        # it may be told to stop while it still loads what it needs
        signal.signal(signal.SIGTERM, self._remember)
        signal.signal(signal.SIGUSR1, lambda number, frame: None)  # `run` looks anyway

    def _remember(self, number: int, frame: FrameType | None) -> None:
        self._stop_early = True

    def start_node(self) -> None:
        """Start the node's process; raises OSError."""
        record = self._record
        self._note(0)  # from here on it has begun, and does not begin again
        environment = {
            **os.environ,
            **record.environment,
            "CORRAL_CLOUD": "local",
            "CORRAL_VM": record.name,
            "CORRAL_METADATA": f"http://127.0.0.1:{self._port}",
        }
        with open(self._folder.log, "ab") as log:
            child = subprocess.Popen(
                record.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                start_new_session=True,
            )
        child.returncode = 0  # it is reaped with all others, by `_reap`
        self._node = child.pid
        self._note(child.pid)

    def _note(self, pid: int) -> None:
        node = Process.of(pid) if pid else None
        started = node.started if node is not None else ""
        self._folder.keep(Running(self._me.pid, self._me.started, self._port, pid, started))

    async def run(self) -> None:
        """Run the VM until it ends."""
        from corral.clouds.local.metadata import MetadataServer  # the node is starting meanwhile

        loop = asyncio.get_running_loop()
        self._over = asyncio.Event()
        self._metadata = MetadataServer(self._values)
        self._tasks: set[asyncio.Task[None]] = set()
        self._node_gone = asyncio.Event()
        loop.add_signal_handler(signal.SIGCHLD, self._reap)
        loop.add_signal_handler(signal.SIGUSR1, self._hear)
        loop.add_signal_handler(signal.SIGTERM, self._stop)
        await self._metadata.start(self._sock)
        self._reap()
        self._hear()
        if self._stop_early:
            self._stop()
        await self._over.wait()
        await self._metadata.stop()

    def _values(self) -> Mapping[str, str]:
        record, given = self._record, self._given
        values = {
            "name": record.name,
            "hostname": record.name,
            "zone": f"projects/local/zones/{record.zone}",
            "machine-type": f"projects/local/machineTypes/{record.machine_type}",
            "scheduling/preemptible": "TRUE" if record.spot else "FALSE",
            "preempted": "FALSE" if given.deadline is None else "TRUE",
            "maintenance-event": given.maintenance,
            "attributes/corral-request": record.labels.get("corral-request", ""),
        }
        if given.deadline is not None:
            values["attributes/preemption-deadline"] = repr(given.deadline)
        return values

    # -- what happens to it ----------------------------------------------------------------------

    def _hear(self) -> None:
        """A notice was written down."""
        self._given = self._folder.given()
        self._spawn(self._metadata.changed())
        if self._timer is not None:
            self._timer.cancel()
        if self._given.deadline is not None:
            left = max(self._given.deadline - time.time(), 0.0)
            self._timer = asyncio.get_running_loop().call_later(left, self._end, "preempted")

    def _stop(self) -> None:
        """Power off in order: the agent first, then all the rest."""
        if not self._ending:
            self._ending = True
            self._spawn(self._power_off())

    async def _power_off(self) -> None:
        node = Process.of(self._node)
        if node is not None and node.send(signal.SIGTERM):
            with suppress(TimeoutError):
                async with asyncio.timeout(self._record.stop_grace_s):
                    await self._node_gone.wait()
        self._end("stopped")

    def _end(self, reason: str) -> None:
        """All at once, as when the power goes."""
        if self._over.is_set():
            return
        self._ending = True
        try:
            kill_below(self._me, reap=self._reap)
            remove_leftovers(self._folder.data, self._record.name)
            self._folder.keep(Ended(reason, time.time()))
        finally:
            self._over.set()  # what could not be done is the guard's then

    def _reap(self) -> None:
        """Everything that dies below comes to us in the end."""
        while True:
            try:
                pid, _ = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self._node:
                self._node_gone.set()
                if not self._ending:
                    self._spawn(self._start_again())

    async def _start_again(self) -> None:
        while not self._ending:
            await asyncio.sleep(self._pause)
            self._pause = min(self._pause * 2, _LONGEST_PAUSE_S)
            if self._ending:
                return
            try:
                self._node_gone.clear()
                self.start_node()
            except OSError as error:
                sys.stderr.write(f"the node agent does not start: {error}\n")
            else:
                return

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def main() -> None:
    """Start the VM of a folder and return; it goes on in processes that are nobody's children."""
    folder = Folder(Path(sys.argv[1]))
    reading, writing = os.pipe()
    if os.fork():
        os.close(writing)
        sys.exit(0 if os.read(reading, 1) else "the VM did not start")
    os.close(reading)
    os.setsid()
    _be(folder, writing)


def _be(folder: Folder, writing: int) -> None:
    """The VM, if nobody else is or was; tells when that is settled."""
    lock = os.open(folder.lock, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:  # another one is the VM, or is just becoming it
        os.write(writing, b".")
        return
    record = folder.record()
    if record is None:
        sys.exit(f"{folder.path} is no folder of a local VM")
    if folder.running() is not None or folder.ended() is not None:  # it was, or must not be
        os.write(writing, b".")
        return
    adopt_orphans()
    if machine := os.fork():
        os.close(writing)
        _guard(folder, record, machine)
        return
    adopt_orphans()
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen()  # who asks early waits
        vm = Machine(folder, record, sock)
        vm.start_node()
        os.write(writing, b".")
        os.close(writing)
        asyncio.run(vm.run())


def _guard(folder: Folder, record: Record, machine: int) -> None:
    """Outlive the VM, and end what it ran should it die without doing so."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
        signal.signal(number, signal.SIG_IGN)
    while os.waitpid(-1, 0)[0] != machine:
        pass
    me = Process.of(os.getpid())
    assert me is not None
    kill_below(me, reap=_reap_all)
    with suppress(FileNotFoundError):  # whoever deletes it is faster
        if folder.ended() is None and folder.record() is not None:
            remove_leftovers(folder.data, record.name)
            folder.keep(Ended("crashed", time.time()))


def _reap_all() -> None:
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


if __name__ == "__main__":
    main()
