"""Work that would hold the event loop: done beside it, a little at a time, fairly by flow.

A request over an object of many kilobytes costs milliseconds of processor time at every step. What
is computation alone goes to other processes (``apart``). What needs the server's own state runs on
a thread (``do``), from which the event loop gets the interpreter back at once (see ``process``).
The users who wait take turns, and one who has too many waiting is refused with 429.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import orjson

from corral.cluster.apiserver.auth.users import UserInfo
from corral.cluster.apiserver.fairness.dispatch import elsewhere
from corral.cluster.apiserver.turns import Turns, flow_of
from corral.cluster.apiserver.workers import Workers

T = TypeVar("T")

HEAVY_BYTES = 48 * 1024
"""Requests whose bodies and stored objects are larger together are heavy."""
YAML_WORK = 50
"""What reading a byte of YAML takes, in bytes of JSON."""
WAITING_PER_FLOW = 64
WAITING = 512


def work_of(body: bytes, media: str) -> int:
    """What reading a body takes, in bytes of JSON."""
    if len(body) >= HEAVY_BYTES or not media.endswith("yaml"):
        return len(body)
    try:
        orjson.loads(body)
    except orjson.JSONDecodeError:
        return len(body) * YAML_WORK
    return len(body)


class HeavyWork:
    """The thread, the processes, and the turns at them."""

    def __init__(self) -> None:
        limits = {"waiting_per_flow": WAITING_PER_FLOW, "waiting": WAITING}
        self._turns = Turns(1, **limits)
        self._thread: ThreadPoolExecutor | None = None
        self._workers = Workers(**limits)

    async def apart(self, user: UserInfo, work: Callable[..., T], *args: Any) -> T:
        """``work(*args)`` in a process of its own. Raises TooManyRequests."""
        return await self._workers.run(flow_of(user), work, *args)

    async def do(self, user: UserInfo, size: int, work: Callable[..., T], *args: Any) -> T:
        """``work(*args)``: here where the objects it is about are small, else on the thread."""
        if size < HEAVY_BYTES:
            return work(*args)
        return await elsewhere(self._on_thread(user, work, *args))

    async def _on_thread(self, user: UserInfo, work: Callable[..., T], *args: Any) -> T:
        await self._turns.take(flow_of(user))
        try:
            loop = asyncio.get_running_loop()
            return await _finished(loop.run_in_executor(self._executor(), work, *args))
        finally:
            self._turns.give()

    def _executor(self) -> ThreadPoolExecutor:
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "heavy")
        return self._thread

    def close(self) -> None:
        self._workers.close()
        if self._thread is not None:
            self._thread.shutdown(wait=False, cancel_futures=True)


async def _finished(job: asyncio.Future[T]) -> T:
    """Its result; a caller who goes away waits for the end, for the thread is busy until then."""
    try:
        return await asyncio.shield(job)
    except asyncio.CancelledError:
        await asyncio.wait([job])
        raise
