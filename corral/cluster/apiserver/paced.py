"""Small work that comes in crowds: a little of it in each turn of the event loop, fairly by flow.

Ten thousand readers that are woken at once, or forty megabytes that arrive at once, would hold up
everybody's small request. Between two pieces the event loop looks at all of its sockets.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

__all__ = ["Paced"]


class Paced:
    """Calls functions: so many in one turn of the event loop, the flows one after the other."""

    def __init__(self, per_turn: int = 1) -> None:
        self._per_turn = self._left = per_turn
        self._waiting: dict[str, deque[Callable[[], None]]] = {}
        """By flow, in the order of their turns."""
        self._scheduled = False

    def call(self, flow: str, work: Callable[[], None]) -> None:
        """Call ``work`` at once where nobody waits, else when it is the flow's turn."""
        if self._left and not self._waiting:
            self._left -= 1
            work()
        else:
            self._waiting.setdefault(flow, deque()).append(work)
        self._schedule()

    async def turn(self, flow: str) -> None:
        """Return when it is the flow's turn."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def come() -> None:
            if not turn.done():
                turn.set_result(None)

        self.call(flow, come)
        await turn

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        self._scheduled = False
        self._left = self._per_turn
        while self._left and self._waiting:
            self._left -= 1
            self._next()
        if self._left < self._per_turn:
            self._schedule()

    def _next(self) -> None:
        flow, line = next(iter(self._waiting.items()))
        del self._waiting[flow]
        work = line.popleft()
        if line:
            self._waiting[flow] = line  # behind all others
        work()
