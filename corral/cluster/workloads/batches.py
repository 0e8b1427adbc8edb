"""Many writes at once, in batches that begin small.

A refusal that all of them would meet (a quota, say) is then met a few times and not by each.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from corral.cluster.workloads.pods import slow_start
from corral.kube.connection.transport import KubeConnectionError
from corral.kube.errors import ApiError

__all__ = ["at_once", "in_batches", "namespace_is_going"]

T = TypeVar("T")
Failure = ApiError | KubeConnectionError


async def at_once(work: Callable[[T], Awaitable[object]], items: Sequence[T]) -> list[Failure]:
    """Do this with all items at the same time; the refusals.

    Raises:
        Exception: anything that is no refusal of the server.
    """
    results = await asyncio.gather(*map(work, items), return_exceptions=True)
    failures: list[Failure] = []
    for result in results:
        if isinstance(result, ApiError | KubeConnectionError):
            failures.append(result)
        elif isinstance(result, BaseException):
            raise result
    return failures


async def in_batches(work: Callable[[T], Awaitable[object]], items: Sequence[T]) -> list[Failure]:
    """Do this with all items, 1, 2, 4, … at a time; ends after the first batch with a refusal."""
    done = 0
    for size in slow_start(len(items)):
        failures = await at_once(work, items[done : done + size])
        if failures:
            return failures
        done += size
    return []


def namespace_is_going(error: Exception) -> bool:
    """Whether a creation was refused because the namespace is being deleted."""
    causes = error.details.get("causes") or () if isinstance(error, ApiError) else ()
    return any(cause.get("reason") == "NamespaceTerminating" for cause in causes)
