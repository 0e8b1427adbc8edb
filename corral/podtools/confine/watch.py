"""Keeps watch over a confined process: what no limit of the kernel holds, and who waits for it.

Files on a disk have no quota, and files in memory are not counted with its data; both are counted
here a few times a second. A process that takes more is ended.
"""

from __future__ import annotations

import os
import select
import signal
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from corral.podtools.confine.rules import Limits
from corral.podtools.confine.view import INODES

__all__ = ["OVER_DISK", "OVER_MEMORY", "OVER_TASKS", "Use", "Watched", "watch"]

OVER_MEMORY, OVER_TASKS, OVER_DISK = 114, 115, 116
"""What the watching process ends with where it ended the other."""
FAILED: Final = 1
_OURS: Final = range(113, 120)
"""Codes that mean something of ours: what code itself ends with must not say it."""
_EVERY: Final = 0.2
"""Seconds between two checks of the limits."""
_DEPTH: Final = 64


@dataclass(frozen=True, slots=True)
class Use:
    """What a process has, in bytes and threads."""

    memory: int = 0
    shared: int = 0
    """Of it, what it shares: files in memory."""
    threads: int = 0


@dataclass(frozen=True, slots=True)
class Watched:
    """A process, and what it is held to."""

    pid: int
    limits: Limits
    proc: int
    """A descriptor of the machine's own /proc."""
    parent: int
    """A socket that ends when nobody waits for the process any more."""
    folders: Sequence[int]
    """The folders that the process may write to."""
    in_memory: bool
    """Whether these are files in memory, on one file system of their own."""


def watch(watched: Watched) -> int:
    """Wait for a process to end; the code to end with, or the negative of its signal."""
    ends = select.poll()
    ends.register(watched.parent, select.POLLIN | select.POLLHUP)
    try:
        process = os.pidfd_open(watched.pid)
    except OSError:
        process = -1
    else:
        ends.register(process, select.POLLIN)
    while True:
        ready = {fd for fd, _ in ends.poll(_EVERY * 1000 if process >= 0 else 20)}
        ended = os.waitpid(watched.pid, 0 if process in ready else os.WNOHANG)
        over = 0 if ended[0] or watched.parent in ready else _over(watched)
        if not ended[0] and (over or watched.parent in ready):
            os.kill(watched.pid, signal.SIGKILL)
            ended = os.waitpid(watched.pid, 0)
        if ended[0]:
            code = os.waitstatus_to_exitcode(ended[1])
            return over or (FAILED if code in _OURS else code)


def _over(watched: Watched) -> int:
    limits = watched.limits
    use = _use(watched.proc, watched.pid)
    if use.threads > limits.tasks:
        return OVER_TASKS
    memory = use.memory
    if watched.in_memory:
        room = os.fstatvfs(watched.folders[0])
        memory += (room.f_blocks - room.f_bfree) * room.f_frsize
    else:
        memory += use.shared
        if _disk(watched.folders, limits.disk) > limits.disk:
            return OVER_DISK
    return OVER_MEMORY if memory > limits.memory else 0


def _use(proc: int, pid: int) -> Use:
    """What the kernel says of a process; nothing of one that has ended."""
    try:
        fd = os.open(f"{pid}/status", os.O_RDONLY | os.O_CLOEXEC, dir_fd=proc)
    except OSError:
        return Use()
    with open(fd) as file:
        rows = dict(line.split(":", 1) for line in file if ":" in line)
    kinds = ("RssAnon", "VmSwap", "VmPTE")
    memory = sum(int(rows.get(kind, "0").split()[0]) for kind in kinds)
    shared = int(rows.get("RssShmem", "0").split()[0])
    return Use(memory << 10, shared << 10, int(rows.get("Threads", "0")))


def _disk(folders: Sequence[int], most: int) -> int:
    """Bytes of the files in folders, or more than allowed where there are too many."""
    total = count = 0
    for folder in folders:
        for size in _sizes(folder, 0):
            total, count = total + size, count + 1
            if total > most or count > INODES:
                return most + 1
    return total


def _sizes(folder: int, depth: int) -> Iterator[int]:
    """Of everything below a folder; links are not followed."""
    with os.scandir(folder) as entries:
        names = [entry.name for entry in entries]
    for name in names:
        try:
            info = os.stat(name, dir_fd=folder, follow_symlinks=False)
            yield info.st_blocks * 512
            if not stat.S_ISDIR(info.st_mode) or depth > _DEPTH:
                continue
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
            below = os.open(name, flags, dir_fd=folder)
        except OSError:
            continue  # it was removed meanwhile
        try:
            yield from _sizes(below, depth + 1)
        finally:
            os.close(below)
