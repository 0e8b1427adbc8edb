"""Who is served next: when several tenants ask, each gets the same share of the loop's time.

A request is answered in one go or in a few, and nobody else is meanwhile. So what a tenant's
requests take is measured, and a tenant that has had its slice waits for as long as it had the loop,
where others want it. A tenant who is alone never waits.
"""

from __future__ import annotations

import asyncio
import types
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, Final, TypeVar

__all__ = ["TurnState", "Turns", "metered"]

SLICE: Final = 0.002
"""Seconds that a tenant has before others are looked after."""
_MOST: Final = 1.0
"""Seconds for which one waits, at most."""
_RECENT: Final = 0.1
"""Seconds for which somebody who has asked counts as one who asks."""
T = TypeVar("T")


@dataclass(slots=True, eq=False)
class TurnState:
    """How a tenant stands."""

    debt: float = 0.0
    """Seconds of the loop that it has had and not waited for."""
    paid: float = 0.0
    """When the debt was reckoned last."""
    waiting: deque[asyncio.Future[None]] = field(default_factory=deque)
    pump: asyncio.Handle | None = None


class Turns:
    """Of one broker."""

    def __init__(self) -> None:
        self._last: TurnState | None = None
        self._last_at = self._other_at = -1.0

    async def enter(self, state: TurnState) -> None:
        """Wait for one's turn."""
        now = perf_counter()
        self._note(state, now)
        if not state.waiting and self._wait(state, now) <= 0:
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        state.waiting.append(turn)
        self._schedule(state)
        await turn

    def spend(self, state: TurnState, seconds: float) -> None:
        """It had the loop for so long."""
        state.debt = min(self._debt(state, perf_counter()) + seconds, _MOST)

    def _note(self, state: TurnState, now: float) -> None:
        if state is not self._last:
            self._last, self._other_at = state, self._last_at
        self._last_at = now

    def _debt(self, state: TurnState, now: float) -> float:
        state.debt = max(state.debt - (now - state.paid), 0.0)
        state.paid = now
        return state.debt

    def _wait(self, state: TurnState, now: float) -> float:
        """Seconds until its turn; 0 where nobody else has asked of late."""
        other = self._other_at if state is self._last else self._last_at
        if now - other > _RECENT:
            return 0.0
        return self._debt(state, now) - SLICE

    def _schedule(self, state: TurnState) -> None:
        if state.pump is None:
            wait = self._wait(state, perf_counter())
            loop = asyncio.get_running_loop()
            state.pump = (
                loop.call_later(wait, self._next, state)
                if wait > 0
                else loop.call_soon(self._next, state)
            )

    def _next(self, state: TurnState) -> None:
        """The first of those who wait goes; the next one when it has run."""
        state.pump = None
        while state.waiting:
            turn = state.waiting.popleft()
            if not turn.done():  # its connection may be gone
                turn.set_result(None)
                break
        if state.waiting:
            self._schedule(state)


@types.coroutine
def metered(work: Coroutine[Any, Any, T], spend: Callable[[float], None]) -> Generator[Any, Any, T]:
    """Do some work, and tell of the time that each part of it took, without its waiting."""
    step: Callable[[Any], Any] = work.send
    value: Any = None
    while True:
        begun = perf_counter()
        try:
            waits_for = step(value)
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]
        finally:
            spend(perf_counter() - begun)
        try:
            value = yield waits_for
            step = work.send
        except BaseException as err:
            step, value = work.throw, err
