"""Waking those who follow a log when it is written to, through inotify where there is one.

Followers of a quiet log cost nothing but a look a second; without inotify they look twenty times
a second, as :func:`corral.cluster.node.logs.follow` does by itself.
"""

from __future__ import annotations

import asyncio
import ctypes
import logging
import os
import struct
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from corral.cluster.node.logs import POLL

log = logging.getLogger(__name__)

QUIET: Final = 1.0
"""Seconds between looks at a log that nobody writes."""
BREATH: Final = 0.01
"""Seconds between two looks at a log that is written all the time."""
_MODIFY, _CLOSE_WRITE, _MOVED_TO, _CREATE = 0x2, 0x8, 0x80, 0x100
_EVENT = struct.Struct("iIII")

Sleep = Callable[[float], Awaitable[object]]


class _Follower:
    """Waits for one file."""

    def __init__(self, name: bytes) -> None:
        self._name = name
        self._changed = asyncio.Event()
        self._patience = QUIET
        self._last = 0.0

    def tell(self, mask: int, name: bytes) -> None:
        if name and name != self._name:
            return
        # whoever closes it may be about to end; the container's state follows shortly
        self._patience = POLL if mask & _CLOSE_WRITE else QUIET
        self._changed.set()

    async def sleep(self, _: float) -> None:
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


class Changes:
    """The inotify instance of a server, opened when first needed."""

    def __init__(self) -> None:
        self._fd = -1
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._followers: dict[int, set[_Follower]] = {}

    @contextmanager
    def following(self, path: Path) -> Iterator[Sleep]:
        """What to sleep with between looks at a log."""
        number = self._watch(path.parent)
        if number < 0:
            yield asyncio.sleep
            return
        follower = _Follower(os.fsencode(path.name))
        self._followers.setdefault(number, set()).add(follower)
        try:
            yield follower.sleep
        finally:
            self._leave(number, follower)

    def close(self) -> None:
        if self._fd >= 0:
            asyncio.get_running_loop().remove_reader(self._fd)
            os.close(self._fd)
            self._fd = -1
            self._followers.clear()

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

    def _leave(self, number: int, follower: _Follower) -> None:
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
