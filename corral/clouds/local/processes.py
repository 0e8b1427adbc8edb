"""Processes of this machine, told apart for certain, and ended with everything below them.

A number alone may be somebody else's by now: a process is known by its number, the time it was
started and the machine's boot.
"""

from __future__ import annotations

import ctypes
import os
import signal
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

__all__ = ["Process", "adopt_orphans", "below", "kill_below"]

_PROC: Final = Path("/proc")
_PF_EXITING: Final = 0x4
_PR_SET_CHILD_SUBREAPER: Final = 36
_KILL_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class Process:
    """One process, now or in the past."""

    pid: int
    started: str

    @classmethod
    def of(cls, pid: int) -> Process | None:
        """The one that has the number now."""
        found = _stat(pid)
        return None if found is None else cls(pid, f"{_boot()}/{found.started}")

    @property
    def alive(self) -> bool:
        """Whether it still runs; one that has ended and waits to be reaped does not."""
        found = _stat(self.pid)
        return (
            found is not None
            and found.state not in "ZX"
            and f"{_boot()}/{found.started}" == self.started
        )

    def send(self, number: int) -> bool:
        """Signal it, if it is still the same; whether it was."""
        if self.pid <= 1:
            return False
        try:
            handle = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return False
        try:
            if Process.of(self.pid) != self:
                return False
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(handle, number)
                return True
            return False
        finally:
            os.close(handle)


@dataclass(frozen=True, slots=True)
class _Stat:
    state: str
    parent: int
    started: str
    exiting: bool
    """It has given up its memory: the first process of a namespace waits like that until all others
    of it were reaped, which those may be who are stopped themselves."""


def _stat(pid: int) -> _Stat | None:
    try:
        text = (_PROC / str(pid) / "stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = text.rpartition(")")[2].split()  # the name before may have anything in it
    exiting = bool(int(fields[6]) & _PF_EXITING) and fields[20] == "0"
    return _Stat(fields[0], int(fields[1]), fields[19], exiting)


@cache
def _boot() -> str:
    return (_PROC / "sys/kernel/random/boot_id").read_text().strip()


def adopt_orphans() -> None:
    """Become the parent of everything below us whose own parent dies. Raises OSError."""
    library = ctypes.CDLL(None, use_errno=True)
    if library.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "cannot become a subreaper")


def below(roots: Iterable[int]) -> set[Process]:
    """All living descendants of these processes, without themselves."""
    children: dict[int, list[tuple[int, _Stat]]] = {}
    for entry in os.listdir(_PROC):
        if entry.isdigit() and (stat := _stat(int(entry))) is not None:
            children.setdefault(stat.parent, []).append((int(entry), stat))
    found: set[Process] = set()
    todo = list(roots)
    while todo:
        for pid, stat in children.get(todo.pop(), ()):
            todo.append(pid)
            if stat.state not in "ZX" and not stat.exiting:
                found.add(Process(pid, f"{_boot()}/{stat.started}"))
    return found


def _above(pid: int) -> set[int]:
    """The process itself, its parent, and so on up."""
    found: set[int] = set()
    while pid > 0 and pid not in found:
        found.add(pid)
        stat = _stat(pid)
        pid = stat.parent if stat is not None else 0
    return found


def kill_below(
    root: Process,
    *,
    reap: Callable[[], None] = lambda: None,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Kill all descendants until there are none: new ones may come while others go.

    A process that has ended has none that could be told from others. Nothing is ever killed above
    or beside us: a root that we ourselves are below is a mistake, and refused.

    Raises:
        ValueError: the root is no process of a VM.
        TimeoutError: some are still there; only the kernel can hold a process against SIGKILL.
    """
    if root.pid <= 1 or (root.pid != os.getpid() and root.pid in _above(os.getpid())):
        raise ValueError(f"process {root.pid} is no VM: nothing below it is killed")
    until = clock() + _KILL_S
    while root.alive and (left := below([root.pid])):
        for process in left:
            process.send(signal.SIGKILL)
        reap()
        if clock() > until:
            raise TimeoutError(f"processes {sorted(p.pid for p in left)} do not end")
        time.sleep(0.005)
