"""Waking those who follow a log when it is written to, through inotify where there is one.

Followers of a quiet log cost nothing but a look a second; without inotify they look twenty times
a second, as :func:`corral.cluster.node.container.logs.follow` does by itself. A rotation is noticed
however busy a follower is, and costs it no line: see :mod:`held`.
"""

from __future__ import annotations

import asyncio
import ctypes
import logging
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from corral.cluster.node.container.logs import POLL
from corral.cluster.node.server.held import HeldFiles

log = logging.getLogger(__name__)

QUIET: Final = 1.0
"""Seconds between looks at a log that nobody writes."""
BREATH: Final = 0.01
"""Seconds between two looks at a log that is written all the time."""
GRACE: Final = 30.0
"""Seconds in which one whose connection was cut finds all files that it had."""
_MODIFY, _CLOSE_WRITE, _MOVED_TO, _CREATE = 0x2, 0x8, 0x80, 0x100
_EVENT = struct.Struct("iIII")


@dataclass(slots=True)
class _Holding:
    """Files that are kept, and for how many; after the last of them, until a timer ends."""

    files: HeldFiles
    followers: int = 0
    end: asyncio.TimerHandle | None = None


class Follower:
    """Waits for one log."""

    def __init__(self, path: Path, files: HeldFiles) -> None:
        self._files = files
        self._name = os.fsencode(path.name)
        self._changed = asyncio.Event()
        self._patience = QUIET
        self._last = 0.0

    def tell(self, mask: int, name: bytes) -> None:
        if name and name != self._name:
            return
        if mask & _CREATE:
            self._files.note()
        # whoever closes it may be about to end; the container's state follows shortly
        self._patience = POLL if mask & _CLOSE_WRITE else QUIET
        self._changed.set()

    def opened(self, path: Path) -> list[BinaryIO]:
        """The files of the log, oldest first, with those that have no name any more."""
        return self._files.opened(path)

    async def sleep(self, seconds: float) -> None:
        """Until the file has changed, or it is time to see whether the container still runs."""
        clock = asyncio.get_running_loop().time
        try:
            async with asyncio.timeout(self._patience):
                await self._changed.wait()
        except TimeoutError:
            return
        if (early := self._last + BREATH - clock()) > 0:
            await asyncio.sleep(early)
        self._last = clock()
        self._changed.clear()


class _Poller(Follower):
    """Looks by itself: nobody tells."""

    async def sleep(self, seconds: float) -> None:
        self._files.note()
        await asyncio.sleep(seconds)


class Changes:
    """The inotify instance of a server, opened when first needed."""

    def __init__(self) -> None:
        self._fd = -1
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._followers: dict[int, set[Follower]] = {}
        self._holdings: dict[Path, _Holding] = {}

    @contextmanager
    def following(self, path: Path, *, once: bool = False) -> Iterator[Follower]:
        """What to wait and to look with for a log; ``once``: it is read and not waited for."""
        if once and path not in self._holdings:
            yield Follower(path, HeldFiles(path, keep=False))
            return
        number = self._watch(path.parent)
        files = self._hold(path)
        follower = Follower(path, files) if number >= 0 else _Poller(path, files)
        if number >= 0:
            self._followers.setdefault(number, set()).add(follower)
        try:
            yield follower
        finally:
            if number >= 0:
                self._leave(number, follower)
            self._release(path)

    def close(self) -> None:
        if self._fd >= 0:
            asyncio.get_running_loop().remove_reader(self._fd)
            os.close(self._fd)
            self._fd = -1
            self._followers.clear()
        for holding in self._holdings.values():
            if holding.end is not None:
                holding.end.cancel()
            holding.files.close()
        self._holdings.clear()

    def _hold(self, path: Path) -> HeldFiles:
        holding = self._holdings.setdefault(path, _Holding(HeldFiles(path)))
        holding.followers += 1
        if holding.end is not None:
            holding.end.cancel()
            holding.end = None
        return holding.files

    def _release(self, path: Path) -> None:
        holding = self._holdings.get(path)
        if holding is None:
            return  # all is closed
        holding.followers -= 1
        if not holding.followers:
            loop = asyncio.get_running_loop()
            holding.end = loop.call_later(GRACE, self._forget, path)

    def _forget(self, path: Path) -> None:
        self._holdings.pop(path).files.close()

    def _watch(self, folder: Path) -> int:
        """The number of a watch on a folder; negative when there can be none."""
        if self._fd < 0:
            self._fd = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
            if self._fd < 0:
                log.debug("no inotify: %s", os.strerror(ctypes.get_errno()))
                return -1
            asyncio.get_running_loop().add_reader(self._fd, self._take)
        mask = _MODIFY | _CLOSE_WRITE | _MOVED_TO | _CREATE
        return int(self._libc.inotify_add_watch(self._fd, os.fsencode(folder), mask))

    def _leave(self, number: int, follower: Follower) -> None:
        others = self._followers.get(number)
        if others is None:
            return
        others.discard(follower)
        if not others:
            del self._followers[number]
            self._libc.inotify_rm_watch(self._fd, number)

    def _take(self) -> None:
        try:
            data = os.read(self._fd, 1 << 16)
        except BlockingIOError:
            return
        at = 0
        while at < len(data):
            number, mask, _, size = _EVENT.unpack_from(data, at)
            at += _EVENT.size
            name = data[at : at + size].rstrip(b"\0")
            at += size
            # a queue that ran over (-1) concerns everybody
            told = [number] if number >= 0 else list(self._followers)
            for one in told:
                for follower in self._followers.get(one, ()):
                    follower.tell(mask, name)
