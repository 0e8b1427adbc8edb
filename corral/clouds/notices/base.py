"""What all watchers of metadata share: one stream, news told once, silence survived."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

from corral.clouds.base import Notice
from corral.egress.reading import IDENTITY

if TYPE_CHECKING:
    import aiohttp

__all__ = ["MAX_TEXT", "NewNotices", "Source", "watch"]

logger = logging.getLogger(__name__)

MAX_TEXT: Final = 1 << 20
"""Bytes of an answer of a metadata service."""


class Source(Protocol):
    """One thing to ask, again and again."""

    what: str
    """What is queried, in words for the log."""

    async def ask(self, session: aiohttp.ClientSession) -> Iterable[Notice]:
        """What holds now; may wait for a change. Raises OSError, TimeoutError, ValueError."""
        ...


@dataclass(slots=True)
class NewNotices:
    """Notices, each told once, and again when its deadline has come nearer."""

    _reported: dict[tuple[str, str, str], float | None] = field(default_factory=dict)

    def is_new(self, notice: Notice) -> bool:
        key = (notice.kind, notice.vm, notice.id)
        known = key in self._reported
        before = self._reported.get(key)
        nearer = notice.deadline is not None and (before is None or notice.deadline < before)
        if not known or nearer:
            self._reported[key] = notice.deadline
            return True
        return False


async def watch(
    sources: Iterable[Source],
    *,
    interval: float,
    answer_s: float,
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> AsyncIterator[Notice]:
    """All that the sources tell, for as long as one listens.

    A source that fails is asked again after ``interval``: whoever dies with the machine cannot do
    more, and state seen from outside is the fallback.
    """
    import aiohttp

    queue: asyncio.Queue[Notice] = asyncio.Queue()
    news = NewNotices()
    limits = aiohttp.ClientTimeout(total=answer_s)
    # a proxy must never come between a VM and its own metadata
    async with aiohttp.ClientSession(
        timeout=limits, trust_env=False, auto_decompress=False, headers=IDENTITY
    ) as session:
        tasks = [
            asyncio.create_task(_follow(source, session, queue, interval, pause))
            for source in sources
        ]
        try:
            while True:
                notice = await _next(queue, tasks)
                if news.is_new(notice):
                    yield notice
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def _next(queue: asyncio.Queue[Notice], tasks: list[asyncio.Task[None]]) -> Notice:
    """The next notice; raises what a follower died of."""
    get = asyncio.ensure_future(queue.get())
    try:
        await asyncio.wait([get, *tasks], return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            if task.done():
                task.result()
        return await get
    finally:
        get.cancel()


async def _follow(
    source: Source,
    session: aiohttp.ClientSession,
    queue: asyncio.Queue[Notice],
    interval: float,
    pause: Callable[[float], Awaitable[None]],
) -> None:
    import aiohttp

    silent_since: float | None = None
    while True:
        try:
            notices = list(await source.ask(session))
        except (OSError, TimeoutError, ValueError, aiohttp.ClientError) as error:
            if silent_since is None:
                silent_since = time.monotonic()
                logger.warning("cannot read %s: %r; asking again", source.what, error)
        else:
            if silent_since is not None:
                silence = time.monotonic() - silent_since
                logger.warning("%s answers again after %.0f s", source.what, silence)
                silent_since = None
            for notice in notices:
                queue.put_nowait(notice)
        await pause(interval)
