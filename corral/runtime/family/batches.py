"""Many writes at once, in batches that begin small and have a bound.

A refusal that all of them would meet (a quota, say) is then met by a few and not by each.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Final, TypeVar

__all__ = ["at_once", "batch_sizes", "in_batches"]

T = TypeVar("T")
FIRST: Final = 4
"""Small jobs are then made in one go, and a refusal is met four times at most."""


def batch_sizes(count: int, *, limit: int) -> Iterator[int]:
    """4, 8, 16, … up to the limit, and the rest; ``count`` together."""
    size = min(FIRST, limit)
    while count > 0:
        yield min(size, count)
        count -= size
        size = min(2 * size, limit)


async def in_batches(
    work: Callable[[T], Awaitable[object]], items: Sequence[T], *, limit: int
) -> None:
    """Do this with all items, batch by batch.

    Raises:
        Exception: the first failure; the batch that it is in has ended, later ones are not begun.
    """
    done = 0
    for size in batch_sizes(len(items), limit=limit):
        await at_once(work, items[done : done + size])
        done += size


async def at_once(work: Callable[[T], Awaitable[object]], items: Sequence[T]) -> None:
    """Do this with all items at the same time.

    Raises:
        Exception: the first failure, when all have ended.
    """
    results = await asyncio.gather(*map(work, items), return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
