"""One key from the terminal, without Enter and without a thread that waits for ever."""

from __future__ import annotations

import asyncio
import os
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

__all__ = ["read_key"]


async def read_key(keys: str, interrupted: asyncio.Event, *, otherwise: str) -> str:
    """The first of some keys that is pressed; ``otherwise`` at an interrupt or the end of input."""
    loop = asyncio.get_running_loop()
    found: asyncio.Future[str] = loop.create_future()
    fd = sys.stdin.fileno()

    def readable() -> None:
        data = os.read(fd, 64).decode(errors="replace").lower()
        if found.done():
            return
        if not data:
            found.set_result(otherwise)
        for char in data:
            if char in keys:
                found.set_result(char)
                return

    with _unbuffered(fd):
        loop.add_reader(fd, readable)
        waiting = asyncio.ensure_future(interrupted.wait())
        either: list[asyncio.Future[str] | asyncio.Future[Literal[True]]] = [found, waiting]
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        finally:
            loop.remove_reader(fd)
            waiting.cancel()
    return found.result() if found.done() else otherwise


@contextmanager
def _unbuffered(fd: int) -> Iterator[None]:
    """Keys come as they are pressed; Ctrl-C is a signal still."""
    before = termios.tcgetattr(fd)
    tty.setcbreak(fd)
    try:
        yield
    finally:
        termios.tcsetattr(fd, termios.TCSADRAIN, before)
