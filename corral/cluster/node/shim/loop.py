"""One wait for many descriptors, with a handler for each."""

from __future__ import annotations

import select
from collections.abc import Callable
from typing import Final

READ: Final = select.EPOLLIN | select.EPOLLHUP | select.EPOLLERR
WRITE: Final = select.EPOLLOUT
ERROR: Final = select.EPOLLERR


class Loop:
    """Who waits for what. Handlers get the events of their descriptor."""

    def __init__(self) -> None:
        self._poll = select.epoll()
        self._handlers: dict[int, Callable[[int], None]] = {}

    def __contains__(self, fd: int) -> bool:
        return fd in self._handlers

    def watch(self, fd: int, handler: Callable[[int], None], events: int = READ) -> None:
        if fd in self._handlers:
            self._poll.modify(fd, events)
        else:
            self._poll.register(fd, events)
        self._handlers[fd] = handler

    def change(self, fd: int, events: int) -> None:
        self._poll.modify(fd, events)

    def forget(self, fd: int) -> None:
        if self._handlers.pop(fd, None):
            self._poll.unregister(fd)

    def turn(self, timeout: int | None) -> None:
        """Wait for events, at most that many milliseconds, and have them handled."""
        for fd, event in self._poll.poll(None if timeout is None else timeout / 1000):
            if handler := self._handlers.get(fd):
                handler(event)
