"""Children of a shim of many containers, made without a copy of its memory (``native.c``).

Needs that part in C, which is there where there was a compiler; `native` is None where there was
none, and `tasks` and `cells` then do the same in Python, slower. ``CORRAL_NATIVE=0`` turns it off.
"""

from __future__ import annotations

import ctypes
import errno
import os
import select
import struct
from array import array
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from typing import Final, NamedTuple, Protocol, cast

from corral.cluster.node.shim import kernel

__all__ = ["Holder", "Plan", "Report", "exclude_from_forks", "native", "start"]

INTERFACE: Final = 1
"""What this module expects of native.c, which says the same number."""
STEPS: Final = (
    "", "setsid", "dup2", "terminal", "setrlimit", "joining a control group", "setns", "prctl",
    "seccomp", "changing the user", "capset", "chdir", "exec", "mounting proc",
)  # fmt: skip
"""What a child can fail at, by the numbers of native.c."""
_FOLDER, _PROGRAM = STEPS.index("chdir"), STEPS.index("exec")
_REPORT: Final = struct.Struct("=iiii")
_NO_COPY: Final = 10
"""MADV_DONTFORK."""
_LEAST: Final = 1 << 16
"""Bytes of memory that are worth a call; the C library has fewer variables."""
_libc = ctypes.CDLL(None, use_errno=True)


class Native(Protocol):
    """The functions of native.c; arguments are in the order of `Plan` there."""

    INTERFACE: int

    def spawn(self, *arguments: object) -> int:
        """Starts a program; what it fails at is written to a descriptor. Raises OSError."""

    def hold(self, tell: int, users: int, attributes: int, /) -> int:
        """Starts the first process of the process namespace for children. Raises OSError."""

    def needed(self) -> tuple[int, int]:
        """Addresses of the stack and of what is this thread's own."""


def load() -> Native | None:
    """The part in C, where there is one that fits this module and it is not turned off."""
    if os.environ.get("CORRAL_NATIVE", "1") == "0":
        return None
    try:
        found = cast(Native, import_module("corral.cluster.node.shim.native"))
    except ImportError:
        return None
    return found if found.INTERFACE == INTERFACE else None


native = load()


class Plan(NamedTuple):
    """What a child does before it becomes the program: as `confinement.settle`."""

    files: tuple[int, int]
    """How many files it may have open: soft and hard limit."""
    groups: Sequence[int]
    """Files through which it joins its control groups."""
    oom_score: str
    enter: Sequence[tuple[int, int]]
    """Namespaces to enter: descriptor and kind."""
    no_new_privileges: bool
    dropped: int
    """Capabilities that it never has again, as bits."""
    capabilities: int
    """Those that it has if it is root."""
    filter: bytes
    """Of its system calls; empty for none."""
    user: tuple[int, int, Sequence[int]] | None
    """User, group (-1: as it is) and supplementary groups; None: all as they are."""
    most_processes: int
    """0: no limit."""
    folder: str


class Report(NamedTuple):
    """What a child says of itself."""

    step: int
    error: int
    value: int
    seen: int

    @classmethod
    def read(cls, data: bytes) -> Report | None:
        """None for what is no report."""
        return cls(*_REPORT.unpack(data)) if len(data) == _REPORT.size else None

    def problem(self, paths: Sequence[str], folder: str) -> OSError:
        """What it failed at, with the path where it was one."""
        if self.step == _FOLDER:
            if self.error == errno.ELOOP:
                return OSError(errno.EXDEV, "leads out of its folder", folder)
            return OSError(self.error, os.strerror(self.error), folder)
        if self.step == _PROGRAM:
            return OSError(self.error, os.strerror(self.error), paths[self.value])
        return OSError(self.error, f"{STEPS[self.step]}: {os.strerror(self.error)}")

    @property
    def has_program(self) -> bool:
        """Whether there is a file of the program's name where it was looked for."""
        return bool(self.seen & 1)

    @property
    def can_execute(self) -> bool:
        """Whether what it failed at may be executed, or gone through."""
        return bool(self.seen & 2)


def start(
    paths: Sequence[str],
    argv: Sequence[str],
    env: Mapping[str, str],
    plan: Plan,
    *,
    streams: Sequence[int],
    tell: int,
    tty: bool,
) -> int:
    """Start the first of ``paths`` that can be executed; gives the process.

    ``tell`` closes when it has become the program; before that it writes why not (`Report`).
    Raises OSError, ValueError.
    """
    assert native is not None
    uid, gid, supplementary = plan.user or (-1, -1, ())
    return native.spawn(
        _texts(paths),
        _texts(argv),
        _texts(f"{name}={value}" for name, value in env.items() if _is_name(name)),
        tuple(streams),
        tell,
        tty,
        plan.files,
        array("i", plan.groups),
        array("i", [number for place in plan.enter for number in place]),
        array("I", supplementary),
        plan.filter,
        plan.oom_score.encode(),
        bool(plan.groups),
        plan.no_new_privileges,
        plan.dropped,
        plan.capabilities,
        plan.user is not None,
        uid,
        gid,
        plan.most_processes,
        os.fsencode(plan.folder),
    )


def _is_name(name: str) -> bool:
    if not name or "=" in name:
        raise ValueError("illegal environment variable name")
    return True


def _texts(words: Iterable[str]) -> bytes:
    found = [os.fsencode(word) for word in words]
    if any(b"\0" in word for word in found):
        raise ValueError("embedded null byte")
    return b"".join(word + b"\0" for word in found)


class Holder:
    """The first process of the process namespace that children are born in when it is made.

    It may do nothing, holds nothing and does nothing. It is there at once, and done with what it
    has to do when `tree` returns: so much can be done meanwhile.
    """

    def __init__(self, users: int, attributes: int, patience: float) -> None:
        """``users`` is a user namespace to be in, or -1. Raises OSError."""
        assert native is not None
        self._patience = patience
        # ours both: until it lets go, it has the same files
        self._reading_end, self._tell = os.pipe()
        try:
            self.pid = native.hold(self._tell, users, attributes)
        except BaseException:
            self._forget()
            raise

    def tree(self) -> int:
        """A /proc of its namespace, attached nowhere. Raises OSError."""
        report = self._report()
        if report is None:
            raise OSError("its process namespace was not made in time")
        if not report.step:
            return kernel.track_tree(report.value)
        if report.value >= 0:
            os.close(report.value)
        raise report.problem((), "")

    def end(self) -> None:
        """It is not needed, nor what it has made for us."""
        report = self._report() if self._reading_end >= 0 else None
        if report is not None and report.value >= 0:
            os.close(report.value)
        kernel.kill_and_reap(self.pid)

    def _report(self) -> Report | None:
        try:
            return _reported(self._reading_end, self.pid, self._patience)
        finally:
            self._forget()

    def _forget(self) -> None:
        for fd in (self._reading_end, self._tell):
            os.close(fd)
        self._reading_end = self._tell = -1


def _reported(reading_end: int, pid: int, patience: float) -> Report | None:
    """What a child says, unless it ends first or says nothing in time."""
    watch = os.pidfd_open(pid)
    try:
        poll = select.poll()
        for fd in (reading_end, watch):
            poll.register(fd, select.POLLIN)
        ready = dict(poll.poll(patience * 1000))
        return Report.read(os.read(reading_end, _REPORT.size)) if reading_end in ready else None
    finally:
        os.close(watch)


def exclude_from_forks() -> None:
    """Have children get no copy of this process's memory: what is made here needs none.

    To be called again when there is much more of it. From then on nothing but `start` and `Holder`
    may fork here; programs that are started without a fork are no matter.
    """
    assert native is not None
    needed = native.needed()
    above_file = 0
    with open("/proc/self/maps") as file:
        for line in file:
            words = line.split(None, 5)
            first, last = (int(word, 16) for word in words[0].split("-"))
            # what follows a file in memory are variables of its library
            begin = first + _LEAST if words[4] == "0" and first == above_file else first
            above_file = last if words[4] != "0" else 0
            own = words[1] == "rw-p" and last - begin >= _LEAST
            if own and not any(first <= address < last for address in needed):
                _libc.madvise(ctypes.c_void_p(begin), ctypes.c_size_t(last - begin), _NO_COPY)
