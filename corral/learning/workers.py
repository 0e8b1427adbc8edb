"""The threads that share the work on large arrays; NumPy lets them run at once.

Results come in the order of the arguments, whatever thread was first.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(cores(), thread_name_prefix="federated")


# a forked process has the executor but not its threads: it would wait for them for ever
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)


def cores() -> int:
    """The cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def spread(function: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """`function` of each item, on all cores when there is more than one item."""
    if len(items) < 2 or cores() == 1:
        return [function(item) for item in items]
    return list(_pool().map(function, items))
