"""Logs through a gateway, followed as if the connection were never cut.

`remote_logs` reads frames (`corral.client.logs.frames`) and asks again after every cut with the
position of the last whole frame: nothing is lost, and nothing comes twice. How a request is made is
the caller's: see `Opener`.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import Final

import aiohttp

from corral.client.errors import JobError, TooManyRequests, Unavailable
from corral.client.logs.frames import BadFrame, FrameReader
from corral.client.logs.query import LogChunk, LogQuery
from corral.client.logs.reach import MAX_FAILURES, backoff

__all__ = ["Opener", "remote_logs"]

Opener = Callable[[LogQuery], AbstractAsyncContextManager[AsyncIterator[bytes]]]
"""Asks for a log in frames, and gives the body as it comes.

A body that is cut raises `aiohttp.ClientError`, OSError or TimeoutError; a refusal is a `JobError`.
"""
SILENCE: Final = 400.0
"""Seconds without a byte until it is asked again; a gateway ends a quiet answer well before."""
_CUT = (aiohttp.ClientError, OSError, TimeoutError, BadFrame)


async def remote_logs(
    opener: Opener,
    query: LogQuery,
    *,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    rng: Callable[[], float] = random.random,
) -> AsyncGenerator[LogChunk, None]:
    """The chunks of a log; leave it early through ``contextlib.aclosing``.

    Raises:
        JobError: the gateway refused, cannot be reached at all, or for long after it once was.
    """
    failures, reached = 0, False
    while True:
        try:
            async with opener(query) as body:
                reader, reached = FrameReader(), True
                read = 0
                while data := await _next(body):
                    for found in reader.feed(data):
                        if found.data:
                            query = replace(query, position=found.position)
                            failures, read = 0, read + 1
                            yield found
                if not reader.between:
                    raise ConnectionResetError("the log ended in the middle of a frame")
                if not reader.more:
                    return
                if read:
                    continue
                # its time was over without a word, or it stops: not at full speed again
                problem: Exception = Unavailable("the gateway gave nothing of the log")
                failures -= 1
        except _CUT as error:
            problem = error
        except (Unavailable, TooManyRequests) as error:
            problem = error
        failures += 1
        if failures > MAX_FAILURES or not reached:
            raise _given_up(problem) from problem
        asked = getattr(problem, "retry_after", None) or 0.0
        await sleep(max(backoff(failures, rng), asked))


async def _next(body: AsyncIterator[bytes]) -> bytes:
    """Empty at the end. Raises TimeoutError where the other side seems to have vanished."""
    async with asyncio.timeout(SILENCE):
        async for data in body:
            if data:
                return data
    return b""


def _given_up(problem: Exception) -> JobError:
    if isinstance(problem, JobError):
        return problem
    detail = str(problem) or type(problem).__name__
    return Unavailable(f"the gateway cannot be reached: {detail}")
